"""The guard allocator for GPUs: on any machine with a driver that maps the host's memory, on a GPU with its own."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from trifold.build.toolchain import find_gxx
from trifold.isolation import device_guard
from trifold.isolation.guard import Fault, Mode
from trifold.spec import Call
from trifold.verification.checks import memory
from trifold.verification.observations import Observations
from trifold.verification.remote_errors import OpDied

GRANULE = 2 * 2**20
POISON = 0xFF

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


@dataclass
class Fake:
    """The guard on a driver that maps the host's memory."""

    guard: ctypes.CDLL
    driver: ctypes.CDLL

    def malloc(self, size: int, mode: Mode = "end") -> int:
        with device_guard.armed(mode):
            return int(self.guard.trifold_device_guard_malloc(size, 0, None) or 0)

    def whole_vectors(self, size: int) -> int:
        message = ctypes.create_string_buffer(100)
        assert self.guard.trifold_whole_vectors_open(b"", message, 100) == 0  # the driver is open already
        malloc = self.guard.trifold_whole_vectors_malloc
        malloc.argtypes = self.guard.trifold_device_guard_malloc.argtypes
        malloc.restype = ctypes.c_void_p
        return int(malloc(size, 0, None))

    def free(self, *starts: int) -> None:
        for start in starts:
            self.guard.trifold_device_guard_free(start, 0, 0, None)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("driver") / "libfake.so"
    source = Path(__file__).parent / "fake_driver.cpp"
    subprocess.run([find_gxx(), "-std=c++20", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


@pytest.fixture
def fake(driver: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    guard = device_guard.library(str(driver))
    monkeypatch.setattr(device_guard, "library", lambda: guard)
    yield Fake(guard, ctypes.CDLL(str(driver)))
    assert device_guard.damage() == []


@pytest.mark.parametrize(
    ("mode", "size"), [*itertools.product(("end", "start"), (1, 12, 16, 4096, GRANULE - 1, GRANULE, GRANULE + 1))]
)
def test_a_block_is_aligned_starts_as_nan_and_touches_the_memory_s_edge(fake: Fake, mode: Mode, size: int) -> None:
    start = fake.malloc(size, mode)
    assert start % 16 == 0
    edge = start + -(-size // 16) * 16 if mode == "end" else start
    assert edge % 4096 == 0
    assert set(ctypes.string_at(start, size)) == {POISON}
    assert device_guard.holds(start)
    assert device_guard.holds(start + size - 1)
    assert not device_guard.holds(start + size)
    fake.free(start)
    assert not device_guard.holds(start)


@pytest.mark.parametrize(
    ("mode", "at", "said"),
    [
        ("end", 12, "write 1 byte past the end of block"),
        ("end", 15, "write 4 bytes past the end of block"),
        ("end", -4, "write 4 bytes before the start of block"),
        ("start", 12, "write 1 byte past the end of block"),
        ("start", 1000, "write 989 bytes past the end of block"),
    ],
)
@pytest.mark.parametrize("freed", [False, True])
def test_a_write_beside_a_block_is_damage_once(fake: Fake, mode: Mode, at: int, said: str, freed: bool) -> None:
    start = fake.malloc(12, mode)
    ctypes.memset(start + at, 0, 1)
    if freed:
        fake.free(start)
    (line,) = device_guard.damage()
    assert said in line
    assert "(12 bytes), seen by its canary" in line
    fault = Fault.parse(line)
    assert fault is not None
    assert fault.size == 12
    assert device_guard.damage() == []
    fake.free(start)


def test_freed_memory_is_nan_when_it_is_used_again(fake: Fake) -> None:
    start = fake.malloc(100)
    ctypes.memset(start, 0, 100)
    fake.free(start)
    again = fake.malloc(100)
    assert again == start
    assert set(ctypes.string_at(again, 100)) == {POISON}
    fake.free(again)


def test_what_is_kept_is_bounded(fake: Fake) -> None:
    fake.free(*[fake.malloc(200 * 2**20) for _ in range(8)])
    assert fake.driver.fake_bytes_created() <= 2**30


def test_no_bytes_are_no_block(fake: Fake) -> None:
    assert fake.malloc(0) == 0


@pytest.mark.parametrize(("size", "whole"), [(1, 16), (16, 16), (444, 448)])
def test_for_compute_sanitizer_a_block_is_an_allocation_of_whole_vectors(fake: Fake, size: int, whole: int) -> None:
    start = fake.whole_vectors(size)
    fake.driver.fake_bytes_allocated.argtypes = [ctypes.c_size_t]
    assert fake.driver.fake_bytes_allocated(start) == whole
    assert set(ctypes.string_at(start + size, whole - size)) <= {POISON}
    assert not device_guard.holds(start)
    fake.guard.trifold_whole_vectors_free(ctypes.c_void_p(start), 0, 0, None)
    assert fake.driver.fake_bytes_allocated(start) == 0


@pytest.mark.parametrize("freed", [False, True])
def test_a_write_between_a_block_and_its_whole_vectors_is_damage_once(fake: Fake, freed: bool) -> None:
    start = fake.whole_vectors(444)
    ctypes.memset(start + 444, 0, 1)
    if freed:
        fake.guard.trifold_whole_vectors_free(ctypes.c_void_p(start), 0, 0, None)
    (line,) = device_guard.damage()
    assert "write 1 byte past the end of block" in line
    assert "(444 bytes), seen by its canary" in line
    assert device_guard.damage() == []
    if not freed:
        fake.guard.trifold_whole_vectors_free(ctypes.c_void_p(start), 0, 0, None)


def test_a_lost_gpu_is_not_inspected(fake: Fake) -> None:
    lost = ctypes.c_int.in_dll(fake.driver, "fake_is_lost")
    start = fake.malloc(12)
    ctypes.memset(start + 12, 0, 1)
    lost.value = 1
    try:
        assert device_guard.damage() == []
        fake.free(start)
    finally:
        lost.value = 0


@pytest.mark.parametrize(
    ("damage", "dies_again", "said"),
    [
        (
            ["trifold guard: write 4 bytes past the end of block 3 (16 bytes), seen by its canary"],
            False,
            "in add_kernel<float>: write 1 element past the end of a tensor of 4 elements",
        ),
        ([], False, "in add_kernel<float>: a read past the end of a tensor (nothing is written there)"),
        ([], True, "in add_kernel<float>: an access outside a tensor, on either side; memory was guarded at its end"),
    ],
)
def test_a_fault_is_told_from_the_call_repeated_with_the_other_placement(
    damage: list[str], dies_again: bool, said: str
) -> None:
    placements: list[Mode] = []

    class Process:
        element_bytes = 4

        @contextlib.contextmanager
        def running(self, guard: Mode) -> Iterator[Observations]:
            placements.append(guard)
            yield Observations(damage=damage)

    def run() -> tuple[torch.Tensor, ...]:
        if dies_again or len(placements) == 1:
            raise OpDied("an illegal memory access was encountered, in add_kernel<float>")
        return ()

    cell = SimpleNamespace(device="cuda", process=Process())
    with pytest.raises(OpDied, match=re.escape(said)):
        memory._watch(cell, "end", Call(()), run)  # type: ignore[arg-type]
    assert placements == ["end", "start"]


def _run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("neighbours", "there is memory around a block"),
        ("old", "no virtual memory management"),
        ("no driver", "cannot be guarded: no such driver: cannot open shared object file"),
        ("none", "guarded"),
    ],
)
def test_a_driver_that_guards_nothing_is_refused(driver: Path, fault: str, message: str) -> None:
    program = """
        import sys
        from trifold.isolation import device_guard
        from trifold.errors import ToolchainError
        try:
            device_guard.library(sys.argv[1])
            print("guarded")
        except ToolchainError as error:
            print(error)
    """
    done = _run(program, "no such driver" if fault == "no driver" else str(driver), FAKE_DRIVER=fault)
    assert message in done.stdout, done.stderr


def test_when_memory_is_short_kept_memory_is_given_back_then_torch_is_told(driver: Path) -> None:
    program = """
        import ctypes, sys
        from trifold.isolation import device_guard
        guard = device_guard.library(sys.argv[1])
        one = guard.trifold_device_guard_malloc(3 << 20, 0, None)
        guard.trifold_device_guard_free(one, 0, 0, None)
        assert guard.trifold_device_guard_malloc(8 << 20, 0, None)
        print("kept memory was given back", flush=True)
        guard.trifold_device_guard_malloc(1, 0, None)  # ends the process: nobody catches its exception
    """
    done = _run(program, str(driver), FAKE_DRIVER="small")
    assert done.stdout == "kept memory was given back\n", done.stderr
    assert "cuMemCreate failed: CUDA_ERROR_OUT_OF_MEMORY (2)" in done.stderr


# ------------------------------------------------------------------------------------------------------ on a GPU

_ON_GPU = """
import sys
from trifold.isolation import device_guard
device_guard.install()
import torch
from numba import cuda

@cuda.jit
def move(x, y, read, write):
    y[write] = x[read]

def run(read, write):
    arrays = [cuda.as_cuda_array(tensor, sync=False) for tensor in (x, y)]
    move[1, 1](*arrays, read, write)
    torch.cuda.synchronize()

with device_guard.armed(sys.argv[1]):
    x = torch.zeros(int(sys.argv[2]), dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
assert device_guard.holds(x.data_ptr()) and device_guard.holds(y.data_ptr())
"""


def _on_gpu(program: str, mode: Mode, size: int) -> subprocess.CompletedProcess[str]:
    done = _run(_ON_GPU + textwrap.dedent(program), mode, str(size), CUDA_LAUNCH_BLOCKING="1", NUMBA_ENABLE_CUDASIM="0")
    print(done.stdout, done.stderr, sep="\n")  # pytest shows it where the test fails
    return done


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("mode", ["end", "start"])
def test_on_a_gpu_what_kernels_compute_is_right_and_does_no_damage(mode: Mode) -> None:
    done = _on_gpu(
        """
        import time
        run(47, 0)
        torch.testing.assert_close(y[:1], x[:1])
        assert bool((y[1:] == 255).all()), "fresh memory is not 0xFF"
        for dtype in (torch.float16, torch.float32, torch.float64):
            for rows, columns in ((1, 1), (3, 5), (64, 64), (1000, 1003)):
                a, b = (torch.randn(rows, columns, device="cuda", dtype=dtype).requires_grad_() for _ in range(2))
                begin = time.perf_counter()
                result = (a @ b.t()).softmax(-1).sort(-1).values.cumsum(-1).sum() + (a * b).amax()
                result.backward()
                torch.cuda.synchronize()
                print(dtype, rows, columns, f"{1e3 * (time.perf_counter() - begin):.2f} ms")
                assert bool(result.isfinite()) and bool(a.grad.isfinite().all()) and bool(b.grad.isfinite().all())
        begin = time.perf_counter()
        for _ in range(100):
            torch.empty(100, device="cuda")
        print(f"{1e4 * (time.perf_counter() - begin):.1f} us to allocate and free")
        assert device_guard.damage() == []
        torch.cuda.empty_cache()
        print("right")
        """,
        mode,
        48,
    )
    assert done.stdout.endswith("right\n"), done.stderr
    assert done.returncode == 0, "the process does not end well"


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(
    ("mode", "read", "write"),
    [
        ("end", 48, 0),
        ("end", 0, 48),
        ("end", 2**20, 0),
        ("start", -49, 0),  # Numba adds the length to a negative index
        ("start", 0, -49),
    ],
)
def test_on_a_gpu_an_access_outside_a_tensor_faults(mode: Mode, read: int, write: int) -> None:
    done = _on_gpu(f"run({read}, {write})\nprint('survived')", mode, 48)
    assert done.returncode != 0
    assert "illegal" in done.stderr.lower()
    assert "survived" not in done.stdout


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(("mode", "write", "side"), [("end", 45, "past the end"), ("start", 45, "past the end")])
def test_on_a_gpu_a_write_into_the_rest_of_a_page_is_damage(mode: Mode, write: int, side: str) -> None:
    done = _on_gpu(f"run(0, {write})\nprint(*device_guard.damage())", mode, 45)
    assert f"trifold guard: write 1 byte {side} of block" in done.stdout, done.stderr
