"""The guard allocator: each wrong access of a tensor that it must catch, and right programs that it must not disturb.

Each case is a program in a separate process, since a fault ends the process. The process is forked from one that
has imported torch, which takes ten times as long as a case.
"""

from __future__ import annotations

import doctest
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from trifold.errors import ToolchainError
from trifold.isolation import guard
from trifold.isolation.guard import Fault


def _is_built() -> bool:
    try:
        guard.library_path()
    except ToolchainError:
        return False
    return True


needs_guard = pytest.mark.skipif(not _is_built(), reason="libtrifold_guard.so is not built: trifold is not installed")

# Runs each program that arrives in a line, in a child; answers with its exit status, standard output and error.
SERVER = """
import ctypes, json, os, signal, sys, tempfile, traceback
import torch
from trifold.isolation.guard import armed, damage, holds, is_active

torch.set_num_threads(2)


def write(tensor, index):
    ctypes.memset(tensor.data_ptr() + index * tensor.element_size(), 0, tensor.element_size())


def read(tensor, index):
    ctypes.string_at(tensor.data_ptr() + index * tensor.element_size(), tensor.element_size())


def run(program):
    try:
        exec(program, globals())
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


for line in sys.stdin:
    streams = [tempfile.TemporaryFile() for _ in range(2)]
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        for descriptor, stream in enumerate(streams, start=1):
            os.dup2(stream.fileno(), descriptor)
        run(json.loads(line))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    texts = [os.pread(stream.fileno(), 1 << 20, 0).decode() for stream in streams]
    print(json.dumps([status, *texts]), flush=True)
"""


@dataclass(frozen=True)
class Done:
    """The result of a program."""

    status: int
    output: str
    errors: str


_servers: dict[bool, subprocess.Popen[str]] = {}


def _server(preloaded: bool) -> subprocess.Popen[str]:
    if preloaded not in _servers:
        _servers[preloaded] = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            env=os.environ | (guard.preload_environment() if preloaded else {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    return _servers[preloaded]


@pytest.fixture(scope="module", autouse=True)
def _end_servers() -> Iterator[None]:
    yield
    for server in _servers.values():
        server.communicate(timeout=20)
    _servers.clear()


def run(body: str, *, preloaded: bool = True) -> Done:
    server = _server(preloaded)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(textwrap.dedent(body)) + "\n")
    server.stdin.flush()
    return Done(*json.loads(server.stdout.readline()))


def succeeds(body: str) -> str:
    done = run(body)
    assert done.status == 0, done.errors
    assert "trifold guard" not in done.errors
    return done.output


def fault(body: str) -> Fault:
    """The one fault that ends the program."""
    done = run(body)
    assert done.status == -signal.SIGSEGV, done.errors
    (line,) = [line for line in done.errors.splitlines() if line.startswith("trifold guard")]
    found = Fault.parse(line)
    assert found is not None, line
    return found


@needs_guard
@pytest.mark.parametrize(
    ("mode", "access", "dtype", "expected"),
    [
        ("end", "write(x, 5)", "float32", "write 1 element past the end of a tensor of 5 elements"),
        ("end", "read(x, 5)", "float32", "read 1 element past the end of a tensor of 5 elements"),
        ("end", "write(x, 5)", "bfloat16", "write 1 element past the end of a tensor of 5 elements"),
        ("end", "write(x, 4 + 1000)", "float64", "write 1000 elements past the end of a tensor of 5 elements"),
        ("start", "write(x, -1)", "float32", "write 1 element before the start of a tensor of 5 elements"),
        ("start", "read(x, -2)", "float16", "read 2 elements before the start of a tensor of 5 elements"),
    ],
)
def test_an_access_outside_a_tensor_ends_the_process(mode: str, access: str, dtype: str, expected: str) -> None:
    found = fault(f"""
        with armed({mode!r}):
            x = torch.empty(5, dtype=torch.{dtype})
        {access}
    """)
    size = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}[dtype]
    assert found.in_elements(size) == expected


@needs_guard
def test_a_freed_tensor_is_not_accessible() -> None:
    found = fault("""
        with armed("end"):
            x = torch.zeros(1000)
        last = x.data_ptr() + 999 * x.element_size()
        del x
        ctypes.memset(last, 0, 4)
    """)
    assert found.in_elements(4) == "write of element 999 of a freed tensor of 1000 elements"


@needs_guard
def test_a_fault_on_another_thread_is_reported_once() -> None:
    found = fault("""
        import threading
        with armed("end"):
            x = torch.empty(8)
        threads = [threading.Thread(target=write, args=(x, 8)) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """)
    assert found.side == "past the end"


@needs_guard
def test_after_a_report_faulthandler_still_works() -> None:
    done = run("""
        import faulthandler
        faulthandler.enable()
        with armed("end"):
            write(torch.empty(3), 3)
    """)
    assert done.status == -signal.SIGSEGV
    assert "past the end of block" in done.errors
    assert "Segmentation fault" in done.errors, "faulthandler's own report is lost"


@needs_guard
def test_a_fault_elsewhere_is_left_to_its_own_handler() -> None:
    done = run("""
        with armed("end"):
            pass
        ctypes.memset(8, 0, 4)
    """)
    assert done.status == -signal.SIGSEGV
    assert "trifold guard" not in done.errors


@needs_guard
@pytest.mark.parametrize(
    ("mode", "index", "expected"),
    [
        ("end", -1, "write 1 element before the start of a tensor of 5 elements"),
        ("end", -3, "write 3 elements before the start of a tensor of 5 elements"),
        ("start", 5, "write 1 element past the end of a tensor of 5 elements"),
    ],
)
@pytest.mark.parametrize("freed", [False, True])
def test_a_write_on_the_other_side_damages_a_canary(mode: str, index: int, expected: str, freed: bool) -> None:
    output = succeeds(f"""
        with armed({mode!r}):
            x = torch.empty(5)
            neighbour = torch.empty(5)
        write(x, {index})
        if {freed}: del x
        print(*damage(), sep="\\n")
        assert damage() == [], "damage is reported once"
    """)
    (line,) = output.splitlines()
    found = Fault.parse(line)
    assert found is not None
    assert found.in_elements(4) == expected
    assert found.freed is False, "the block was alive when it was written to"


@needs_guard
def test_damage_beyond_the_log_is_counted() -> None:
    output = succeeds("""
        with armed("end"):
            blocks = [torch.empty(1) for _ in range(1500)]
        for block in blocks: write(block, -1)
        print(*damage(), sep="\\n")
    """)
    lines = output.splitlines()
    assert lines[-1] == f"trifold guard: {1500 - (len(lines) - 1)} more damaged canaries"


@needs_guard
def test_new_memory_is_nan_in_every_floating_type() -> None:
    succeeds("""
        for mode in ("end", "start"):
            with armed(mode):
                for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
                    for n in (1, 3, 100_003):
                        x = torch.empty(n, dtype=dtype)
                        assert holds(x.data_ptr()) and x.isnan().all(), (mode, dtype, n)
    """)


@needs_guard
def test_a_tensor_ends_or_starts_at_a_page_and_is_aligned_to_its_elements_only() -> None:
    succeeds("""
        page = os.sysconf("SC_PAGESIZE")
        with armed("end"):
            for n in (1, 7, 1024, 5000):
                x = torch.empty(n)
                assert (x.data_ptr() + 4 * n) % page == 0
                assert x.untyped_storage().nbytes() == 4 * n
        with armed("start"):
            assert torch.empty(7).data_ptr() % page == 0
    """)


@needs_guard
def test_it_is_inert_until_armed_and_after() -> None:
    succeeds("""
        assert is_active()
        before = torch.empty(5)
        with armed("end"):
            inside = torch.empty(5)
            huge = torch.empty(17 << 20)  # 68 MiB
        after = torch.empty(5)
        assert [holds(x.data_ptr()) for x in (before, inside, huge, after)] == [False, True, False, False]
    """)


@needs_guard
def test_guarded_pointers_live_on_after_disarming() -> None:
    succeeds("""
        c = ctypes.CDLL(None)
        for name in ("aligned_alloc", "memalign", "realloc"):
            getattr(c, name).restype = ctypes.c_void_p
        c.realloc.argtypes, c.free.argtypes = [ctypes.c_void_p, ctypes.c_size_t], [ctypes.c_void_p]
        c.malloc_usable_size.argtypes, c.malloc_usable_size.restype = [ctypes.c_void_p], ctypes.c_size_t

        with armed("end"):
            grown, shrunk, cleared, kept = (c.aligned_alloc(16, 40) for _ in range(4))
            moved = c.realloc(c.memalign(32, 10), 50)
        assert all(map(holds, (grown, shrunk, cleared, kept, moved)))
        assert grown % 16 == 0 and c.malloc_usable_size(grown) == 40
        ctypes.memmove(grown, bytes(range(40)), 40)
        ctypes.memmove(shrunk, bytes(range(40)), 40)

        grown, shrunk = c.realloc(grown, 5000), c.realloc(shrunk, 3)
        assert not holds(grown) and not holds(shrunk)
        assert ctypes.string_at(grown, 40) == bytes(range(40)) and ctypes.string_at(shrunk, 3) == bytes(range(3))
        assert c.realloc(cleared, 0) is None
        for pointer in (grown, shrunk, kept, moved): c.free(pointer)
        assert damage() == []
    """)


@needs_guard
@pytest.mark.parametrize(("offset", "times"), [(0, 2), (8, 1)])
def test_an_invalid_free_ends_the_process(offset: int, times: int) -> None:
    done = run(f"""
        c = ctypes.CDLL(None)
        c.aligned_alloc.restype, c.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        with armed("end"):
            pointer = c.aligned_alloc(64, 64)
        for _ in range({times}): c.free(pointer + {offset})
    """)
    assert done.status == -signal.SIGABRT
    assert "trifold guard: free of " in done.errors


@needs_guard
def test_addresses_are_used_again_when_the_range_is_used_up() -> None:
    succeeds("""
        with armed("start"):
            kept = [torch.full((1000,), float(i)) for i in range(3)]
            first = torch.empty(16 << 20, dtype=torch.uint8).data_ptr()
            seen = [torch.empty(16 << 20, dtype=torch.uint8, device="cpu").data_ptr() for _ in range(3)]
            assert len({first, *seen}) == 4, "a freed block's addresses are used again at once"
        c = ctypes.CDLL(None)
        c.aligned_alloc.restype, c.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        c.trifold_guard_arm(2)  # start mode again: a block in the same slots has the same pages
        for _ in range((65 << 30) // (128 << 10)):  # 64 GiB in all, 128 KiB for a block of one byte
            c.free(c.aligned_alloc(1, 1))
        assert holds(torch.empty(1).data_ptr())
        c.trifold_guard_disarm()
        assert all((x == i).all() for i, x in enumerate(kept))
    """)


@needs_guard
def test_torch_works_while_armed() -> None:
    succeeds("""
        torch.manual_seed(0)

        def results():
            torch.manual_seed(1)
            x = torch.randn(67, 45, requires_grad=True)
            w = torch.randn(45, 33, dtype=torch.float32, requires_grad=True)
            y = torch.softmax(x @ w, dim=1)
            loss = (y * y).sum() + torch.nn.functional.layer_norm(x, (45,)).abs().sum()
            loss.backward()
            half = x.detach().to(torch.bfloat16) @ w.detach().to(torch.bfloat16)
            convolved = torch.nn.functional.conv2d(torch.randn(2, 3, 17, 19), torch.randn(5, 3, 3, 3))
            solved = torch.linalg.solve(torch.eye(31) + 0.01 * torch.randn(31, 31), torch.randn(31))
            return [y, x.grad, w.grad, half, convolved, solved, x.sort().values]

        plain = results()
        for mode in ("end", "start"):
            with armed(mode):
                guarded = results()
                assert all(holds(x.data_ptr()) for x in guarded)
            for one, other in zip(plain, guarded):
                torch.testing.assert_close(one, other)
        assert damage() == []
    """)


@needs_guard
def test_threads_allocate_and_free_at_once() -> None:
    succeeds("""
        from concurrent.futures import ThreadPoolExecutor

        def work(seed):
            for i in range(60):
                x = torch.full((1 + (seed * 31 + i * 17) % 3000,), float(seed))
                assert holds(x.data_ptr()) and (x == seed).all()
            return x

        with armed("end"), ThreadPoolExecutor(4) as pool:
            kept = list(pool.map(work, range(12)))
        assert all((x == seed).all() for seed, x in enumerate(kept))
        assert damage() == []
    """)


@needs_guard
def test_a_forked_child_and_a_subprocess_work_while_other_threads_allocate() -> None:
    succeeds("""
        import subprocess, threading

        c = ctypes.CDLL(None)
        c.aligned_alloc.restype, c.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        stop = threading.Event()

        def allocate():
            while not stop.is_set():
                c.free(c.aligned_alloc(64, 1 << 20))  # long in the allocator, without Python's lock

        with armed("end"):
            x = torch.arange(5)
            threads = [threading.Thread(target=allocate) for _ in range(2)]
            for thread in threads: thread.start()
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    signal.alarm(5)
                    os._exit(0 if int((x + x).sum()) == 20 else 1)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            stop.set()
            for thread in threads: thread.join()
    """)


def test_without_preloading_it_is_inactive_and_says_so() -> None:
    done = run(
        """
        assert not is_active() and not holds(torch.empty(1).data_ptr())
        try:
            with armed("end"): pass
        except Exception as error:
            print(type(error).__name__, error)
        """,
        preloaded=False,
    )
    assert done.status == 0, done.errors
    assert "ToolchainError" in done.output
    assert "preload_environment()" in done.output


@needs_guard
def test_a_library_that_is_loaded_but_not_preloaded_is_inactive() -> None:
    done = run(
        f"""
        ctypes.CDLL({str(guard.library_path())!r}, mode=ctypes.RTLD_GLOBAL)
        assert not is_active()
        """,
        preloaded=False,
    )
    assert done.status == 0, done.errors


@needs_guard
def test_it_is_active_in_a_program_that_is_linked_at_a_fixed_address(tmp_path: Path) -> None:
    """There ``free`` is, for every library, the program's own jump to it: some distributions build Python so."""
    source = tmp_path / "program.cpp"
    source.write_text("""
        #include <cstdlib>
        #include <dlfcn.h>
        void (*volatile give_back)(void*) = free;
        void* (*volatile resize)(void*, size_t) = realloc;
        int main() {
          give_back(resize(nullptr, 1));
          return reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "trifold_guard_is_active"))();
        }
    """)
    program = tmp_path / "program"
    subprocess.run(["g++", "-no-pie", "-fno-pic", str(source), "-ldl", "-o", str(program)], check=True)
    done = subprocess.run([str(program)], env=os.environ | guard.preload_environment())
    assert done.returncode == 1


def test_a_missing_library_gives_no_preload_and_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_LIBRARY", "libmissing.so")
    assert guard.preload_environment() == {}
    with pytest.raises(ToolchainError, match="pip install"):
        guard.library_path()


def test_preloading_keeps_what_is_preloaded_already(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libtrifold_guard.so").touch()
    monkeypatch.setattr("trifold.installed.__file__", str(tmp_path / "installed.py"))
    monkeypatch.setenv("LD_PRELOAD", "libother.so")
    assert guard.preload_environment() == {"LD_PRELOAD": f"{tmp_path}/libtrifold_guard.so:libother.so"}


@pytest.mark.parametrize(
    "line", ["", "trifold guard: read far from any block", "trifold guard: 3 more damaged canaries"]
)
def test_a_line_without_a_block_is_no_fault(line: str) -> None:
    assert Fault.parse(line) is None


def test_the_documented_example_is_true() -> None:
    result = doctest.testmod(guard)
    assert result.attempted > 0
    assert result.failed == 0
