"""Before a wheel is built, a sample of the checks runs again with a seed that nobody chose; what fails stops it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.graduate.verified import certify, verified_workspace
from trifold.cells import Device
from trifold.errors import GraduationError
from trifold.graduate import reverify as reverification
from trifold.graduate.certificates import require_certificate
from trifold.graduate.command import graduate as command
from trifold.graduate.graduate import Graduated, graduate
from trifold.graduate.reverify import CHECKS, EXAMPLES, Reverified, reverify
from trifold.graduate.wheel_check import Checked
from trifold.verification.certificate import Certificate, read_certificate
from trifold.verification.report import Failure, OpReport, OutcomeName, Report, Row
from trifold.workspace import Workspace

HERE: tuple[Device, ...] = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


class Stopped(Exception):
    """A graduation came as far as writing the source package."""


def certificates(workspace: Workspace, *ops: str) -> dict[str, Certificate]:
    return {op: read_certificate(workspace, op) for op in ops}


def test_a_wrong_op_is_found_whatever_its_certificate_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reverification, "CHECKS", ("values",))  # the others would build the port with checks first
    workspace = verified_workspace(tmp_path / "workspace", "round_ste")
    prototype = workspace.files("round_ste").prototype
    wrong = prototype.read_text().replace("x[i] > 0.5", "x[i] > 0.4")
    assert wrong != prototype.read_text()
    prototype.write_text(wrong)
    certify(workspace, "round_ste")
    with pytest.raises(GraduationError, match="round_ste fails as it is verified anew, with seed") as raised:
        graduate(["round_ste"], tmp_path / "out", workspace=workspace, allow_unverified=["cuda"])
    assert "values, prototype on cpu" in raised.value.problem
    assert "result = prototype(x0)" in raised.value.problem
    assert f"trifold verify round_ste --seed {seed_in(raised.value.problem)}" in raised.value.remedy
    assert not (tmp_path / "out").exists()


def seed_in(text: str) -> str:
    return text.partition("with seed ")[2].partition(":")[0]


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.extended
def test_a_right_op_passes_and_its_certificate_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = verified_workspace(tmp_path / "workspace", "round_ste")
    certify(workspace, "round_ste", devices=HERE)
    embedded: dict[str, Any] = {}

    def write(content: Any, root: Path) -> None:
        embedded.update(content.certificates["round_ste"]["reverified"])
        raise Stopped

    monkeypatch.setattr("trifold.graduate.source_package.write", write)
    steps: list[str] = []
    with pytest.raises(Stopped):
        graduate(["round_ste"], tmp_path / "out", workspace=workspace, allow_unverified=["cuda"], on_step=steps.append)
    assert (embedded["examples"], embedded["checks"]) == (EXAMPLES, list(CHECKS))
    assert embedded["devices"] == list(HERE)
    assert embedded["cases"] > 2 * EXAMPLES
    assert isinstance(embedded["seed"], int)
    assert any(text.startswith("verify anew: round_ste") for text in steps)


# --------------------------------------------------------------------------------------------- what is made of answers


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return verified_workspace(tmp_path, "add", "mul")


Asked = list[dict[str, Any]]


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Asked]:
    """Let ``verify`` answer with these outcomes of prototype and port; what it was asked."""

    def answer(*outcomes: OutcomeName, cases: int = 3, happens: Callable[[], object] = lambda: None) -> Asked:
        asked: Asked = []
        failures = (Failure("2 and not 1", "add(f32[1])", "add(torch.ones(1))"),)

        def row(implementation: str, device: str, outcome: OutcomeName) -> Row:
            shown = failures if outcome == "failed" else ()
            return Row("values", implementation, device, outcome, cases, "it was too late", shown)

        def verify(*ops: str, devices: Sequence[str], **more: Any) -> Report:
            asked.append({"ops": ops, "devices": devices, **more})
            happens()
            pairs = [(k, d, o) for d in devices for k, o in zip(("prototype", "port"), outcomes, strict=True)]
            return Report("0", "2", "cpu", tuple(OpReport(op, tuple(row(*one) for one in pairs)) for op in ops))

        monkeypatch.setattr(reverification, "verify", verify)
        return asked

    return answer


def test_every_graduation_has_a_seed_of_its_own(workspace: Workspace, answered: Callable[..., Asked]) -> None:
    asked = answered("passed", "passed")
    first, second = (reverify(workspace, certificates(workspace, "add", "mul")) for _ in range(2))
    assert [one["ops"] for one in asked] == [("add", "mul")] * 2
    assert first["add"]["seed"] == first["mul"]["seed"] == asked[0]["seed"] != second["add"]["seed"]
    assert first["add"]["cases"] == 6
    assert all((one["checks"], one["examples"]) == (CHECKS, EXAMPLES) for one in asked)


def test_only_devices_of_the_certificate_that_are_here(
    workspace: Workspace, answered: Callable[..., Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answered("passed", "passed")
    certify(workspace, "add", devices=("cpu", "cuda"))
    certify(workspace, "mul", devices=("cuda",))
    monkeypatch.setattr(
        "trifold.machine.cells.Machine.lacks", lambda self, cell: "it has no GPU" * (cell.device == "cuda")
    )
    done = reverify(workspace, certificates(workspace, "add", "mul"))
    assert [(one["ops"], one["devices"]) for one in asked] == [(("add",), ("cpu",))]
    assert (done["mul"]["devices"], done["mul"]["cases"]) == ([], 0)


def test_the_failing_call_is_shown(workspace: Workspace, answered: Callable[..., Asked]) -> None:
    answered("passed", "failed")
    with pytest.raises(GraduationError, match=r"values, port on cpu\n2 and not 1\ncase: add.*\nadd.torch.ones"):
        reverify(workspace, certificates(workspace, "add"))


@pytest.mark.parametrize(
    ("outcomes", "cases", "says"),
    [
        (("passed", "not run"), 3, "add cannot be verified anew: port on cpu: it was too late"),
        (("not run", "passed"), 3, "add cannot be verified anew: prototype on cpu"),
        (("passed", "passed"), 0, "add cannot be verified anew: prototype on cpu"),
    ],
)
def test_what_did_not_run_has_not_passed(
    outcomes: tuple[OutcomeName, ...], cases: int, says: str, workspace: Workspace, answered: Callable[..., Asked]
) -> None:
    answered(*outcomes, cases=cases)
    with pytest.raises(GraduationError, match=says):
        reverify(workspace, certificates(workspace, "add"))


def test_an_edit_while_it_runs_is_named(workspace: Workspace, answered: Callable[..., Asked]) -> None:
    header = workspace.files("add").header
    answered("passed", "passed", happens=lambda: header.write_text("// edited\n"))
    with pytest.raises(GraduationError, match=r"the certificate of add is stale: cuda_src/add\.cuh changed"):
        reverify(workspace, certificates(workspace, "add"))


@pytest.mark.parametrize(
    ("again", "says"),
    [
        ({"seed": 7, "cases": 40, "devices": ["cpu", "cuda"]}, "add verified anew: seed 7, 40 cases on cpu and cuda\n"),
        ({"seed": 7, "cases": 0, "devices": []}, "add was not verified anew: this machine has no device of its"),
    ],
)
def test_the_command_prints_the_seed(
    again: Reverified,
    says: str,
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checked = object.__new__(Checked)
    for name, value in {"devices": ("cpu",), "ops": ("add",)}.items():
        object.__setattr__(checked, name, value)
    made = Graduated(workspace.root, workspace.root / "add.whl", checked, "", {"add": again})
    monkeypatch.setattr("trifold.graduate.graduate.graduate", lambda *args, **more: made)
    monkeypatch.setattr("trifold.graduate.command._report", lambda *args: None)
    command(["add"], workspace.root / "out", workspace=workspace.root)
    assert says in capsys.readouterr().out


def test_a_certificate_that_holds_says_nothing_of_it_yet(workspace: Workspace) -> None:
    files = workspace.files("add")
    contents = {str(path.relative_to(workspace.root)): path.read_bytes() for path in files}
    assert "reverified" not in require_certificate(workspace, files, contents, ("cuda",))
