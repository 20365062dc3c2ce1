"""Threads that wait for each other in vain: each kind of divergence and deadlock, and the words for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tests.simulator.handwritten import here, launch, x_y_z
from trifold import KernelFault, _simulator
from trifold._simulator import blockIdx, threadIdx
from trifold.findings import Finding, KernelWarning

ALL = 0xFFFFFFFF


def fault(kernel: Callable[..., Any], **configuration: Any) -> Finding:
    """The finding in which the kernel ends, in its natural order and in five others."""
    findings = []
    for seed in range(6):
        with pytest.raises(KernelFault) as caught:
            launch(kernel, seed=seed, **configuration)
        (finding,) = caught.value.findings
        assert finding.seed == seed
        findings.append(finding)
    assert len({(f.kind, f.severity, f.kernel) for f in findings}) == 1
    return findings[0]


def lines_of(finding: Finding, kernel: Callable[..., Any]) -> set[int]:
    """The accesses' lines, counted from the kernel's first."""
    assert {access.file for access in finding.accesses} == {__file__}
    return {access.line - kernel.__code__.co_firstlineno for access in finding.accesses}


def test_threads_at_different_barriers() -> None:
    def kernel() -> Any:
        if threadIdx.x < 5:
            yield here()
        else:
            yield here()

    finding = fault(kernel, grid=3, block=(40, 2))
    assert (finding.kind, finding.severity) == ("barrier divergence", "error")
    assert lines_of(finding, kernel) == {2, 4}
    assert "threads (0..4, 0..1, 0) wait in syncthreads() at" in finding.message
    assert "threads (5..39, 0..1, 0) wait in syncthreads() at" in finding.message
    assert "test_divergence.py:" in finding.message


def test_a_barrier_that_only_a_part_comes_to_and_a_warp_operation() -> None:
    def kernel() -> Any:
        if threadIdx.x == 3:
            yield here()
        else:
            yield here(), _simulator.OP_ALL, ALL, True

    finding = fault(kernel, block=64)
    assert finding.kind == "warp divergence"
    assert lines_of(finding, kernel) == {2, 4}
    assert "lanes 0..2, 4..31 of warp 0 of block (0, 0, 0) wait for lane 3, which the mask names" in finding.message


def test_a_barrier_after_some_threads_have_exited_is_a_warning() -> None:
    def kernel() -> Any:
        if threadIdx.x >= 24:
            return
        yield here()
        yield here()

    with pytest.warns(KernelWarning) as caught:
        launch(kernel, grid=10, block=32)
    assert len(caught) == 2  # one for each barrier, not for each block
    text = str(caught[0].message)
    assert "threads (24..31, 0, 0) of block (0, 0, 0) have exited before syncthreads() at" in text
    assert "where the other 24 wait" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KernelWarning):
            launch(kernel, block=32)
    launch(kernel, block=24)


def test_a_lane_outside_its_own_mask() -> None:
    def kernel() -> Any:
        yield here(), _simulator.OP_SYNCWARP, 0x0F

    finding = fault(kernel, block=5)
    assert finding.kind == "warp divergence"
    assert finding.accesses[0].thread == (4, 0, 0)
    assert (
        "is lane 4 of its warp and calls syncwarp with mask 0x0000000f, which does not name lane 4" in finding.message
    )


@pytest.mark.parametrize(
    "calls",
    [
        lambda: [(here(), _simulator.OP_SHFL, 0xFF, 1, 0), (here(), _simulator.OP_SHFL, 0xFF, 1, 0)],
        lambda: [(here(), _simulator.OP_SYNCWARP, 0xFF), (here(), _simulator.OP_SYNCWARP, 0x1FF)],
        lambda: [(here(), _simulator.OP_ALL, 0xFF, 1), (here(), _simulator.OP_ANY, 0xFF, 1)],
        lambda: [(here(), _simulator.OP_BALLOT, 0xFF, 1), (here(), _simulator.OP_MATCH_ANY, 0xFF, 1)],
    ],
    ids=["lines", "masks", "operations", "kinds"],
)
def test_lanes_that_name_each_other_but_call_differently(calls: Callable[[], list[tuple[Any, ...]]]) -> None:
    one, other = calls()[0], calls()[1]
    if one[0] == other[0]:
        other = (here(), *other[1:])

    def kernel() -> Any:
        yield one if threadIdx.x == 0 else other

    finding = fault(kernel, block=8)
    assert finding.kind == "warp divergence"
    assert "name each other in their masks but make different calls" in finding.message
    assert "lane 0 waits" in finding.message
    assert "lanes 1..7 wait" in finding.message


def test_a_grid_barrier_of_which_blocks_take_different_ones() -> None:
    def kernel() -> Any:
        if blockIdx.x == 2:
            yield here(), _simulator.OP_GRID_SYNC
        else:
            yield here(), _simulator.OP_GRID_SYNC

    finding = fault(kernel, grid=4, block=3)
    assert finding.kind == "barrier divergence"
    assert lines_of(finding, kernel) == {2, 4}


def test_a_grid_barrier_that_a_block_never_comes_to() -> None:
    def kernel() -> Any:
        if blockIdx.x == 2:
            return
        yield here(), _simulator.OP_GRID_SYNC

    finding = fault(kernel, grid=4, block=3)
    assert finding.kind == "deadlock"
    assert lines_of(finding, kernel) == {3}
    assert "1 of 4 blocks have exited" in finding.message
    assert "threads (0..2, 0, 0) wait in grid.sync() at" in finding.message


def test_threads_that_poll_in_vain() -> None:
    def kernel() -> Any:
        if threadIdx.x >= 30:
            while True:
                yield here(), _simulator.OP_POLL
        yield here()

    finding = fault(kernel, grid=2, block=40)
    assert finding.kind == "deadlock"
    assert lines_of(finding, kernel) == {3, 4}
    for words in (
        "no thread can go on: nobody has changed memory while threads looked",
        "block (0, 0, 0):",
        "threads (30..39, 0, 0) poll memory at",
        "threads (0..29, 0, 0) wait in syncthreads() at",
    ):
        assert words in finding.message


def test_a_block_that_waits_for_one_that_cannot_be_resident() -> None:
    done: list[int] = []

    def kernel() -> Any:
        while blockIdx.x != 999 and not done:
            yield here(), _simulator.OP_POLL
        done.append(blockIdx.x)

    with pytest.raises(KernelFault) as caught:
        launch(kernel, grid=1000, limits=(0, 0, 4, 64, 2, 1 << 16))
    (finding,) = caught.value.findings
    assert finding.kind == "deadlock"
    assert "992 blocks have not started: the device holds 8 of these blocks at a time" in finding.message


def test_the_fault_is_raised_at_the_line_where_a_thread_waits() -> None:
    def kernel() -> Any:
        if threadIdx.x:
            yield here()
        yield here()

    with pytest.raises(KernelFault) as caught:
        launch(kernel, block=2)
    assert caught.traceback[-1].name == "kernel"
    assert caught.traceback[-1].lineno - kernel.__code__.co_firstlineno + 1 in (2, 3)


@pytest.mark.parametrize(
    ("block", "first", "words"),
    [
        (32, lambda t: t == 7, "thread (7, 0, 0) waits"),
        (32, lambda t: t % 2, "threads (1..31 step 2, 0, 0) wait"),
        (32, lambda t: t in (3, 4, 9), "threads (3..4, 0, 0), (9, 0, 0) wait"),
        ((8, 4, 2), lambda t: t % 8 < 3, "threads (0..2, 0..3, 0..1) wait"),
        ((8, 4, 2), lambda t: t // 8 == 5, "threads (0..7, 1, 1) wait"),
        ((1, 6), lambda t: t < 5, "threads (0, 0..4, 0) wait"),
        (96, lambda t: t * t % 11 < 2, "and 9 more wait"),
    ],
    ids=["one", "step", "gaps", "box", "row", "column", "many"],
)
def test_threads_are_listed_in_few_words(block: Any, first: Callable[[int], bool], words: str) -> None:
    x, y, _ = x_y_z(block)

    def kernel() -> Any:
        if first(threadIdx.x + x * (threadIdx.y + y * threadIdx.z)):
            yield here()
        yield here()

    assert words in fault(kernel, block=block).message
