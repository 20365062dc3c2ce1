"""Kernels in C++ on the CPU: barriers, warps and atomics have CUDA's results, and checks find mistakes."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.cpu.workspace import op_of
from trifold import KernelFault, OutOfBounds
from trifold.cpu import runtime
from trifold.findings import collect
from trifold.implementation import load_checked_port, load_port
from trifold.workspace import OpFiles

Cases = Callable[[Tensor, int], Tensor]

BLOCK = 64


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> OpFiles:
    return op_of("cases", tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="module")
def plain(files: OpFiles) -> Cases:
    return load_port(files).function


@pytest.fixture(scope="module")
def checked(files: OpFiles) -> Cases:
    return load_checked_port(files).function


def numbers(blocks: int = 1) -> Tensor:
    return torch.arange(blocks * BLOCK, dtype=torch.float32) % 13


def reversed_blocks(x: Tensor) -> Tensor:
    return x.reshape(-1, BLOCK).flip(1).flatten()


def warp_sums(x: Tensor) -> Tensor:
    return x.reshape(-1, 32).sum(1).repeat_interleave(32)


def in_front(x: Tensor, values: Tensor) -> Tensor:
    return torch.cat([values, torch.zeros(x.numel() - values.numel())])


@dataclass(frozen=True)
class Right:
    """A right kernel: its number, its blocks, and the expected result."""

    name: str
    number: int
    expected: Callable[[Tensor], Tensor]
    blocks: int = 1

    def __str__(self) -> str:
        return self.name


RIGHT = (
    Right("a barrier between write and read", 0, reversed_blocks, blocks=5),
    Right("a tree of sums", 2, lambda x: x.sum().repeat(BLOCK)),
    Right("three shared arrays", 4, lambda x: x),
    Right("dynamic shared memory", 7, reversed_blocks),
    Right("shared memory that is written whole", 9, torch.ones_like),
    Right("a guarded tail", 11, lambda x: x, blocks=3),
    Right("barriers that count, and, or", 15, lambda x: torch.full_like(x, 2211.0)),
    Right("shuffles, votes and matches", 16, warp_sums),
    Right("a warp's own barrier", 17, lambda x: x.reshape(-1, 2).flip(1).flatten()),
    Right("a block of two dimensions", 22, lambda x: x.reshape(8, 8).T.flatten()),
    Right("atomics of several blocks", 100, lambda x: in_front(x, x.reshape(-1, BLOCK)[:, :2].sum(0)), blocks=7),
    Right(
        "the last block sums",
        102,
        lambda x: in_front(x, torch.cat([x[::BLOCK].sum()[None], x[::BLOCK]])),
        blocks=9,
    ),
)


@pytest.mark.parametrize("case", RIGHT, ids=str)
def test_a_right_kernel_gives_cudas_result(case: Right, plain: Cases) -> None:
    x = numbers(case.blocks)
    assert torch.equal(plain(x, case.number), case.expected(x))


@pytest.mark.parametrize("case", RIGHT, ids=str)
def test_checks_find_nothing_in_a_right_kernel(case: Right, checked: Cases) -> None:
    x = numbers(case.blocks)
    with runtime.schedules(4), collect() as found:
        assert torch.equal(checked(x, case.number), case.expected(x))
    assert found == []


@dataclass(frozen=True)
class Faulty:
    """A wrong kernel: its number, and its finding; ``line`` is a part of the line of the finding."""

    name: str
    number: int
    kind: str
    memory: str
    array: str
    index: tuple[int, ...]
    line: str
    blocks: int = 1

    def __str__(self) -> str:
        return self.name


WRONG = (
    Faulty("no barrier in a tree of sums", 3, "race", "shared", "sums", (1,), "if (t < half) sums[t] +="),
    Faulty("shared memory, one too far", 5, "out-of-bounds", "shared", "tile", (64,), "y[t] = tile[t + offset]"),
    Faulty("shared memory, one before", 6, "out-of-bounds", "shared", "tile", (-1,), "y[t] = tile[t + offset]"),
    Faulty(
        "dynamic shared memory, too small", 8, "out-of-bounds", "shared", "dynamic shared memory", (63,), "tile[t] = x"
    ),
    Faulty("the last is not written", 10, "uninitialised read", "shared", "tile", (63,), "y[t] = tile[t];"),
    Faulty("i <= n", 12, "out-of-bounds", "global", "x", (128,), "if (i < n + beyond) y[i] = x[i];", blocks=2),
    Faulty("a sum without an atomic", 101, "race", "global", "y", (0,), "y[0] += x[", blocks=2),
    Faulty("a sum that nobody begins", 23, "uninitialised read", "global", "y", (0,), "y[0] += x["),
    Faulty("no fence before the last block", 103, "race", "global", "y", (1,), "y[0] += y[1 + b]", blocks=3),
    Faulty("no syncwarp", 18, "race", "shared", "tile", (1,), "tile[t] = x[t]"),
    Faulty("a vector at an odd address", 21, "misaligned", "global", "x", (1,), "reinterpret_cast<const Four*>"),
    Faulty("different barriers", 13, "barrier divergence", "", "", (), "__syncthreads();"),
    Faulty("a mask without the caller", 19, "warp divergence", "", "", (), "__ballot_sync(0xffu, 1)"),
)


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_a_wrong_kernel_is_found(case: Faulty, checked: Cases, plain: Cases) -> None:
    with pytest.raises(KernelFault) as caught:
        checked(numbers(case.blocks), case.number)
    (finding,) = caught.value.findings
    assert (finding.kind, finding.memory, finding.array, finding.index) == (
        case.kind,
        case.memory,
        case.array,
        case.index,
    )
    assert isinstance(caught.value, OutOfBounds) == (case.kind == "out-of-bounds")
    access = finding.accesses[0]
    assert Path(access.file).name == "cases.cuh"
    assert case.line in Path(access.file).read_text().splitlines()[access.line - 1]
    # and the next launch is right
    assert torch.equal(checked(numbers(), 0), reversed_blocks(numbers()))


def test_a_race_that_the_natural_order_hides_is_found_by_both_accesses(checked: Cases) -> None:
    with pytest.raises(KernelFault) as caught, runtime.schedules(4, seed=1):
        checked(numbers(), 1)
    (finding,) = caught.value.findings
    assert finding.kind in ("race", "uninitialised read")
    assert finding.seed is not None
    assert finding.replay == f"replay: --seed {finding.seed}"
    assert finding.seed is not None
    with pytest.raises(KernelFault) as again, runtime.schedules(1, seed=finding.seed):
        checked(numbers(), 1)
    assert again.value.findings == (finding,)


def test_threads_that_exit_before_a_barrier_are_a_warning(checked: Cases) -> None:
    with pytest.warns(match="have exited"), collect() as found:
        checked(numbers(), 14)
    assert [(finding.kind, finding.severity) for finding in found] == [("barrier divergence", "warning")]


def test_the_plain_build_reports_divergence_and_goes_on(plain: Cases) -> None:
    with pytest.raises(RuntimeError, match="barrier divergence in kernel two_barriers_kernel"):
        plain(numbers(), 13)
    with pytest.raises(RuntimeError, match="warp divergence"):
        plain(numbers(), 19)
    assert torch.equal(plain(numbers(3), 0), reversed_blocks(numbers(3)))


def test_an_error_of_the_call_itself_is_no_finding(checked: Cases) -> None:
    with pytest.raises(RuntimeError, match="no such case") as caught:
        checked(numbers(), 99)
    assert not isinstance(caught.value, KernelFault)


@pytest.mark.parametrize(("number", "says"), [(24, "a block has 1 to 1024"), (25, "a block has at most 232448")])
def test_a_launch_that_no_device_takes_is_refused(number: int, says: str, plain: Cases, checked: Cases) -> None:
    for function in (plain, checked):
        with pytest.raises(RuntimeError, match=says):
            function(numbers(), number)


def test_blocks_with_barriers_run_on_several_threads_of_the_cpu(plain: Cases) -> None:
    x = numbers(1000)
    assert torch.equal(plain(x, 0), reversed_blocks(x))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: plain(x, 0), range(8)))
    assert all(torch.equal(result, reversed_blocks(x)) for result in results)


def test_what_a_library_says_for_debuggers_is_read_once_for_a_kernel(
    checked: Cases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, times = tmp_path / "addr2line", tmp_path / "times"
    reader.write_text(f'#!/bin/sh\necho >>"{times}"\nexec "{shutil.which("addr2line")}" "$@"\n')
    reader.chmod(0o755)
    times.touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for _ in range(4):
        checked(numbers(5), 0)
    assert len(times.read_text()) <= 1  # none, if another test has launched it


def test_schedules_are_checked() -> None:
    with pytest.raises(ValueError, match="count must be at least 1, not 0"), runtime.schedules(0):
        pass
    with (
        pytest.raises(ValueError, match=re.escape("seed must not be negative, but is -1")),
        runtime.schedules(1, seed=-1),
    ):
        pass
