"""Barriers in shared memory and its 32-bit addresses: right kernels, and each mistake as one line of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.host.mbarrier_mistakes import MISTAKES, TEXT, Mistake
from trifold import KernelFault
from trifold.errors import LaunchError
from trifold.findings import Finding
from trifold.host import RawKernel, runtime

HERE = Path(__file__).parent
ADDRESSES = HERE / "addresses.cu"
SEEDS = 20
ROWS = 10
Array = np.ndarray


@contextmanager
def os_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ------------------------------------------------------------------------------------------------- right kernels


@dataclass(frozen=True)
class Case:
    """A kernel of mbarriers.cu, in blocks of 64 threads.

    Attributes:
        rows: of 32 numbers that two warps pass on, or phases: the last argument; 0: there is none.
        result: what it makes of x, of which each block has 64 numbers, or ``rows`` times 32.
    """

    name: str
    rows: int
    result: Callable[[Array], Array]

    def run(self, kernel: RawKernel, blocks: int) -> tuple[Array, Array]:
        """What it gives and what it should."""
        of_block = 32 * self.rows if self.name.startswith("ring") else 64
        x = np.random.default_rng(1).standard_normal(blocks * of_block).astype(np.float32)
        y = np.zeros_like(x)
        kernel(blocks, 64, (x, y, self.rows) if self.rows else (x, y))
        return y, self.result(x)


def backwards(x: Array) -> Array:
    return x.reshape(-1, 32)[:, ::-1].ravel()


def other_half(x: Array) -> Array:
    return x.reshape(-1, 2, 32)[:, ::-1].ravel()


def of_block_before(x: Array) -> Array:
    return np.roll(x.reshape(-1, 4, 64), 1, axis=1).ravel()


CASES = {
    case.name: case
    for case in (
        Case("ring", ROWS, backwards),
        Case("ring_of_ptx", ROWS, backwards),
        Case("phases", 5, np.copy),
        Case("twice", 0, other_half),
        Case("neighbours", 0, of_block_before),
        Case("neighbours_by_pointers", 0, of_block_before),
        Case("relaxed", 0, other_half),
        Case("classes", 0, other_half),
    )
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [1, 4])
def test_a_right_kernel_runs_on_threads_of_the_host(name: str, count: int) -> None:
    with os_threads(count):
        got, expected = CASES[name].run(RawKernel(TEXT, name, checks=False), 1200)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_found_in_a_right_kernel(name: str) -> None:
    with runtime.schedules(SEEDS):
        got, expected = CASES[name].run(RawKernel(TEXT, name), 8)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("checks", [False, True])
def test_counts_states_bytes_and_arrivals_that_drop_out(checks: bool) -> None:
    wrong = np.zeros(16, np.uint32)
    RawKernel(TEXT, "counts", checks=checks)(3, 64, (wrong,))
    assert not wrong.any()


@pytest.mark.parametrize("checks", [False, True])
@pytest.mark.parametrize("count", [1, 4])
def test_addresses_of_shared_memory(checks: bool, count: int) -> None:
    wrong = np.zeros(16, np.uint32)
    with os_threads(count), runtime.schedules(4):
        RawKernel(ADDRESSES, "addresses", checks=checks)(400 if not checks else 4, 32, (wrong,), shared_mem=1024)
    assert not wrong.any()


# ------------------------------------------------------------------------------------------------- mistakes


def found_in(case: Mistake, seed: int) -> Finding | None:
    kernel = RawKernel(case.text, case.kernel)
    try:
        with runtime.schedules(1, seed=seed):
            if case.kernel == "counts":
                kernel(1, 64, (np.zeros(16, np.uint32),))
            else:
                CASES[case.kernel].run(kernel, 4)
    except KernelFault as fault:
        (finding,) = fault.findings
        return finding
    return None


@pytest.mark.parametrize("case", MISTAKES, ids=str)
def test_another_line_is_found(case: Mistake) -> None:
    findings = [found_in(case, seed) for seed in range(SEEDS if case.most else 5)]
    found = [finding for finding in findings if finding is not None]
    assert len(found) > len(findings) * 3 // 4 if case.most else len(found) == len(findings)
    for finding in found:
        assert finding.kind in case.kinds.split(" or "), str(finding)
        assert re.search(case.message, finding.message, re.DOTALL), str(finding)
        lines = [case.text.splitlines()[access.line - 1] for access in finding.accesses]
        assert all(any(mark in line for line in lines) for mark in case.marks), str(finding)


ADDRESS_MISTAKES = {
    1: "the address of shared memory of block [01] of its cluster, in an instruction for its own block's only",
    2: r"index 32 is out of bounds .*tile\[32\]|tile\[32\] .*index 32 is out of bounds",
    3: "accesses, .*a null pointer",
    4: "a pointer that leads to no shared memory",
    5: "an address of block 6 of its cluster, which has 2",
}


@pytest.mark.parametrize("which", ADDRESS_MISTAKES)
def test_an_address_that_is_none_is_out_of_bounds(which: int) -> None:
    with pytest.raises(KernelFault, match=ADDRESS_MISTAKES[which]) as caught:
        RawKernel(ADDRESSES, "reads")(2, 32, (np.zeros(64, np.float32), which))
    (finding,) = caught.value.findings
    assert finding.kind == "out-of-bounds"
    line = finding.accesses[0].line
    assert f"which == {which}" in "".join(ADDRESSES.read_text(encoding="utf-8").splitlines()[line - 2 : line])


# ------------------------------------------------------------------------------------------------- deadlocks

STUCK = """#include <cuda/ptx>
namespace ptx = cuda::ptx;
__global__ void stuck(int bytes) {
  __shared__ uint64_t full[2], last;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full[0], 32);
    ptx::mbarrier_init(&full[1], 1);
    ptx::mbarrier_init(&last, 1);
  }
  __syncthreads();
  if (threadIdx.x < 24) ptx::mbarrier_arrive(&full[0]);
  if (threadIdx.x == 0)
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[1], bytes);
  if (threadIdx.x == 63) return;
  while (!ptx::mbarrier_try_wait_parity(&full[threadIdx.x / 32], 0)) {}
  ptx::mbarrier_arrive(&last);
}
"""
REPORT = """deadlock in kernel stuck: no thread of block (0, 0, 0) can go on.
  mbarrier full[0]: to phase 0, 24 of 32 arrivals have come
  mbarrier full[1]: to phase 0, 1 of 1 arrival has come, and 512 bytes are missing
  threads (0..31, 0, 0) wait in mbarrier.try_wait() for the end of phase 0 of full[0] at FILE:15 (LINE)
  threads (32..62, 0, 0) wait in mbarrier.try_wait() for the end of phase 0 of full[1] at FILE:15 (LINE)
  thread (63, 0, 0) has exited
A phase of an mbarrier ends when as many arrivals have come as it was initialised for, and as many bytes as were \
expected: see that the count is that of the threads that arrive, that the bytes are those of the copies, and that each \
wait asks for the parity of the barrier's own phase.""".replace("\\\n", "")


@pytest.mark.parametrize("seed", range(3))
def test_a_deadlock_says_what_each_phase_lacks_and_who_waits_where(seed: int) -> None:
    kernel = RawKernel(STUCK, "stuck")
    with pytest.raises(KernelFault) as caught, runtime.schedules(1, seed=seed):
        kernel(1, 64, (512,))
    (finding,) = caught.value.findings
    message = re.sub(r"stuck-\w+\.cu", "FILE", finding.message)
    assert message.replace(STUCK.splitlines()[14].strip(), "LINE") == REPORT


def test_the_plain_build_knows_of_the_deadlock_too() -> None:
    with pytest.raises(LaunchError, match=r"no thread of block \(0, 0, 0\) can go on(.|\n)*512 bytes are missing"):
        RawKernel(STUCK, "stuck", checks=False)(1, 64, (512,))


def test_a_loop_that_gives_up_after_some_tries_is_no_deadlock() -> None:
    tries = STUCK.replace("while (!ptx", "for (int i = 0; i < 20 && !ptx").replace("0)) {}", "0); ++i) {}")
    with pytest.raises(KernelFault, match="but no test_wait or try_wait has seen that phase 0 has ended"):
        RawKernel(tries, "stuck")(1, 64, (512,))


def test_a_state_two_phases_old_is_a_mistake() -> None:
    text = """#include <cuda/ptx>
__global__ void late() {
  __shared__ uint64_t barrier;
  cuda::ptx::mbarrier_init(&barrier, 1);
  const uint64_t state = cuda::ptx::mbarrier_arrive(&barrier);
  for (int i = 0; i < 2; ++i) {
    cuda::ptx::mbarrier_test_wait_parity(&barrier, i);
    if (i == 0) cuda::ptx::mbarrier_arrive(&barrier);
  }
  cuda::ptx::mbarrier_test_wait(&barrier, state);
}
"""
    with pytest.raises(
        KernelFault, match="for the end of phase 0, but it is in phase 2: a state is good for the phase"
    ):
        RawKernel(text, "late")(1, 1, ())


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
@pytest.mark.parametrize("name", ["mbarriers.cu", "addresses.cu"])
def test_nvcc_compiles_the_same_text(name: str, tmp_path: Path) -> None:
    command: list[str | Path] = ["nvcc", "-std=c++17", "-arch=sm_90", "-c", HERE / name, "-o", tmp_path / "compiled.o"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
