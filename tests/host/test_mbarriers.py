"""Barriers in shared memory and its 32-bit addresses: right kernels, and each mistake as one line of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from trifold import KernelFault
from trifold.errors import LaunchError
from trifold.findings import Finding
from trifold.host import RawKernel, runtime

HERE = Path(__file__).parent
TEXT = (HERE / "mbarriers.cu").read_text(encoding="utf-8")
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


@dataclass(frozen=True)
class Mistake:
    """One line of a right kernel that is another one.

    Attributes:
        number: of the class of faults in the field's reports.
        line: a part of the line; the first one in the kernel that has it.
        other: what stands for it.
        kinds: what may be found, as the schedule has it.
        message: a pattern in the finding's words.
        marks: of lines of which one is among the finding's.
        most: it is found in most schedules, and not in each.
    """

    number: int
    name: str
    kernel: str
    line: str
    other: str
    kinds: str
    message: str = ""
    marks: tuple[str, ...] = ()
    most: bool = False

    def __str__(self) -> str:
        return f"{self.number} {self.name}"

    @property
    def text(self) -> str:
        begin = TEXT.index(f" {self.kernel}(const float*") if self.kernel != "counts" else TEXT.index(" counts(")
        at = TEXT.index(self.line, begin)
        return TEXT[:at] + self.other + TEXT[at + len(self.line) :]


MISUSE = "barrier misuse"
MISTAKES = (
    Mistake(
        19,
        "more arrivals are expected than come",
        "ring",
        "&full[s], 32",
        "&full[s], 33",
        "deadlock",
        r"mbarrier full\[0\]: to phase 0, 32 of 33 arrivals have come\n",
    ),
    Mistake(
        19,
        "fewer arrivals are expected than come",
        "ring",
        "&full[s], 32",
        "&full[s], 31",
        "barrier misuse or race or uninitialised read",
    ),
    Mistake(
        19,
        "one thread arrives and all are counted",
        "phases",
        "&barrier, 1",
        "&barrier, 64",
        "deadlock",
        r"mbarrier barrier: to phase 0, 1 of 64 arrivals have come\n",
    ),
    Mistake(
        19,
        "a count of two where one is left",
        "phases",
        "ptx::mbarrier_arrive(&barrier);",
        "ptx::mbarrier_arrive(&barrier, 2);",
        MISUSE,
        "with a count of 2, where its phase 0 waits for only 1 more of 1 arrivals",
        ("// arrives", "// one thread arrives"),
    ),
    Mistake(
        20,
        "no barrier of the block after init",
        "ring",
        "__syncthreads();  // initialised",
        "",
        MISUSE,
        "nothing orders its initialisation before that: put a syncthreads|which nobody has initialised",
    ),
    Mistake(
        21,
        "two threads initialise one barrier",
        "twice",
        "if (t == 0) ptx::mbarrier_init(barrier, 64);",
        "if (t < 2) ptx::mbarrier_init(barrier, 64);",
        MISUSE,
        "which is initialised already: let one thread do it",
        ("// by one thread",),
    ),
    Mistake(
        22,
        "arrives at a peer's barrier before it is initialised",
        "neighbours",
        "cluster.sync();  // all are initialised",
        "__syncthreads();",
        MISUSE,
        r"put a barrier of the cluster \(cluster.sync\(\)\) between|which nobody has initialised",
    ),
    Mistake(
        22,
        "a relaxed arrival publishes no initialisation",
        "neighbours_by_pointers",
        "ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);  // known",
        "",
        MISUSE,
        "nothing orders its initialisation before that",
    ),
    Mistake(
        23,
        "initialised twice, never invalidated",
        "twice",
        'if (t == 0) asm volatile("mbarrier.inval.b64 [%0];" ::"l"(barrier) : "memory");',
        "",
        MISUSE,
        "which is initialised already: once is enough, or mbarrier.inval must come before",
        ("// by one thread",),
    ),
    Mistake(
        23,
        "data over a live barrier",
        "twice",
        "&storage[32];",
        "&storage[31];",
        MISUSE,
        r"storage\[6[23]\].*writes it at .*but it is an mbarrier, which thread \(0, 0, 0\) .* has initialised",
        ("// data",),
    ),
    Mistake(
        23,
        "used after inval",
        "twice",
        "if (t == 0) ptx::mbarrier_init(barrier, 64);",
        "if (t == 0 && round == 0) ptx::mbarrier_init(barrier, 64);",
        MISUSE,
        "which is invalidated: from then on it is plain memory. .*invalidates it at",
    ),
    Mistake(
        24,
        "arrives in a phase before any wait has seen the last one",
        "phases",
        "while (!ptx::mbarrier_try_wait_parity(&barrier, i & 1)) {",
        "for (; false;) {",
        MISUSE,
        "in its phase 1, but no test_wait or try_wait has seen that phase 0 has ended",
        ("// arrives",),
    ),
    Mistake(
        25,
        "parity of the loop's counter",
        "ring",
        "&full[s], round & 1",
        "&full[s], i & 1",
        "race or uninitialised read or deadlock",
    ),
    Mistake(
        26,
        "parity without & 1",
        "ring",
        "(round & 1) ^ 1",
        "round ^ 1",
        MISUSE,
        "for a phase of parity [23]: that is 0 or 1",
    ),
    Mistake(
        26,
        "phase of the producer's first wait",
        "ring",
        "(round & 1) ^ 1",
        "round & 1",
        "deadlock",
        r"mbarrier empty\[0\]: to phase 0, 0 of 32 arrivals have come\n",
    ),
    Mistake(
        27,
        "one try_wait, whose answer nobody looks at",
        "ring",
        "while (!ptx::mbarrier_try_wait_parity(&full[s], round & 1)) {",
        "if (!ptx::mbarrier_try_wait_parity(&full[s], round & 1)) {",
        "race or uninitialised read",
        "",
        ("// read",),
        most=True,
    ),
    Mistake(
        28,
        "written again before all have read",
        "ring",
        "while (!ptx::mbarrier_try_wait_parity(&empty[s], (round & 1) ^ 1)) {",
        "for (; false;) {",
        "race or uninitialised read or barrier misuse",
    ),
    Mistake(
        34,
        "data of another block behind an arrive of .cta scope",
        "neighbours",
        "mbarrier.arrive.release.cluster.shared::cluster",
        "mbarrier.arrive.release.cta.shared::cluster",
        "race",
        "they are of different blocks",
        ("// received", "// sent"),
    ),
    Mistake(
        34,
        "data of another block behind a wait of .cta scope",
        "neighbours",
        "ptx::sem_acquire, ptx::scope_cluster, &full",
        "ptx::sem_acquire, ptx::scope_cta, &full",
        "race",
        "they are of different blocks",
        ("// received", "// sent"),
    ),
    Mistake(
        34,
        "a relaxed arrival releases nothing",
        "relaxed",
        "__threadfence_block();  // released",
        "",
        "race",
        "",
        ("// read", "// written"),
    ),
    Mistake(
        36,
        "the form for the own block's barrier on an address of mapa",
        "neighbours",
        "mbarrier.arrive.release.cluster.shared::cluster",
        "mbarrier.arrive.release.cluster.shared::cta",
        MISUSE,
        "which is another block's: that has no form for .shared::cluster",
        ("// arrives",),
    ),
    Mistake(
        36,
        "waits at another block's barrier",
        "neighbours_by_pointers",
        "ptx::scope_cluster, &full, 0)",
        "ptx::scope_cluster, cluster.map_shared_rank(&full, next), 0)",
        MISUSE,
        "A block initialises, and waits at, barriers of its own shared memory only",
    ),
    Mistake(
        36,
        "initialises another block's barrier",
        "neighbours",
        "ptx::mbarrier_init(&full, 64)",
        "ptx::mbarrier_init(cluster.map_shared_rank(&full, next), 64)",
        MISUSE,
        "initialises the mbarrier full of block .*, which is another block's",
    ),
    Mistake(
        36,
        "stores to another block as to its own",
        "neighbours",
        "st.shared::cluster",
        "st.shared",
        "out-of-bounds",
        "in an instruction for its own block's only",
        ("// sent",),
    ),
    Mistake(
        0, "a count of none", "counts", "&barrier, 5)", "&barrier, 0)", MISUSE, "from 1 to 1048575", ("// for five",)
    ),
    Mistake(
        0,
        "not at 8 bytes",
        "counts",
        "uint64_t barrier;",
        "uint64_t barriers[2]; auto& barrier = *(uint64_t*)((char*)barriers + 4);",
        MISUSE,
        "not begin at a multiple of 8",
    ),
    Mistake(
        0,
        ".noComplete that completes",
        "counts",
        "&barrier, 5)",
        "&barrier, 2)",
        MISUSE,
        "by .noComplete, but phase 0 ends with it",
        ("// two",),
    ),
    Mistake(
        0,
        "more bytes are expected than a barrier counts",
        "counts",
        "], 96;",
        "], 1048576;",
        MISUSE,
        "then expects 1048576 bytes",
        ("// bytes",),
    ),
    Mistake(
        0,
        "never initialised",
        "counts",
        "ptx::mbarrier_init(&barrier, 5);",
        "",
        MISUSE,
        "the mbarrier barrier of its block, .*which nobody has initialised",
        ("// two",),
    ),
    Mistake(
        0,
        "in memory of the thread",
        "phases",
        "__shared__ uint64_t barrier, last;",
        "uint64_t barrier; __shared__ uint64_t last;",
        MISUSE,
        "a barrier lies in shared memory",
    ),
    Mistake(
        0,
        "the address of a variable of the thread",
        "counts",
        "__shared__ uint64_t barrier;",
        "uint64_t barrier;",
        "out-of-bounds",
        "a pointer that leads to no shared memory of its block or cluster",
    ),
)


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
