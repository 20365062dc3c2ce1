"""`trifold graduate` says what is wrong, with exit status 2, and leaves no files."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.graduate.verified import certify, nothing_anew, verified_workspace
from tests.wrong.entry import GALLERY
from trifold.cli import main
from trifold.graduate import graduate as graduation
from trifold.graduate.backend.compilers import find_nvcc
from trifold.workspace import Workspace

Run = Callable[..., str]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return verified_workspace(tmp_path / "workspace", "add", "mul")


@pytest.fixture
def refused(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run ``trifold graduate`` with these words; what it says as it refuses."""
    monkeypatch.chdir(workspace.root)
    monkeypatch.setattr(graduation, "reverify", nothing_anew)

    def run(*words: str, out: str = "out") -> str:
        before = sorted(tmp_path.iterdir())
        monkeypatch.setattr(sys, "argv", ["trifold", "graduate", "--out", str(tmp_path / out), *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr().err
        assert ended.value.code == 2
        assert "Traceback" not in said
        assert sorted(tmp_path.iterdir()) == before
        return said

    return run


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ad"], "did you mean 'add'?"),
        (["add"], "add is not verified on cuda"),
        (["add", "--name", "queue"], "'queue' is a module of Python's standard library"),
        (["add", "--name", "a b"], "'a b' is refused by PyPI"),
        (["add", "--version", "x"], "'x' is not a version"),
        (["add", "--arch", "sm_90"], "an architecture has the form 9.0"),
        (["add", "--allow-unverified", "cpu"], "'cpu' is not"),
        ([], "name at least one op"),
        (["add", "--check", "some.whl"], "--check takes neither ops nor --out"),
    ],
)
def test_a_mistake_is_named(words: list[str], says: str, refused: Run) -> None:
    assert says in " ".join(refused(*words).replace("│", " ").split())


def test_an_architecture_that_nvcc_does_not_know(refused: Run) -> None:
    if find_nvcc() is None:
        pytest.skip("there is no nvcc here")
    assert "nvcc does not know it" in refused("add", "--arch", "9.9")


def test_few_examples_are_refused(refused: Run, workspace: Workspace) -> None:
    certify(workspace, "mul", examples=5)
    said = refused("add", "mul", "--allow-unverified", "cuda")
    assert "mul was verified with 5 of 48 examples" in said
    assert "--allow-unverified examples" in said


def test_an_existing_folder_stays(refused: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    assert "exists already" in refused("add")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def edited(workspace: Workspace, kind: str, old: str, new: str) -> None:
    """An op edited and certified as it is then, so that no certificate stops it."""
    path: Path = getattr(workspace.files("add"), kind)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    certify(workspace, "add")


@pytest.mark.parametrize(
    ("kind", "old", "new", "says"),
    [
        ("port", "def add(", "def plus(", "has no function named add"),
        ("port", 'op.define("add(', 'op.define("plus(', "add"),
        ("port", '    op.define("add(Tensor x, Tensor y) -> Tensor", fake=elementwise_output)\n', "", "add"),
        ("port", "op = wire(__name__, register, direct=True)", "", "does not register its operators"),
        ("port", "import Operators,", "import Operator,", "Operator"),
        ("spec", "smooth=", "rough=", "rough"),
    ],
)
def test_an_op_that_is_not_whole_is_refused(
    kind: str, old: str, new: str, says: str, refused: Run, workspace: Workspace
) -> None:
    edited(workspace, kind, old, new)
    assert says in refused("add", "--allow-unverified", "cuda")


def test_an_edit_after_verification_is_named(refused: Run, workspace: Workspace) -> None:
    header = workspace.files("mul").header
    header.write_text(header.read_text() + "\n")
    assert "the certificate of mul is stale: cuda_src/mul.cuh changed" in refused(
        "add", "mul", "--allow-unverified", "cuda"
    )


def test_two_ops_with_one_operator_do_not_share_a_package(refused: Run, workspace: Workspace) -> None:
    port = workspace.files("add").port
    more = '    op.define("mul_backward(Tensor x) -> Tensor", fake=elementwise_output)\n    op.autograd("add"'
    port.write_text(port.read_text().replace('    op.autograd("add"', more))
    certify(workspace, "add")
    said = refused("add", "mul", "--allow-unverified", "cuda")
    assert "add and mul both define the operator mul_backward" in said


def test_cpp_that_does_not_compile_is_shown_at_its_line(
    refused: Run, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The engine is left out, which would be built before the error is seen."""
    logs = tmp_path_factory.mktemp("logs")
    monkeypatch.setattr(tempfile, "tempdir", str(logs))
    monkeypatch.setattr(graduation, "find_nvcc", lambda: None)
    edited(workspace, "binding", "return out;", "return nothing;")
    monkeypatch.setattr("trifold.graduate.cpp_sources._LEFT_OUT", AllButOne())
    said = refused("add", "--allow-unverified", "cuda")
    assert "add.cu:15:10: error:" in said
    assert "'nothing' was not declared" in said
    assert [str(path) in said for path in logs.iterdir()] == [True]


class AllButOne:
    """Leaves out all files of the engine but one."""

    def __contains__(self, name: str) -> bool:
        return name.endswith(".cpp") and name != "thread_ranges.cpp"


_WITHOUT_REVERIFY = """
import trifold.cli, trifold.graduate.graduate, tests.graduate.verified as verified
trifold.graduate.graduate.reverify = verified.nothing_anew
trifold.cli.main()
"""


@pytest.mark.parametrize("kib", [1, 64])
def test_a_full_disk_leaves_nothing(kib: int, workspace: Workspace, tmp_path: Path) -> None:
    """No file may be larger than this: the first ones fail, or a later one."""
    before = sorted(tmp_path.iterdir())
    words = ["graduate", "add", "--out", str(tmp_path / "out"), "--allow-unverified", "cuda"]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_REVERIFY, *words],
        cwd=workspace.root,
        env=os.environ
        | {
            "TMPDIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join([str(GALLERY.root), *sys.path]),
            "PYTHONDONTWRITEBYTECODE": "1",  # Python writes what fits, and cannot read it
        },
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kib << 10, kib << 10)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before
