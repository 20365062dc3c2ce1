"""``trifold debug --port``: gdb in a CUDA thread of a port, with commands from a pipe."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO

import pytest
import torch

from tests.debug import registers
from tests.debug.programs import ENVIRONMENT, FOLDER, line_of
from tests.wrong.entry import Wrong, edits
from trifold.debug.cuda import CudaSession, find_cuda_gdb
from trifold.debug.editor import launch_json
from trifold.debug.port import find_gdb, kernels
from trifold.errors import ToolchainError

pytestmark = pytest.mark.skipif(shutil.which("gdb") is None, reason="debugging ports needs gdb: apt-get install gdb")

# The block's threads exchange their elements through shared memory; the result is that of the gallery.
BARRIERS = Wrong(
    name="a kernel with barriers",
    why="a step over a barrier must stay in its CUDA thread",
    op="sigmoid",
    edits=edits(
        "header",
        (
            "  if (i < n) y[i] = T(sigmoid_of<T>(C(x[i])));\n",
            "  __shared__ float tile[trifold::threads_per_block];\n"
            "  tile[threadIdx.x] = i < n ? float(x[i]) : 0.0f;\n"
            "  __syncthreads();\n"
            "  const float mirrored = tile[trifold::threads_per_block - 1 - threadIdx.x];\n"
            "  __syncthreads();\n"
            "  const __half half = __half(mirrored - mirrored + 1.5f);\n"
            "  const __nv_bfloat16 brain = __nv_bfloat16(-0.25f);\n"
            "  if (i < n) y[i] = T(sigmoid_of<T>(C(x[i])));\n",
        ),
    ),
    row="values",
    implementation="port",
)


@dataclass(frozen=True)
class Case:
    """A call of the command: its arguments, the lines for gdb, and what must be printed, in this order."""

    name: str
    arguments: str
    lines: tuple[str, ...]
    shown: tuple[str, ...]
    status: int = 0
    never: tuple[str, ...] = ()
    barriers: bool = False


FIRST_LINE = "const int64_t i = trifold::thread_index();"
HEADER = Path("cuda_src") / "sigmoid.cuh"
GALLERY = Path(__file__).parents[2]

CASES = (
    Case(
        "steps over barriers",
        "sigmoid --thread 36",
        (
            *("p threadIdx", "p blockDim", "bt", "trifold where", "n", "n", "n", "n", "p mirrored", "n", "n", "n"),
            *(
                "p half",
                "p brain",
                "p $_thread, threadIdx.x",
                "trifold where",
                "s",
                "bt",
                "finish",
                "n",
                "n",
                "bt",
                "c",
                "trifold where",
            ),
        ),
        (
            "sigmoid_kernel, grid (1, 1, 1), block (256, 1, 1), thread (36, 0, 0) of block (0, 0, 0), "
            "sample 'special float32': special float32 (37,)\n",
            "sigmoid_kernel<float>",
            FIRST_LINE,
            "$1 = (36, 0, 0)",
            "$2 = (256, 1, 1)",
            "#0  sigmoid_kernel<float>",
            "thread (36, 0, 0) of block (0, 0, 0) of sigmoid_kernel<float>",
            " waiting in syncthreads() at sigmoid.cuh:",
            "tile[threadIdx.x] = i < n",
            "__syncthreads();",
            "const float mirrored",
            "__syncthreads();",
            "$3 = 0",
            "const __half half",
            "const __nv_bfloat16 brain",
            "if (i < n) y[i]",
            "= 1.5",
            "= -0.25",
            "= 36",
            "thread (36, 0, 0) of block (0, 0, 0) of sigmoid_kernel<float>",
            "sigmoid_of<float> (x=",
            "#0  sigmoid_of<float>",
            "in sigmoid_kernel<float>",
            "Run till exit",
            "if (i < n) y[i]",
            "}",
            "sigmoid.cu:",
            "the sample has ended",
            "no CUDA thread runs here",
        ),
        never=("launch.cuh", "barriers.h", "cpu.h", "binding.h", "SIGTRAP", "??"),
        barriers=True,
    ),
    Case(
        "step does not enter the dialect, and other threads can be reached",
        "sigmoid --thread 3",
        (
            # However long it is stopped, the order of the threads stays.
            *("s", "s", "shell sleep 0.1", "s", "s", "shell sleep 0.1"),
            *("trifold thread 5", "p threadIdx", "shell sleep 0.1", "trifold thread 2", "p threadIdx"),
            *("trifold thread 900", "trifold thread 1 of block 4", "trifold thread five"),
            *("break sigmoid.cuh:@if (i < n) y[i]@ if threadIdx.x == 9", "c", "p threadIdx", "q"),
        ),
        (
            FIRST_LINE,
            "tile[threadIdx.x] = i < n",
            "__syncthreads();",
            "const float mirrored",
            "= (5, 0, 0)",
            "= (2, 0, 0)",
            "there is no thread (900, 0, 0): blockDim is (256, 1, 1)",
            "there is no block (4, 0, 0): gridDim is (1, 1, 1)",
            "write: trifold thread X,Y,Z",
            "if (i < n) y[i]",
            "= (9, 0, 0)",
        ),
        never=("launch.cuh", "barriers.h", "cpu.h"),
        barriers=True,
    ),
    Case(
        "a line in the backward function",
        f"sigmoid --function sigmoid_backward --thread 7 --line {line_of('grad_x[i] = T(', GALLERY / HEADER)}",
        ("p i", "watch grad_x[7]", "c", "p threadIdx.x", "q"),
        ("sigmoid_backward_kernel, grid (1, 1, 1)", "if (i < n) grad_x[i] =", "= 7", "New value", "= 7"),
    ),
    Case(
        "a device function of the toolkit, in a chosen block",
        "normal_sample --function philox_group --sample 1 --block 2,0,0 --thread 5",
        ("p blockIdx", "bt", "q"),
        ("thread (5, 0, 0) of block (2, 0, 0), sample 'many columns'", "= (2, 0, 0)", "in normal_sample_rows_kernel<"),
    ),
    Case(
        "a block outside the launch",
        "sigmoid --block 9,0,0",
        (),
        (
            "trifold: no launch of sigmoid on sample 'special float32': special float32 (37,) has block (9, 0, 0)\n",
            "its launches: sigmoid_kernel, grid (1, 1, 1), block (256, 1, 1)\n",
        ),
        status=2,
    ),
    Case(
        "a thread outside the launch",
        "sigmoid --thread 0,1",
        (),
        ("has thread (0, 1, 0) in block (0, 0, 0)\n", "its launches: sigmoid_kernel, grid (1, 1, 1), block (256,"),
        status=2,
    ),
    Case(
        "a line that holds no statement",
        f"sigmoid --line {line_of('const int64_t i = trifold::thread_index();', GALLERY / HEADER) - 1}",
        (),
        ("no statement begins at", "sigmoid.cuh:", "the next one: --line "),
        status=2,
    ),
    Case(
        "a line that the thread does not reach",
        f"sigmoid --function sigmoid_backward --line {line_of('y[i] = T(sigmoid_of', GALLERY / HEADER)}",
        (),
        ("thread (0, 0, 0) of block (0, 0, 0) never came to line",),
        status=2,
    ),
    Case(
        "a line outside the kernels",
        "sigmoid --line 1",
        (),
        ("sigmoid.cuh:1 is not in a kernel", "the lines of its kernels: ", "sigmoid_kernel "),
        status=2,
    ),
    Case(
        "an unknown function",
        "sigmoid --function sigmoid_forward",
        (),
        ("the op 'sigmoid' has no function 'sigmoid_forward'", "its launch functions are: sigmoid, sigmoid_backward; "),
        status=2,
    ),
    Case("an unknown sample", "sigmoid --sample hug", (), ("has no sample 'hug'", "did you mean 'huge"), status=2),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    with_barriers = tmp_path_factory.mktemp("workspace")
    BARRIERS.write(with_barriers)
    given = []
    for case in CASES:
        workspace = with_barriers if case.barriers else GALLERY
        lines = [re.sub("@(.*)@", partial(_number, workspace / HEADER), line) for line in case.lines]
        given.append([str(workspace), case.arguments.split(), lines])
    done = subprocess.run(
        [sys.executable, str(FOLDER / "port_commands.py")],
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | {"COLUMNS": "200", "TERM": "dumb"},
        timeout=300,
    )
    assert done.returncode == 0
    return {case.name: result for case, result in zip(CASES, json.loads(done.stdout), strict=True)}


def _number(path: Path, match: re.Match[str]) -> str:
    return str(line_of(match[1], path))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_debug(case: Case, results: dict[str, tuple[int, str]]) -> None:
    status, output = results[case.name]
    registers.skip_where_they_cannot_be_written(output)
    at = 0
    for text in case.shown:
        assert text in output[at:], f"{text!r} is not shown, or not in its place:\n{output}"
        at = output.index(text, at) + len(text)
    assert status == case.status, output
    for text in case.never:
        assert text not in output, output


def test_gdb_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ToolchainError, match="needs gdb, which is not on PATH\n  apt-get install gdb"):
        find_gdb()


def test_the_editors_entry_stops_at_a_breakpoint_in_one_cuda_thread() -> None:
    """The commands of VS Code's C++ debugger to gdb for the entry in launch.json, over gdb's machine interface."""
    text = launch_json().replace("${command:python.interpreterPath}", sys.executable).replace("${input:op}", "sigmoid")
    entry = next(e for e in json.loads(text)["configurations"] if e["type"] == "cppdbg")
    commands = [
        *(command["text"] for command in entry["setupCommands"]),
        f"-file-exec-and-symbols {entry['program']}",
        f"-exec-arguments {' '.join(entry['args'])}",
        "-gdb-set auto-solib-add off",  # the symbols of torch take seconds; the editor's user waits for them
        f'-break-insert -f -c "threadIdx.x == 7" sigmoid.cuh:{line_of("y[i] = T(sigmoid_of", GALLERY / HEADER)}',
        "-catch-load sigmoid_debug",
        "-exec-run",
    ]
    with Popen(["gdb", "-q", "--interpreter=mi"], stdin=PIPE, stdout=PIPE, text=True, cwd=GALLERY) as gdb:
        assert gdb.stdin is not None
        assert gdb.stdout is not None
        say = partial(print, file=gdb.stdin, flush=True)
        for command in commands:
            say(command)
        _until(gdb.stdout, "*stopped", "solib-event")
        say('-interpreter-exec console "sharedlibrary sigmoid_debug"')
        say("-exec-continue")
        _until(gdb.stdout, "*stopped", "breakpoint-hit")
        say("-data-evaluate-expression threadIdx")
        _until(gdb.stdout, '^done,value="(7, 0, 0)"')
        say("-exec-next")
        _until(gdb.stdout, "*stopped", "end-stepping-range")
        say("-exec-next")  # the kernel's end: on to where the launch returns
        assert "sigmoid.cu" in _until(gdb.stdout, "*stopped")
        say("-gdb-exit")


def _until(lines: IO[str], *words: str) -> str:
    """The first line from gdb with all these words."""
    seen = []
    for line in lines:
        seen.append(line)
        if all(word in line for word in words):
            return line
    raise AssertionError("".join(seen))


def test_cuda_without_a_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ToolchainError, match="torch finds no CUDA device here\n  trifold debug OP --port"):
        find_cuda_gdb()


def test_cuda_gdb_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(ToolchainError, match="needs cuda-gdb"):
        find_cuda_gdb()


def test_cuda_gdb_gets_breakpoints_for_one_thread_of_each_kernel_that_may_run() -> None:
    names = kernels(GALLERY / HEADER)
    assert names == [
        "sigmoid_kernel",
        "sigmoid_vector_kernel",
        "sigmoid_backward_kernel",
        "sigmoid_backward_vector_kernel",
    ]
    place = ((1, 2, 0), (3, 0, 0))
    command = CudaSession(Path("cuda-gdb"), ("sigmoid_kernel",), place, ("python", "x")).command()
    only = "threadIdx.x == 1 && threadIdx.y == 2 && threadIdx.z == 0 && blockIdx.x == 3 && blockIdx.y == 0"
    assert f"break sigmoid_kernel if {only} && blockIdx.z == 0" in command
    assert command[-3:] == ["--args", "python", "x"]
