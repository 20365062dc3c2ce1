"""``trifold debug``: where it stops, what it says before the prompt, and what it says of mistakes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.debug.programs import ENVIRONMENT, FOLDER, ROOT, line_of


@dataclass(frozen=True)
class Case:
    """A call of the command: its arguments, the lines for pdb, and what must be printed, in this order."""

    name: str
    arguments: str
    lines: tuple[str, ...]
    shown: tuple[str, ...]
    status: int = 0


SIGMOID = ROOT / "prototypes" / "sigmoid.py"
FIRST_LINE = "i = cuda.grid(1)"
RIGHT, FAULTY = "y[i] = 1 if", "y[i + 1] = 1 if"
EXP = line_of("math.exp", SIGMOID)

CASES = (
    Case(
        "the kernel's first line",
        "sigmoid",
        ("p cuda.threadIdx, cuda.blockIdx", "p x, n", "w", "c"),
        (
            "sigmoid_kernel, grid (1, 1, 1), block (256, 1, 1), thread (0, 0, 0) of block (0, 0, 0), "
            "sample 'special float32': special float32 (37,)\n>",
            FIRST_LINE,
            "(cuda.threadIdx(0, 0, 0), cuda.blockIdx(0, 0, 0))",
            ", 37)",
            "sigmoid()",
            "-> launch_elementwise(sigmoid_kernel",
            "sigmoid_kernel()",
            "the sample has ended",
        ),
    ),
    Case(
        "a line in a chosen thread",
        f"sigmoid --thread 36 --line {EXP}",
        ("p i, v == x[36]", "n", "p e <= 1 or e != e", "q"),
        ("thread (36, 0, 0) of block (0, 0, 0)", f"sigmoid.py({EXP})sigmoid_kernel()", "(36, True)", "y[i] =", "True"),
    ),
    Case(
        "a sample by its number, and a block",
        "normal_sample --sample 1 --block 2,0,0 --thread 5",
        ("n", "p i", "q"),
        ("grid (3, 1, 1)", "thread (5, 0, 0) of block (2, 0, 0), sample 'many columns'", "(Pdb) 517"),
    ),
    Case(
        "a sample by the beginning of its name",
        "normal_sample --sample rows",
        ("p rows, columns", "q"),
        ("sample 'rows across groups of four'", "(Pdb) (5, 7)"),
    ),
    Case(
        "an edge, in the backward function",
        "mul --function mul_backward --sample 2",
        ("n", "p n", "q"),
        ("mul_backward_kernel, grid (1, 1, 1)", "sample 'edge 2'", "(Pdb) 8"),
    ),
    Case(
        "a kernel by its name",
        "sigmoid --function sigmoid_backward_kernel --thread 36",
        ("n", "p i", "q"),
        ("sigmoid_backward_kernel, grid", FIRST_LINE, "(Pdb) 36"),
    ),
    Case(
        "a device function of the toolkit",
        "normal_sample --function philox_normal --thread 3",
        ("p lane", "up", "p i", "q"),
        (
            "normal_sample_kernel, grid",
            "thread (3, 0, 0)",
            "philox_normal()",
            "(Pdb) 3",
            "z = philox_normal(",
            "(Pdb) 3",
        ),
    ),
    Case(
        "a device function that is not called",
        "normal_sample --sample rows --function philox_normal --thread 200",
        (),
        ("thread (200, 0, 0) of block (0, 0, 0) never came to philox_normal in sample 'rows across",),
        status=2,
    ),
    Case("the end of the commands ends the session", "sigmoid", (), (FIRST_LINE,)),
    Case(
        "an unknown op",
        "sigmod",
        (),
        ("trifold: there is no op 'sigmod'", "did you mean 'sigmoid'?"),
        status=2,
    ),
    Case(
        "an unknown function",
        "sigmoid --function sigmoid_forward",
        (),
        (
            "the op 'sigmoid' has no function 'sigmoid_forward'",
            "its launch functions are: sigmoid, sigmoid_backward; its kernels and device functions: sigmoid_kernel, ",
        ),
        status=2,
    ),
    Case(
        "an unknown sample",
        "sigmoid --sample hug",
        (),
        (
            "verify/sigmoid.py has no sample 'hug'",
            "did you mean 'huge float32'?",
            "'special float32', '",
            "'edge 1' to '",
        ),
        status=2,
    ),
    Case(
        "a line outside the kernels",
        "sigmoid --line 1",
        (),
        ("sigmoid.py:1 is not in a kernel", "the lines of its kernels: sigmoid_kernel "),
        status=2,
    ),
    Case(
        "a line that holds no statement",
        f"sigmoid --line {line_of('def sigmoid_kernel', SIGMOID)}",
        (),
        ("no statement begins at", "in sigmoid_kernel", f"the next one: --line {line_of(FIRST_LINE, SIGMOID)}"),
        status=2,
    ),
    Case(
        "a line that the thread does not reach",
        f"sigmoid --thread 37 --line {EXP}",
        (),
        (f"thread (37, 0, 0) of block (0, 0, 0) never came to line {EXP} in sample 'special float32'",),
        status=2,
    ),
    Case(
        "a block outside the launch",
        "sigmoid --block 9,0,0",
        (),
        (
            "no launch of sigmoid on sample 'special float32': special float32 (37,) has block (9, 0, 0)\n",
            "its launches: sigmoid_kernel, grid (1, 1, 1), block (256, 1, 1)\n",
        ),
        status=2,
    ),
    Case(
        "a thread outside the launch",
        "sigmoid --thread 0,1",
        (),
        (
            "has thread (0, 1, 0) in block (0, 0, 0)\n",
            "its launches: sigmoid_kernel, grid (1, 1, 1), block (256, 1, 1)\n",
        ),
        status=2,
    ),
    Case("no coordinates", "sigmoid --thread three", (), ("--thread", "'three' is not X,Y,Z"), status=2),
    Case(
        "a kernel with a fault",
        "round_ste --thread 200",
        ("p i", "up", "q"),
        (FAULTY, "(36, 0, 0)", FAULTY, "(Pdb) 36", "-> launch(round_ste_kernel"),
        status=1,
    ),
)


def faulty_workspace(folder: Path) -> Path:
    """The gallery, with a round_ste whose last thread writes beyond its array."""
    for name in ("prototypes", "cuda_src", "ports", "verify"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    prototype = folder / "prototypes" / "round_ste.py"
    text = prototype.read_text(encoding="utf-8")
    assert text.count(RIGHT) == 1
    prototype.write_text(text.replace(RIGHT, FAULTY), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    folder = faulty_workspace(tmp_path_factory.mktemp("workspace"))
    done = subprocess.run(
        [sys.executable, str(FOLDER / "commands.py")],
        input=json.dumps([[case.arguments.split(), case.lines] for case in CASES]),
        capture_output=True,
        text=True,
        cwd=folder,
        env=ENVIRONMENT | {"COLUMNS": "200", "TERM": "dumb"},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return {case.name: result for case, result in zip(CASES, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_debug(case: Case, results: dict[str, tuple[int, str]]) -> None:
    status, output = results[case.name]
    at = 0
    for text in case.shown:
        assert text in output[at:], f"{text!r} is not shown, or not in its place:\n{output}"
        at = output.index(text, at) + len(text)
    assert status == case.status, output
    assert "/trifold/debug/" not in output, output
    assert "/trifold/simulator/" not in output, output
