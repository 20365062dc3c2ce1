"""A user's mistake: a sentence that names it, the right exit status, no stack trace; the other ops go on."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import trifold
from tests.wrong.entry import GALLERY, copy_of_gallery
from trifold.cli import main
from trifold.errors import PrototypeError, SchemaError, SpecError, WorkspaceError
from trifold.spec.load import load_spec
from trifold.verification.checks import CHECKS
from trifold.verification.report import OpReport, Report, Row
from trifold.verification.verify import verify
from trifold.workspace import Workspace


@dataclass(frozen=True)
class Printed:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


class Command:
    """Runs the command line in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setenv("COLUMNS", "400")  # no line of interest is broken

    def __call__(self, *words: str | Path) -> Printed:
        self._monkeypatch.setattr(sys, "argv", ["trifold", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = self._capsys.readouterr()
        assert "Traceback" not in printed.out + printed.err
        return Printed(int(ended.value.code or 0), printed.out, printed.err)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def the_row(op: OpReport, check: str, implementation: str = "prototype") -> Row:
    row = op.row(check, implementation, "cpu")
    assert row is not None, op.rows
    return row


# ------------------------------------------------------------------------------------------------------ workspaces


def test_not_a_workspace(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["verify"], ["list"], ["verify", "--workspace", tmp_path]):
        printed = command(*words)
        assert printed.status == 2
        assert f"{tmp_path} is not" in printed.err
        assert "--workspace PATH" in printed.err
    with pytest.raises(WorkspaceError, match="is not in a trifold workspace"):
        trifold.load("sigmoid")


def test_a_folder_that_does_not_exist(command: Command, tmp_path: Path) -> None:
    printed = command("verify", "--workspace", tmp_path / "nowhere")
    assert (printed.status, "nowhere is not a trifold workspace" in printed.err) == (2, True)


def test_an_unknown_op_suggests_the_nearest(command: Command) -> None:
    printed = command("verify", "sigmiod", "--workspace", GALLERY.root)
    assert printed.status == 2
    assert "there is no op 'sigmiod'" in printed.err
    assert "did you mean 'sigmoid'?" in printed.err
    with pytest.raises(WorkspaceError, match="its ops are: add, "):
        GALLERY.op("zzz")


@pytest.mark.parametrize("file", ["prototype", "header", "binding", "port", "spec"])
def test_a_missing_file_is_named(file: str, command: Command, tmp_path: Path) -> None:
    workspace = copy_of_gallery("add", tmp_path)
    path: Path = getattr(workspace.files("add"), file)
    path.unlink()
    printed = command("verify", "--workspace", tmp_path)
    assert printed.status == 2
    assert f"the op 'add' has no {path}" in printed.err
    assert "five files" in printed.err
    assert f"no {path.relative_to(tmp_path)}" in command_list(command, tmp_path)


def command_list(command: Command, workspace: Path) -> str:
    return command("list", "--workspace", workspace).out


def test_a_workspace_without_an_op(command: Command, tmp_path: Path) -> None:
    for folder in ("prototypes", "cuda_src", "ports", "verify"):
        (tmp_path / folder).mkdir()
    printed = command("verify", "--workspace", tmp_path)
    assert (printed.status, "has no op yet" in printed.err) == (2, True)
    assert "has no op yet" in command_list(command, tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool.trifold\n", "cannot be read"),
        ('[tool.trifold]\nkernels = "k"\n', "has no setting kernels"),
        ("[tool.trifold]\nports = 3\n", "must be a folder's name"),
        ('[tool.trifold]\nports = "operators"\n', "it has no folder operators"),
    ],
)
def test_a_wrong_setting_is_named(text: str, says: str, command: Command, tmp_path: Path) -> None:
    copy_of_gallery("add", tmp_path)
    (tmp_path / "pyproject.toml").write_text(text)
    printed = command("list", "--workspace", tmp_path)
    assert (printed.status, says in printed.err) == (2, True)


def test_renamed_folders_are_found(command: Command, tmp_path: Path) -> None:
    copy_of_gallery("add", tmp_path)
    shutil.move(tmp_path / "ports", tmp_path / "operators")
    (tmp_path / "pyproject.toml").write_text('[tool.trifold]\nports = "operators"\n')
    assert Workspace.find(tmp_path / "operators").op("add").port == tmp_path / "operators" / "add.py"


# ------------------------------------------------------------------------------------------------------- arguments


def test_unknown_words_are_named(command: Command) -> None:
    for words, says in (
        (["--device", "gpu"], "devices: gpu is none of cpu, cuda"),
        (["--implementation", "engine"], "implementations: engine is none of prototype, port"),
        (["--check", "valeus"], "checks: valeus is none of build, bounds, values"),
        (["--check", "valeus"], "; did you mean 'values'?"),
        (["--check", "values,no sync"], "; on the command line, --check 'values' --check 'no sync'"),
    ):
        printed = command("verify", "add", "--workspace", GALLERY.root, *words)
        assert printed.status == 2
        assert says in printed.err
    with pytest.raises(ValueError, match="examples must be at least 1"):
        verify("add", workspace=GALLERY, examples=0)
    with pytest.raises(ValueError, match="timeout must be positive"):
        verify("add", workspace=GALLERY, timeout=0)
    with pytest.raises(TypeError, match="ops must be names"):
        verify(["add"], workspace=GALLERY)  # type: ignore[arg-type]


def test_every_check_may_be_named() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def test_a_command_line_that_is_none(command: Command) -> None:
    assert command("verify", "--nonsense").status == 2
    assert command("transmogrify").status == 2
    assert command("--help").status == 0


# ---------------------------------------------------------------------------------------- hangs, crashes, bad files

HANG = "    if i < n:\n        while n == 37:\n            pass\n"
CRASH = "  if (x.numel() == 37) *reinterpret_cast<volatile int*>(8) = 0;\n"


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory, quick_builds: None) -> Report:
    """One verification of: sigmoid, whose prototype hangs and whose port crashes on samples of 37; and a good op."""
    root = tmp_path_factory.mktemp("broken")
    files = copy_of_gallery("sigmoid", root).op("sigmoid")
    workspace = copy_of_gallery("add", root)
    rewrite(files.prototype, "    if i < n:\n        v = x[i]", f"{HANG}        v = x[i]")
    rewrite(files.binding, "  Tensor y = trifold::", f"{CRASH}  Tensor y = trifold::")
    return verify(workspace=workspace, devices=["cpu"], checks=["values", "errors"], examples=3, timeout=4)


def test_a_prototype_that_hangs_is_reported_as_such(broken: Report) -> None:
    row = the_row(broken.ops[1], "values")
    (failure,) = row.failures
    assert row.outcome == "failed"
    assert "no answer for 4 s" in failure.message
    assert failure.sample == "special float32"
    assert "TensorCase(shape=(37,)" in failure.code


def test_a_port_that_crashes_is_reported_with_its_sample(broken: Report) -> None:
    row = the_row(broken.ops[1], "values", "port")
    (failure,) = row.failures
    assert row.outcome == "failed"
    assert "SIGSEGV" in failure.message
    assert failure.sample == "special float32"
    assert 'trifold.load("sigmoid")' in failure.code


def test_the_other_checks_and_the_other_ops_go_on(broken: Report) -> None:
    add, sigmoid = broken.ops
    assert (add.op, add.verdict, sigmoid.verdict, broken.verdict) == ("add", "incomplete", "failed", "failed")
    for implementation in ("prototype", "port"):
        assert the_row(sigmoid, "errors", implementation).outcome == "passed"
        assert the_row(add, "values", implementation).outcome == "passed"


def test_json_has_the_documented_form(broken: Report) -> None:
    data = json.loads(json.dumps(broken.to_json()))
    assert {"trifold", "torch", "device", "verdict", "ops"} <= data.keys()
    assert data["torch"] == torch.__version__
    assert data["verdict"] == "failed"
    rows: list[dict[str, Any]] = [row for op in data["ops"] for row in op["rows"]]
    for op in data["ops"]:
        assert {"op", "verdict", "rows"} <= op.keys()
        assert op["verdict"] in ("verified", "failed", "incomplete")
    for row in rows:
        assert {"check", "implementation", "device", "outcome", "cases", "reason", "failures"} <= row.keys()
        assert row["implementation"] in ("prototype", "port")
        assert row["device"] in ("cpu", "cuda")
        assert row["outcome"] in ("passed", "failed", "not run")
        assert isinstance(row["cases"], int)
        assert bool(row["failures"]) == (row["outcome"] == "failed")
        assert row["outcome"] != "not run" or row["reason"]
        for failure in row["failures"]:
            assert {"message", "sample", "code", "seed", "findings"} == failure.keys()
    assert any(row["outcome"] == "passed" for row in rows)


@pytest.fixture(scope="module")
def raising(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One verification of ops each of which has one bad file, and of a good one."""
    root = tmp_path_factory.mktemp("raising")
    for op in ("add", "mul", "round_ste"):
        workspace = copy_of_gallery(op, root)
    rewrite(workspace.op("mul").prototype, "    return x * y\n", "    return x * y * (1 // 0)\n")
    with workspace.op("round_ste").spec.open("a") as spec:
        spec.write("\nspec = spec.benchmark[0]\n")
    return verify(workspace=workspace, implementations=["prototype"], devices=["cpu"], checks=["values"], examples=3)


def test_a_reference_that_raises_is_blamed(raising: Report) -> None:
    row = the_row(raising.ops[1], "values")
    assert row.outcome == "failed"
    assert "the reference itself raised ZeroDivisionError" in row.failures[0].message
    assert row.failures[0].code


def test_a_spec_that_raises_is_blamed_with_its_file(raising: Report) -> None:
    row = the_row(raising.ops[2], "build")
    assert row.outcome == "failed"
    assert re.search(r"verify/round_ste.py:[0-9]+ raises AttributeError", row.failures[0].message)


def test_a_good_op_beside_them_passes(raising: Report) -> None:
    assert the_row(raising.ops[0], "values").outcome == "passed"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("spec = 1\n", "has no spec"),
        ("", "has no spec"),
        ("import nowhere\n", "ModuleNotFoundError"),
        ("(\n", "SyntaxError"),
        (
            "from trifold.spec import *\n\nTensorCase((2,), 'float32')\n",
            "add.py:3 raises TypeError: dtype is 'f",
        ),
        ("from trifold.spec import *\n\nIndexCase((2,), 3, dtype=int)\n", "add.py:3 raises TypeError: dtype is <class"),
        (
            "from trifold.spec import *\n\nResult(free=True)\n",
            r"add.py:3 raises TypeError: .* argument 'free'\n  its arguments are .*\btie\b",
        ),
    ],
)
def test_a_file_that_is_no_spec(text: str, says: str, tmp_path: Path) -> None:
    files = copy_of_gallery("add", tmp_path).op("add")
    files.spec.write_text(text)
    with pytest.raises(SpecError, match=says) as caught:
        load_spec(files)
    assert str(files.spec) in caught.value.problem


# ------------------------------------------------------------------------------------------- exit status and output


def test_a_syntax_error_is_shown_at_the_users_own_line(command: Command, tmp_path: Path) -> None:
    files = copy_of_gallery("round_ste", tmp_path).op("round_ste")
    rewrite(files.header, "? C(1) : C(0);", "? C(1) : C(0)")
    lines = files.header.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith(": C(0)"))
    printed = command("verify", "--workspace", tmp_path, "--implementation", "port", "--device", "cpu")
    assert printed.status == 1
    assert f"{files.header}:{line}:" in printed.out
    assert "error: expected ';'" in printed.out


@pytest.mark.extended
def test_verified_exits_with_0_and_writes_json(
    command: Command, tmp_path: Path, quick_gxx: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(quick_gxx))
    workspace = copy_of_gallery("add", tmp_path / "workspace")
    few = ("--device", "cpu", "--examples", "3", "--json", tmp_path / "report.json")
    printed = command("verify", "add", "--workspace", workspace.root, *few)
    assert printed.status == 0
    assert "add verified on cpu" in printed.out
    data = json.loads((tmp_path / "report.json").read_text())
    assert (data["verdict"], [op["op"] for op in data["ops"]]) == ("verified", ["add"])


def test_a_part_that_passes_exits_with_0_and_json_alone_goes_to_standard_output(command: Command) -> None:
    few = ("--device", "cpu", "--implementation", "prototype", "--check", "errors", "--json", "-")
    printed = command("verify", "add", "--workspace", GALLERY.root, *few)
    assert printed.status == 0
    assert json.loads(printed.out)["verdict"] == "incomplete"
    assert "incomplete" in printed.err


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--check", "stream", "--device", "cpu"], id="a check for another device"),
        pytest.param(["--check", "rounding"], id="a check that the spec does not ask for"),
        pytest.param(
            ["--device", "cuda"],
            id="a device that is not here",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here"),
        ),
    ],
)
def test_what_could_not_run_exits_with_2(words: list[str], command: Command, tmp_path: Path) -> None:
    workspace = copy_of_gallery("round_ste", tmp_path)
    rewrite(workspace.op("round_ste").spec, '    rounded_once="0 and 1 are numbers of every dtype",\n', "")
    printed = command("verify", "--workspace", tmp_path, "--implementation", "prototype", *words)
    assert printed.status == 2
    assert "incomplete" in printed.out


# ----------------------------------------------------------------------------------------------------------- loading


def test_a_schema_that_does_not_match_is_refused_at_every_call(tmp_path: Path) -> None:
    workspace = copy_of_gallery("round_ste", tmp_path)
    rewrite(workspace.op("round_ste").port, "round_ste(Tensor x) ->", "round_ste(Tensor x, int n=0) ->")
    rewrite(workspace.op("round_ste").port, "op.round_ste(x)", "op.round_ste(x, 0)")
    function = trifold.load("round_ste", workspace=workspace)
    with pytest.raises(SchemaError) as caught:
        function(torch.ones(1))
    assert "the schema of round_ste" in caught.value.problem
    assert "(Tensor, int) -> Tensor" in caught.value.problem
    assert "(Tensor) -> Tensor" in caught.value.problem
    for _ in range(2):
        with pytest.raises(SchemaError):
            function(torch.ones(1))


def test_numba_imported_before_the_simulator_was_switched_on() -> None:
    script = f"""
import numba
from trifold.errors import PrototypeError
from trifold.implementation import load_prototype
from trifold.workspace import Workspace
try:
    load_prototype(Workspace.at({str(GALLERY.root)!r}).op("add"), "cpu")
except PrototypeError as error:
    print(error)
"""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert "numba was imported before its simulator was switched on" in done.stdout
    assert "set NUMBA_ENABLE_CUDASIM=1 before Python starts" in done.stdout


def test_a_prototype_without_a_launch_function(tmp_path: Path) -> None:
    from trifold.implementation import load_prototype

    files = copy_of_gallery("add", tmp_path).op("add")
    rewrite(files.prototype, "def add(", "def addition(")
    with pytest.raises(PrototypeError, match="has no launch function add"):
        load_prototype(files, "cpu")


def test_a_result_that_has_no_room_is_named_with_its_shape() -> None:
    huge = torch.ones(1, dtype=torch.float16).expand(2**44)
    with pytest.raises(RuntimeError, match=r"cannot allocate a result of shape \(17592186044416,\) on cpu: "):
        trifold.load("mul")(huge, huge)
