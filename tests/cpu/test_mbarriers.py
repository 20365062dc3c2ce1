"""32-bit addresses of shared memory, and the messages of deadlocks at barriers in it (kernels:
catalogue/asynchronous)."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from trifold import KernelFault
from trifold.cpu import RawKernel, runtime
from trifold.errors import LaunchError

ADDRESSES = Path(__file__).with_name("addresses.cu")


@contextmanager
def os_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("checks", [False, True])
@pytest.mark.parametrize("count", [1, 4])
def test_addresses_of_shared_memory(checks: bool, count: int) -> None:
    wrong = np.zeros(16, np.uint32)
    with os_threads(count), runtime.schedules(4):
        RawKernel(ADDRESSES, "addresses", checks=checks)(400 if not checks else 4, 32, (wrong,), shared_mem=1024)
    assert not wrong.any()


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


DEADLOCK = """\
deadlock in kernel load: no thread of block (0, 0, 0) can go on.
  mbarrier full: to phase 0, 1 of 1 arrival has come, and 64 bytes are missing
  threads (0..31, 0, 0) wait in mbarrier.try_wait() for the end of phase 0 of full at load.cu:14"""

# The expected bytes, of 512 that arrive.
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
def test_nvcc_compiles_the_same_text(tmp_path: Path) -> None:
    command: list[str | Path] = ["nvcc", "-std=c++17", "-arch=sm_90", "-c", ADDRESSES, "-o", tmp_path / "compiled.o"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
