"""Asynchronous operations: right kernels in every order, and each mistake as one line of them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.host.workspace import op_of
from trifold import KernelFault
from trifold.findings import Finding, KernelWarning, collect
from trifold.host import RawKernel, runtime
from trifold.implementation import load_checked_port, load_port
from trifold.workspace import OpFiles

Copies = Callable[[Tensor, int, int], Tensor]

TILE = 256
SEEDS = 20
SOURCE = Path(__file__).with_name("async_copies.cuh").read_text(encoding="utf-8").splitlines()

# In the order of async_copies.cu.
KERNELS = (
    "store", "rounds", "load", "flag", "copied", "groups", "ring", "pipeline", "late_arrival", "multicast", "gather",
    "messages", "functions", "group_copies", "no_fence", "ptx_functions",
)  # fmt: skip


def mistakes() -> tuple[str, ...]:
    """The enumerators of Mistake."""
    begin = next(i for i, line in enumerate(SOURCE) if line.startswith("enum class Mistake"))
    lines = SOURCE[begin + 1 : SOURCE.index("};", begin)]
    return tuple(name for line in lines for name in re.findall(r"\w+", line.split("//")[0]))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> OpFiles:
    return op_of("async_copies", tmp_path_factory.mktemp("workspace"))


@pytest.fixture(scope="module")
def plain(files: OpFiles) -> Copies:
    return load_port(files).function


@pytest.fixture(scope="module")
def checked(files: OpFiles) -> Copies:
    return load_checked_port(files).function


@contextmanager
def os_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def tiles(kernel: str) -> Tensor:
    """Of the kernel: as many as its blocks are."""
    count = {"flag": 1, "messages": 8}.get(kernel, 4)
    return torch.arange(count * TILE, dtype=torch.float32) % 61


def expected(kernel: str, x: Tensor) -> Tensor:
    """2 x; where blocks send to the next one of four, of the block before."""
    return 2 * (x.reshape(-1, 4, TILE).roll(1, 1).flatten() if kernel == "messages" else x)


# ------------------------------------------------------------------------------------------------- right kernels


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_right_kernel_is_clean_and_gives_the_same_early_and_late(kernel: str, checked: Copies) -> None:
    """Seeds draw for each operation whether it ends at its start, late, or meanwhile, in parts."""
    x = tiles(kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        for seed in range(SEEDS):
            with runtime.schedules(1, seed=seed):
                assert torch.equal(checked(x, KERNELS.index(kernel), 0), expected(kernel, x)), seed


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_right_kernel_runs_without_checks(kernel: str, threads: int, plain: Copies) -> None:
    x = tiles(kernel).repeat(1 if kernel == "flag" else 8)
    with os_threads(threads):
        assert torch.equal(plain(x, KERNELS.index(kernel), 0), expected(kernel, x))


def test_operations_are_late_where_nothing_waits_for_them(plain: Copies) -> None:
    """What a kernel reads too early has not come yet, without checks as well."""
    x = tiles("late_arrival") + 1
    assert not torch.equal(plain(x, KERNELS.index("late_arrival"), mistakes().index("arrives_before_copies")), 2 * x)


# ------------------------------------------------------------------------------------------------- mistakes


@dataclass(frozen=True)
class Mistake:
    """What is found in every schedule. Lines: the marks of those of the accesses; empty: whichever they are."""

    kernel: str
    name: str
    kind: str
    lines: tuple[str, ...] = ()
    message: str = ""

    def __str__(self) -> str:
        return f"{self.kernel}: {self.name}"


UNFENCED = "ordered, but not for the async proxy.*fence.proxy.async after that, before the barrier"
PENDING = "Nothing orders the two.*has waited for"
MISTAKES = (
    Mistake("store", "no_fence", "race", ("// written", "// stored"), UNFENCED),
    Mistake("store", "written_too_early", "race", ("// stored", "// too early"), "source of a bulk operation is free"),
    Mistake(
        "store", "no_wait_at_the_end", "lifetime", ("// stored",), "exits without having waited.*wait_group.read 0"
    ),
    Mistake("rounds", "fence_in_the_loop", "race", ("// written", "// stored"), UNFENCED),
    Mistake("load", "no_fence_after_a_read", "race", ("// read", "// loaded"), UNFENCED),
    Mistake("load", "no_await", "race or uninitialised read", ("// read",)),
    Mistake("load", "expects_too_much", "deadlock", (), "64 bytes are missing"),
    Mistake("load", "expects_too_little", "race", ("// read", "// loaded"), PENDING),
    Mistake("load", "odd_target", "misaligned", ("// loaded",), "no multiple of 16"),
    Mistake("load", "odd_size", "misaligned", ("// loaded",), "with 508 bytes, and it moves only multiples of 16"),
    Mistake("flag", "no_fence_of_global", "race", ("// written", "// loaded"), UNFENCED),
    Mistake("copied", "no_fence_after_copy", "race", ("// copied", "// stored"), UNFENCED),
    Mistake("groups", "no_wait", "race", ("// copied", "// read"), PENDING),
    Mistake("groups", "written_too_early", "race", ("// copied", "// too early"), PENDING),
    Mistake("groups", "some_wait", "race", ("// copied last", "// read last"), "a syncthreads that comes after"),
    Mistake("groups", "lane_waits_for_all", "race or uninitialised read", ("// read",)),
    Mistake(
        "ring", "one_group_too_many", "race", ("// stored", "// refilled"), "leaves no group of the source pending"
    ),
    Mistake("ring", "waits_for_read_only", "race", ("// stored", "// its target"), "without .read"),
    Mistake("pipeline", "no_empty_barrier", "race or barrier misuse"),
    Mistake("late_arrival", "arrives_before_copies", "race", ("// copied", "// read"), PENDING),
    Mistake("multicast", "receiver_expects_none", "race or deadlock"),
    Mistake("multicast", "receiver_not_ready", "race", ("// not ready",)),
    Mistake("multicast", "rank_outside", "out-of-bounds", (), "names rank 2 of the cluster, which has 2 blocks"),
    Mistake("gather", "expects_one_of_two", "race or uninitialised read", ("// gathered",)),
    Mistake("messages", "no_await", "race or uninitialised read", ("// received",)),
    Mistake("messages", "sends_to_the_ended", "lifetime", ("st.async",)),
    Mistake("functions", "no_wait", "race", ("// copied", "// read"), PENDING),
    Mistake("group_copies", "no_wait", "race", ("// copied last", "// read last"), PENDING),
    Mistake(
        "ptx_functions",
        "no_await",
        "race",
        ("// sent by st_async", "// reduced"),
        "complete for those that have waited",
    ),
)


def found_in(function: Copies, case: Mistake, seed: int) -> Finding:
    with pytest.raises(KernelFault) as caught, runtime.schedules(1, seed=seed):
        function(tiles(case.kernel), KERNELS.index(case.kernel), mistakes().index(case.name))
    (finding,) = caught.value.findings
    return finding


@pytest.mark.parametrize("case", MISTAKES, ids=str)
def test_what_is_wrong_is_found_in_every_schedule(case: Mistake, checked: Copies) -> None:
    for seed in range(SEEDS):
        finding = found_in(checked, case, seed)
        assert finding.kind in case.kind.split(" or "), (seed, finding)
        lines = [SOURCE[access.line - 1] for access in finding.accesses]
        assert all(any(mark in line for line in lines) for mark in case.lines), (seed, finding)
        if finding.kind == case.kind:
            assert re.search(case.message, finding.message, re.DOTALL), (seed, finding.message)
        if finding.kind == "race":
            assert any(access.instruction for access in finding.accesses), (seed, finding)


@pytest.mark.parametrize("kernel", ["store", "flag"])
def test_a_fence_of_the_issuer_alone_is_a_warning(kernel: str, checked: Copies) -> None:
    """Where every thread fences behind the barrier, or the one that has acquired a flag: both are in use."""
    x = tiles(kernel)
    with collect() as found, warnings.catch_warnings(), runtime.schedules(1):
        warnings.simplefilter("ignore", KernelWarning)
        result = checked(x, KERNELS.index(kernel), mistakes().index("fence_after_barrier"))
    assert torch.equal(result, 2 * x)
    (warning,) = found
    assert warning.kind == "race" and warning.severity == "warning"
    assert "Only the thread that starts it fences" in warning.message


DEADLOCK = """\
deadlock in kernel load: no thread of block (0, 0, 0) can go on.
  mbarrier full: to phase 0, 1 of 1 arrival has come, and 64 bytes are missing
  threads (0..31, 0, 0) wait in mbarrier.try_wait() for the end of phase 0 of full at load.cu:14"""

# Bytes that are expected, of 512 that come.
LOAD = """
#include <cuda/ptx>
__global__ void load(const float* x, float* y, int bytes) {
  namespace ptx = cuda::ptx;
  __shared__ __align__(16) float tile[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, bytes);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, x, 512, &full);
  }
  __syncthreads();
  for (int phase = 0; phase < PHASES; ++phase)
    while (!ptx::mbarrier_try_wait_parity(&full, phase)) continue;
  y[threadIdx.x] = tile[threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("bytes_", "phases", "words"),
    [
        (576, 1, DEADLOCK),
        (
            256,
            2,
            "mbarrier full: to phase 1, 0 of 1 arrival has come, and 256 bytes have come that it does not expect",
        ),
    ],
)
def test_a_deadlock_says_how_many_bytes_are_missing_or_over(
    bytes_: int, phases: int, words: str, tmp_path: Path
) -> None:
    source = tmp_path / "load.cu"
    source.write_text(LOAD, encoding="utf-8")
    kernel = RawKernel(source, "load", (f"-DPHASES={phases}",))
    x, y = np.ones(128, np.float32), np.zeros(32, np.float32)
    with pytest.raises(KernelFault) as caught:
        kernel(1, 32, (x, y, bytes_))
    assert words in str(caught.value)
