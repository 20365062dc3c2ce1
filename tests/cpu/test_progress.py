"""Kernels that wait by polling make progress as on a GPU; those that never end, overflow their stack, or throw, end
cleanly."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from tests.cpu.workspace import op_of
from trifold import KernelFault
from trifold.cpu import runtime, settings
from trifold.errors import LaunchError
from trifold.implementation import load_checked_port, load_port
from trifold.limits import COMPUTE_CAPABILITY
from trifold.workspace import OpFiles

Progress = Callable[[Tensor, int], Tensor]

BLOCK = 64
SECONDS = 0.3  # processor time that a launch may take in these tests


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> OpFiles:
    return op_of("progress", tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="module")
def plain(files: OpFiles) -> Progress:
    return load_port(files).function


@pytest.fixture(scope="module")
def checked(files: OpFiles) -> Progress:
    return load_checked_port(files).function


@pytest.fixture(params=["plain", "checked"])
def either(request: pytest.FixtureRequest) -> Progress:
    function: Progress = request.getfixturevalue(request.param)
    return function


def numbers(blocks: int = 2) -> Tensor:
    return torch.arange(blocks * BLOCK, dtype=torch.float32)


def next_launch_is_right(function: Progress) -> None:
    x = numbers(3)
    assert torch.equal(function(x, 0), x.reshape(-1, BLOCK).flip(1).flatten())


def suffix_sums(x: Tensor) -> Tensor:
    """Each block's first element, and those of the blocks after it."""
    result = x.clone()
    result[::BLOCK] = x[::BLOCK].flip(0).cumsum(0).flip(0)
    return result


def sum_in_front(x: Tensor) -> Tensor:
    return torch.cat([x.sum()[None], torch.zeros(x.numel() - 1)])


# ------------------------------------------------------------------------------------------------- polling


@dataclass(frozen=True)
class Polls:
    name: str
    number: int
    expected: Callable[[Tensor], Tensor]
    blocks: int = 1

    def __str__(self) -> str:
        return self.name


POLLS = (
    Polls("a thread polls by an atomic for another of its block", 1, lambda x: torch.full_like(x, BLOCK - 1)),
    Polls("each block polls for the next one", 2, suffix_sums, blocks=40),
    Polls("a volatile load after a barrier", 3, lambda x: x),
    Polls("a volatile load and nanosleep, before any thread has waited", 4, lambda x: x),
    Polls(
        "a lock that all threads take", 5, lambda x: torch.cat([x.sum()[None], torch.zeros(x.numel() - 1)]), blocks=2
    ),
)


@pytest.mark.parametrize("case", POLLS, ids=str)
def test_a_loop_that_polls_gets_what_it_waits_for(case: Polls, either: Progress) -> None:
    x = numbers(case.blocks)
    with runtime.time_limit(10), runtime.schedules(3):
        assert torch.equal(either(x, case.number), case.expected(x))


def test_what_came_before_a_volatile_flag_of_another_block_is_known_right_after_the_loop(checked: Progress) -> None:
    x = numbers(8)
    with runtime.schedules(3):
        assert torch.equal(checked(x, 12), suffix_sums(x))


# ------------------------------------------------------------------------------------------------- a block's state


def reversed_blocks(x: Tensor, threads: int) -> Tensor:
    """Each block's elements from its last on, and the 3 that it has in two more arrays of shared memory."""
    return x.reshape(-1, threads).flip(1).flatten() + 3


@pytest.mark.parametrize(("number", "threads", "blocks"), [(6, 64, 12), (7, 8, 400)])
def test_a_block_that_waits_keeps_its_indices_and_its_shared_memory(
    number: int, threads: int, blocks: int, either: Progress
) -> None:
    x = numbers(blocks * threads // BLOCK)
    for seed in (0, 1, 2):
        with runtime.schedules(1, seed=seed):
            assert torch.equal(either(x, number), reversed_blocks(x, threads))


@pytest.mark.parametrize(
    ("number", "kind", "array", "block"),
    [(8, "race", "tile", (5, 0, 0)), (9, "uninitialised read", "dynamic shared memory", None)],
)
def test_shared_memory_is_checked_in_each_of_the_blocks_that_wait(
    number: int, kind: str, array: str, block: tuple[int, ...] | None, checked: Progress
) -> None:
    for seed in (0, 1, 2):
        with pytest.raises(KernelFault) as caught, runtime.schedules(1, seed=seed):
            checked(numbers(12), number)
        (finding,) = caught.value.findings
        assert (finding.kind, finding.array, finding.memory) == (kind, array, "shared")
        assert block is None or {access.block for access in finding.accesses} == {block}
    next_launch_is_right(checked)


def test_the_address_of_another_blocks_shared_memory_is_out_of_bounds(checked: Progress) -> None:
    with pytest.raises(KernelFault) as caught:
        checked(numbers(2), 11)
    (finding,) = caught.value.findings
    assert (finding.kind, finding.array, finding.memory, finding.index) == ("out-of-bounds", "tile", "shared", (3,))
    assert "it is shared memory of block (0, 0, 0), and a block may touch its own only" in finding.message
    assert finding.accesses[0].block == (1, 0, 0)


def test_a_volatile_load_with_checks_needs_no_barrier(checked: Progress) -> None:
    assert torch.equal(checked(numbers(1), 24), numbers(1))


def test_blocks_that_wait_for_nobody_are_a_deadlock_that_says_who_waits_where(checked: Progress) -> None:
    with pytest.raises(KernelFault) as caught:
        checked(numbers(3), 10)
    (finding,) = caught.value.findings
    assert (finding.kind, finding.kernel) == ("deadlock", "poll_block_kernel<false>")
    assert "thread (0, 0, 0) polls memory at" in finding.message
    assert "progress.cuh" in finding.message and "while (atomicCAS(&flags[b + 1], 1, 1) == 0)" in finding.message
    assert "1 of 3 blocks have exited" in finding.message
    assert finding.accesses[0].operation == "poll"
    next_launch_is_right(checked)


def test_the_plain_build_reports_the_deadlock_when_time_is_up(plain: Progress) -> None:
    with pytest.raises(RuntimeError, match="deadlock in kernel poll_block_kernel<false>"), runtime.time_limit(SECONDS):
        plain(numbers(3), 10)
    next_launch_is_right(plain)


# ------------------------------------------------------------------------------------------------- time

ENDLESS = (
    (20, "endless_kernel", "for (;;) to[block + 3] = 1;"),
    (21, "endless_after_barrier_kernel", "for (;;) to[block + 3] = 1;"),
    (22, "endless_barriers_kernel", "for (;;) __syncthreads();"),
    (23, "endless_silence_kernel", "while (x != nullptr) turns = turns + 1;"),
)


@pytest.mark.parametrize(("number", "kernel", "line"), ENDLESS)
def test_an_endless_loop_ends_with_an_error(number: int, kernel: str, line: str, either: Progress) -> None:
    started = time.monotonic()
    with pytest.raises(RuntimeError, match=f"{kernel}: thread .* still runs after the launch") as caught:  # noqa: SIM117
        with runtime.time_limit(SECONDS):
            either(numbers(2), number)
    assert time.monotonic() - started < 30
    assert "TRIFOLD_KERNEL_SECONDS" in str(caught.value)
    next_launch_is_right(either)


@pytest.mark.parametrize(("number", "kernel", "line"), ENDLESS)
def test_with_checks_the_error_names_the_thread_and_its_line(
    number: int, kernel: str, line: str, checked: Progress
) -> None:
    thread = "thread (3, 0, 0) of block (1, 0, 0)" if number in (20, 21) else "of block (0, 0, 0)"
    with pytest.raises(RuntimeError) as caught, runtime.time_limit(SECONDS):
        checked(numbers(2), number)
    assert thread in str(caught.value)
    assert line in str(caught.value)


def test_the_error_of_a_volatile_poll_that_nothing_sees_says_how_to_poll(plain: Progress) -> None:
    with pytest.raises(RuntimeError, match="has to look at memory by an atomic"), runtime.time_limit(SECONDS):
        plain(numbers(1), 24)
    next_launch_is_right(plain)


def test_a_forked_process_has_a_watchdog_of_its_own(plain: Progress) -> None:
    next_launch_is_right(plain)  # this process's watchdog runs
    child = os.fork()
    if child == 0:
        try:
            with runtime.time_limit(SECONDS):
                plain(numbers(2), 20)
        except RuntimeError as error:
            os._exit(7 if "still runs" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


# ------------------------------------------------------------------------------------------------- stacks


@pytest.mark.parametrize("number", [30, 31])
def test_a_kernel_that_recurses_off_its_stack_ends_with_an_error(number: int, either: Progress) -> None:
    for _ in range(2):
        with pytest.raises(
            RuntimeError, match=r"recursion_kernel<(true|false)>: thread .* has used up its stack of 64 KiB"
        ):
            either(numbers(2), number)
        next_launch_is_right(either)


def test_with_checks_the_stack_overflow_names_its_thread(checked: Progress) -> None:
    with pytest.raises(RuntimeError, match=r"thread \(5, 0, 0\) of block \(1, 0, 0\) has used up its stack") as caught:
        checked(numbers(2), 31)
    assert "progress.cuh" in str(caught.value) and "depth_sum" in str(caught.value)
    assert "TRIFOLD_KERNEL_STACK_KIB" in str(caught.value)


def test_a_frame_that_does_not_fit_the_stack_is_seen_too(either: Progress) -> None:
    with pytest.raises(RuntimeError, match=r"large_frame_kernel: .* has used up its stack"):
        either(numbers(1), 32)
    next_launch_is_right(either)


def test_recursion_that_fits_is_right(either: Progress) -> None:
    result = either(numbers(2), 33)
    assert result[BLOCK + 5] == sum(range(1, 51))


# ------------------------------------------------------------------------------------------------- exceptions


@pytest.mark.parametrize("number", [40, 41])
def test_a_kernels_exception_ends_the_launch(number: int, either: Progress) -> None:
    with pytest.raises(ValueError, match="thread 5 has thrown"):  # std::invalid_argument
        either(numbers(3), number)
    next_launch_is_right(either)


# ------------------------------------------------------------------------------------------------- limits

REFUSED = (
    (50, "large_static_kernel is launched with 53248 bytes of shared arrays of fixed size: .* at most 49152"),
    (51, "a grid of 1 × 70000 × 1 blocks: a grid has at most"),
    (52, "blocks of 1 × 1 × 65 threads: a block has 1 to 1024 threads, in z at most 64"),
    (53, "232448 bytes of dynamic shared memory and 256 of shared arrays: a block has at most 232448"),
    (54, "more threads than the 4278190080 that are supported"),
    (57, "large_template_kernel<float, 13312> is launched with 53248 bytes of shared arrays of fixed size: .* at most"),
    (
        60,
        r"bounded_kernel<float, Threads<63> > is .* blocks of 64 × 1 × 1 threads: its __launch_bounds__ allow 63; take",
    ),
    (62, "bounds::bounded_kernel is launched with blocks of 11 × 3 × 1 threads: its __launch_bounds__ allow 32; take"),
)


@pytest.mark.parametrize(("number", "says"), REFUSED)
def test_a_launch_beyond_a_limit_is_refused_before_it_runs(number: int, says: str, either: Progress) -> None:
    with pytest.raises(RuntimeError, match=says):
        either(numbers(1), number)
    next_launch_is_right(either)


@pytest.mark.parametrize("number", [61, 63, 64])
def test_a_launch_within_its_kernels_bounds_runs(number: int, either: Progress) -> None:
    either(numbers(2), number)


def test_shared_arrays_of_the_functions_that_a_kernel_calls_count_as_built_with_checks(checked: Progress) -> None:
    says = "staged_kernel<26> is launched with 53248 bytes of shared arrays of fixed size: .* at most 49152"
    with pytest.raises(RuntimeError, match=says):
        checked(numbers(1), 55)
    assert torch.equal(checked(numbers(1), 56), numbers(1))  # 40 KiB


def test_the_limits_are_those_of_the_named_compute_capability(plain: Progress) -> None:
    too_much = r"a block has at most 65536 \(compute capability 7.5\)"
    with runtime.compute_capability("sm_75"), pytest.raises(RuntimeError, match=too_much):
        plain(numbers(1), 53)
    next_launch_is_right(plain)
    unknown = r"compute capability '6\.0' is not known"
    with pytest.raises(LaunchError, match=unknown), runtime.compute_capability("6.0"):
        pass


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (settings.KERNEL_SECONDS, "soon"),
        (settings.KERNEL_SECONDS, "-1"),
        (settings.KERNEL_STACK, "0"),
        (COMPUTE_CAPABILITY, "1.0"),
    ],
)
def test_a_wrong_setting_in_the_environment_is_named(variable: str, value: str, plain: Progress) -> None:
    with pytest.raises(LaunchError, match=value):
        settings.apply(runtime._library(), {variable: value})


def test_a_time_limit_is_not_negative() -> None:
    with pytest.raises(ValueError, match="seconds must not be negative, but is -1"), runtime.time_limit(-1):
        pass
