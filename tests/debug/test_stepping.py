"""pdb in a kernel: a step stays in its CUDA thread, at barriers and in helpers, and shows nothing of the simulator."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.debug.programs import ENVIRONMENT, FOLDER, ROOT, line_of

# Commands, and where each of the later stops is. The first stop is in main().
SESSIONS_AND_STOPS: dict[str, tuple[list[str], list[str]]] = {}


def session(name: str, *commands: str, stops: list[str]) -> None:
    SESSIONS_AND_STOPS[name] = [*commands], stops


session(
    "pdb: next across barriers",
    "b @value = x[t]@, cuda.threadIdx.x == 3",
    "c",
    *"nnnnnnn",
    stops=[
        "value = x[t]",
        "other = right_neighbour(shared, value)",  # the helper waits
        "other = doubled(other)",
        "cuda.syncthreads()",
        "y[t] = other",
        "Return y[t] = other",
        "copy[2, THREADS // 2](y, x)",
        "total = float(x.sum())",
    ],
)
session(
    "pdb: next stops where the thread has ended at the next breakpoint",
    "b @y[t] = other@",
    "c",
    *"nnnn",
    stops=["y[t] = other", "Return y[t] = other"] * 2 + ["y[t] = other"],
)
session(
    "pdb: step enters helpers, not the simulator",
    "b @value = x[t]@, cuda.threadIdx.x == 3",
    "c",
    *"sssssssssssssssss",
    stops=[
        "value = x[t]",
        "other = right_neighbour(shared, value)",
        "Call def right_neighbour(shared, value):",
        "t = cuda.threadIdx.x",
        "shared[t] = value",
        "cuda.syncthreads()",
        "other = shared[(t + 1) % THREADS]",
        "return -other",
        "Return return -other",
        "other = doubled(other)",
        "Call def doubled(value):",
        "twice = value + value",
        "return twice + 1",
        "Return return twice + 1",
        "cuda.syncthreads()",
        "y[t] = other",
        "Return y[t] = other",
        "copy[2, THREADS // 2](y, x)",
    ],
)
session(
    "pdb: step from the host goes to the kernel",
    "b @rotate[1@",
    "c",
    *"sss",
    stops=[
        "rotate[1, THREADS](x, y)",
        "Call def rotate(x, y):",
        "shared = cuda.shared.array(THREADS, float32)",
        "t = cuda.threadIdx.x",
    ],
)
session(
    "pdb: until and return in a helper that waits",
    "b @shared[t] = value@, cuda.threadIdx.x == 5",
    "c",
    "until @return -other@",
    "r",
    *"nr",
    stops=[
        "shared[t] = value",
        "return -other",
        "Return return -other",
        "other = doubled(other)",
        "Return y[t] = other",
    ],
)
session(
    "pdb: next in a helper leads back to its caller",
    "b @return -other@, cuda.threadIdx.x == 5",
    "c",
    *"nnn",
    stops=["return -other", "Return return -other", "other = doubled(other)", "cuda.syncthreads()"],
)
session(
    "pdb: up, and next in the caller",
    "b @shared[t] = value@, cuda.threadIdx.x == 5",
    "c",
    "up",
    "n",
    stops=["shared[t] = value", "other = right_neighbour(shared, value)", "other = doubled(other)"],
)
session(
    "pdb: a breakpoint of all threads does not take a step away",
    "b @value = x[t]@",
    "b @y[t] = other@",
    "c",
    *"nnn",
    "p 'at', cuda.threadIdx.x",
    "c",
    "c",
    "p 'at', cuda.threadIdx.x",
    stops=[
        "value = x[t]",
        "other = right_neighbour(shared, value)",
        "other = doubled(other)",
        "cuda.syncthreads()",
        "y[t] = other",
        "y[t] = other",
    ],
)
session(
    "trifold: go to another thread",
    "b @value = x[t]@, cuda.threadIdx.x == 3",
    "c",
    "n",
    "thread",
    "thread 5",
    "n",
    "thread (2, 0, 0) of block (0, 0, 0)",
    "thread 9",
    "thread 1 of block 4",
    "thread five",
    "thread 7",
    stops=[
        "value = x[t]",
        "other = right_neighbour(shared, value)",
        "shared = cuda.shared.array(THREADS, float32)",  # thread 5 has not begun: 3 waits for its turn
        "t = cuda.threadIdx.x",
        "other = shared[(t + 1) % THREADS]",  # thread 2 waits in the helper
        "other = shared[(t + 1) % THREADS]",
    ],
)
session(
    "trifold: what is printed at a stop",
    "b @return -other@, cuda.threadIdx.x == 3",
    "c",
    "print(cuda.threadIdx, cuda.blockIdx, cuda.blockDim.x, cuda.gridDim.x)",
    "p shared",
    "p other, type(other).__name__",
    "p sorted(locals())",
    "up",
    "p sorted(locals())",
    "p x[2] + x[3]",
    "!value = 40",
    "p value",
    stops=["return -other", "other = right_neighbour(shared, value)"],
)
session(
    "trifold: what the threads of a block do",
    "info",
    "info threads",
    "b @shared[t] = value@, cuda.threadIdx.x == 2",
    "c",
    "info threads",
    "n",
    "n",
    "info threads",
    stops=["shared[t] = value", "cuda.syncthreads()", "other = shared[(t + 1) % THREADS]"],
)


@pytest.fixture(scope="module")
def transcripts() -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "sessions.py")],
        input=json.dumps({name: commands for name, (commands, _) in SESSIONS_AND_STOPS.items()}),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, str] = json.loads(done.stdout)
    return result


def stops(transcript: str) -> list[str]:
    """The line at each stop, after Call or Return where pdb says so; the first stop, in main(), left out."""
    found = re.findall(r"(?:--(Call|Return)--\n)?> \S+\(\d+\)\w+\(\).*\n-> (.*)", transcript)
    return [f"{event} {line}".strip() for event, line in found][1:]


@pytest.mark.parametrize("name", SESSIONS_AND_STOPS)
def test_steps(name: str, transcripts: dict[str, str]) -> None:
    assert stops(transcripts[name]) == SESSIONS_AND_STOPS[name][1], transcripts[name]


@pytest.mark.parametrize("name", SESSIONS_AND_STOPS)
def test_no_frame_of_the_simulator_shows(name: str, transcripts: dict[str, str]) -> None:
    assert not re.search(r"(trifold|numba)/\w+", transcripts[name].replace(str(ROOT / "tests"), "")), transcripts[name]


def test_a_stop_shows_coordinates_arrays_and_the_users_names(transcripts: dict[str, str]) -> None:
    transcript = transcripts["trifold: what is printed at a stop"]
    assert "thread (3, 0, 0) of block (0, 0, 0)\n>" in transcript
    for printed in (
        "(3, 0, 0) (0, 0, 0) 8 1",
        "[0., 1., 2., 3., 4., 5., 6., 7.]",
        "'float32')",
        "['other', 'shared', 't', 'value']",
        "['shared', 't', 'value', 'x', 'y']",
        "5.0",
        "40",
    ):
        assert printed in transcript, transcript


def test_threads_that_are_not_there(transcripts: dict[str, str]) -> None:
    transcript = transcripts["trifold: go to another thread"]
    assert "there is no thread (9, 0, 0): blockDim is (8, 1, 1)" in transcript
    assert "there is no block (4, 0, 0): gridDim is (1, 1, 1)" in transcript
    assert "*** write: thread X,Y,Z" in transcript


def test_a_step_stays_with_its_thread(transcripts: dict[str, str]) -> None:
    transcript = transcripts["pdb: a breakpoint of all threads does not take a step away"]
    assert "('at', 0)" in transcript, transcript
    assert "('at', 1)" in transcript, transcript


def test_what_threads_do(transcripts: dict[str, str]) -> None:
    transcript = transcripts["trifold: what the threads of a block do"]
    line = line_of("cuda.syncthreads()", FOLDER / "rotate.py")
    assert "*** write: info threads" in transcript
    assert "*** no CUDA thread runs here" in transcript
    for shown in (
        f"  (0, 0, 0) to (1, 0, 0), 2 threads: waits at rotate.py:{line}: cuda.syncthreads()\n",
        "* (2, 0, 0) runs\n",
        "  (3, 0, 0) to (7, 0, 0), 5 threads: has not begun\n",
        f"  (3, 0, 0) to (7, 0, 0), 5 threads: may go on at rotate.py:{line}: cuda.syncthreads()\n",
    ):
        assert shown in transcript, transcript
