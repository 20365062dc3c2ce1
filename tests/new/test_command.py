"""``trifold new``: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trifold.cli import app
from trifold.errors import TrifoldError
from trifold.new.command import FIRST_OP
from trifold.new.family import FAMILIES
from trifold.new.origin import Origin
from trifold.workspace import Workspace

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["new", *arguments])


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert run(str(tmp_path / "My kernels")).exit_code == 0
    monkeypatch.chdir(tmp_path / "My kernels")
    return tmp_path / "My kernels"


def test_a_workspace_has_all_its_files_and_one_op(workspace: Path) -> None:
    assert sorted(str(path.relative_to(workspace)) for path in workspace.rglob("*") if path.is_file()) == [
        ".clang-format",
        ".github/workflows/verify.yml",
        ".gitignore",
        f".trifold/drafts/{FIRST_OP}.cu",  # with which `trifold draft` sees that nobody has edited them
        f".trifold/drafts/{FIRST_OP}.cuh",
        ".vscode/launch.json",
        ".vscode/settings.json",
        "README.md",
        "compile_commands.json",
        f"cuda_src/{FIRST_OP}.cu",
        f"cuda_src/{FIRST_OP}.cuh",
        f"ports/{FIRST_OP}.py",
        f"prototypes/{FIRST_OP}.py",
        "pyproject.toml",
        f"verify/{FIRST_OP}.py",
    ]
    assert Workspace.at(workspace).ops() == (FIRST_OP,)
    project = tomllib.loads((workspace / "pyproject.toml").read_text())
    assert project["project"]["name"] == "my-kernels"
    assert project["tool"]["trifold"]["cuda_src"] == "cuda_src"
    assert len((workspace / "README.md").read_text().splitlines()) <= 11


def test_its_parts_are_those_of_this_repository(workspace: Path) -> None:
    assert (workspace / ".clang-format").read_text() == (ROOT / ".clang-format").read_text()
    settings = Path(".vscode") / "settings.json"
    assert (workspace / settings).read_text() == (ROOT / settings).read_text()
    launch = json.loads((workspace / ".vscode" / "launch.json").read_text())
    assert launch == json.loads((ROOT / ".vscode" / "launch.json").read_text())


def test_ci_verifies_without_a_gpu(workspace: Path) -> None:
    workflow = (workspace / ".github/workflows/verify.yml").read_text()
    assert "- run: trifold verify\n" in workflow
    assert "- run: pytest\n" in workflow
    assert "${{ github.workspace }}" in workflow


@pytest.mark.parametrize("here", [False, True])
def test_ci_installs_trifold_from_where_this_one_came(
    here: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "file:///trifold" if here else "git+https://example.org/trifold.git@4cb787d"
    monkeypatch.setattr("trifold.new.origin.origin", lambda: Origin(f"trifold @ {url}", here))
    done = run(str(tmp_path / "ws"))
    workflow = (tmp_path / "ws" / ".github/workflows/verify.yml").read_text()
    install, rest = (workflow.index(f"- run: pip install '{what}'") for what in (f"trifold @ {url}", ".[test]"))
    assert install < rest
    assert ("on this machine alone" in done.output) == ("a URL that the runner can reach" in workflow) == here


@pytest.mark.parametrize("like", FAMILIES)
def test_an_op_is_five_files(workspace: Path, like: str) -> None:
    done = run("op", "mine", "--like", like)
    assert done.exit_code == 0
    files = Workspace.at(workspace).op("mine")
    assert not files.missing
    for path in files:
        assert str(path.relative_to(workspace)) in done.output
    assert "trifold verify mine" in done.output


def test_the_folders_may_have_other_names(workspace: Path) -> None:
    (workspace / "cuda_src").rename(workspace / "csrc")
    config = workspace / "pyproject.toml"
    config.write_text(config.read_text().replace('cuda_src = "cuda_src"', 'cuda_src = "csrc"'))
    assert run("op", "mine").exit_code == 0
    assert (workspace / "csrc" / "mine.cuh").is_file()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("op",), "trifold new op NAME"),
        (("op", "a", "b"), "trifold new op NAME"),
        (("a", "b"), "one PATH at a time"),
        (("elsewhere", "--like", "rows"), "go with an op"),
        (("elsewhere", "--signature", "(Tensor x) -> Tensor"), "go with an op"),
        (("op", "Bad"), "cannot be called 'Bad'"),
        (("op", FIRST_OP), "already"),
        (("op", "mine", "--like", "row"), "did you mean rows?"),
        (("op", "mine", "--like", "rows", "--signature", "(Tensor x) -> Tensor"), "elementwise only"),
        (("op", "mine", "--signature", "(Tensor x, Scalar a) -> Tensor"), "a is a Scalar"),
        (("op", "mine", "--workspace", "nowhere"), "is not a trifold workspace"),
        ((".",), "is not empty"),
        (("README.md",), "is a file"),
        (("README.md/ws",), "cannot be written"),
    ],
)
def test_what_is_refused_leaves_everything_as_it_was(workspace: Path, arguments: tuple[str, ...], says: str) -> None:
    before = {path: path.read_bytes() for path in workspace.parent.rglob("*") if path.is_file()}
    done = run(*arguments)
    assert isinstance(done.exception, TrifoldError | ValueError)
    assert says in str(done.exception)
    assert {path: path.read_bytes() for path in workspace.parent.rglob("*") if path.is_file()} == before


def test_an_op_outside_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "is not in a trifold workspace" in str(run("op", "mine").exception)


def test_force_replaces_an_op(workspace: Path) -> None:
    prototype = workspace / "prototypes" / f"{FIRST_OP}.py"
    original = prototype.read_text()
    prototype.write_text("mine")
    assert run("op", FIRST_OP, "--force").exit_code == 0
    assert prototype.read_text() == original


def test_force_writes_into_a_folder_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert run(str(tmp_path), "--force").exit_code == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert Workspace.at(tmp_path).ops() == (FIRST_OP,)
