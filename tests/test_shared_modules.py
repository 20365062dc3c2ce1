"""Python modules that several ops of a workspace share: next to their files, with an underscore in front."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

import trifold
from trifold.cli import app
from trifold.source_hashes import source_hashes
from trifold.workspace import Workspace, import_file

HALF = "half = 0.5\n"
USES = "from ._numbers import half\n\nvalue = 2 * half\n"


def write(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def shared(module: ModuleType) -> ModuleType:
    return sys.modules[module.half.__module__]


def test_a_file_imports_the_module_beside_it(tmp_path: Path) -> None:
    first, second = (write(tmp_path / name, _numbers=HALF, op=USES) for name in ("first", "second"))
    write(second, _numbers="half = 1.5\n")
    assert import_file(first / "op.py", "shared_first").value == 1
    assert import_file(second / "op.py", "shared_second").value == 3


def test_modules_of_packages_beside_it_count_too(tmp_path: Path) -> None:
    folder = write(tmp_path / "ports", op="from ._pair import both\nfrom ._pair.deep import one\n")
    write(folder / "_pair", __init__="from .deep import one\n\nboth = (one, one)\n", deep="one = 1\n")
    module = import_file(folder / "op.py", "shared_pair")
    assert (module.both, module.one) == ((1, 1), 1)


def test_files_of_a_folder_have_one_module_until_it_changes(tmp_path: Path) -> None:
    text = "from ._numbers import Half\n"
    folder = write(tmp_path / "ports", _numbers="class Half:\n    value = 0.5\n", a=text, b=text)
    first, second = (import_file(folder / f"{name}.py", f"shared_{name}") for name in "ab")
    assert first.Half is second.Half
    write(folder, _numbers="class Half:\n    value = 0.25 * 2 / 4\n")
    third, fourth = (import_file(folder / f"{name}.py", f"shared_{name}_later") for name in "ab")
    assert third.Half is fourth.Half is not first.Half
    assert (first.Half.value, third.Half.value) == (0.5, 0.125)


def test_what_a_changed_module_was_imported_by_is_executed_again(tmp_path: Path) -> None:
    folder = write(tmp_path / "ports", _a="one = 1\n", _b="from ._a import one\n\ntwo = 2 * one\n")
    write(folder, op="from ._b import two\n")
    assert import_file(folder / "op.py", "shared_two").two == 2
    write(folder, _a="one = 1 + 9\n")
    assert import_file(folder / "op.py", "shared_two").two == 20


def test_a_module_that_appears_later_is_found(tmp_path: Path) -> None:
    folder = write(tmp_path / "ports", op=USES)
    with pytest.raises(ModuleNotFoundError, match="_numbers"):
        import_file(folder / "op.py", "shared_late")
    write(folder, _numbers=HALF)
    assert import_file(folder / "op.py", "shared_late").value == 1


def test_other_folders_are_out_of_reach(tmp_path: Path) -> None:
    """Modules of the judge do not get into the op's process: a port cannot import from verify/."""
    write(tmp_path / "verify", _numbers=HALF)
    folder = write(tmp_path / "ports", op="from ..verify._numbers import half\n")
    with pytest.raises(ImportError, match="beyond top-level package"):
        import_file(folder / "op.py", "shared_beyond")


def test_the_folder_itself_is_no_package_that_is_executed(tmp_path: Path) -> None:
    """A graduated package has its own ``__init__.py`` there."""
    folder = write(tmp_path / "ports", __init__="raise RuntimeError('executed')\n", _numbers=HALF, op=USES)
    assert import_file(folder / "op.py", "shared_no_package").value == 1


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A generated workspace, whose one op takes something from a module beside each of its Python files."""
    root = tmp_path_factory.mktemp("shared") / "kernels"
    assert CliRunner().invoke(app, ["new", str(root)]).exit_code == 0
    assert CliRunner().invoke(app, ["new", "op", "other", "--workspace", str(root)]).exit_code == 0
    found = Workspace.at(root)
    files = found.op("scaled_square")
    fake = "from trifold.port import elementwise_output\n\n\ndef fake(x, *_):\n    return elementwise_output(x)\n"
    square = "from numba import cuda\n\n\n@cuda.jit(device=True)\ndef square(v):\n    return v * v\n"
    write(files.port.parent, _launches=fake)
    write(files.prototype.parent, _squares=square)
    write(files.spec.parent, _why='reason = "half types are computed in float32"\n')
    for path, old, new in (
        (files.port, "lambda x, *others: elementwise_output(x))", "_launches.fake)"),
        (files.prototype, "x[i] * x[i]\n", "square(x[i])\n"),
        (files.spec, '"half types are computed in float32"', "reason"),
    ):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    for path, line in (
        (files.port, "from . import _launches\n"),
        (files.prototype, "from ._squares import square\n"),
        (files.spec, "from ._why import reason\n"),
    ):
        doc, rest = path.read_text().split("\n", 1)
        path.write_text(f"{doc}\n\n{line}{rest}")
    return found


def test_shared_modules_are_no_ops(workspace: Workspace) -> None:
    assert workspace.ops() == ("other", "scaled_square")


@pytest.mark.slow(seconds=25)
def test_an_op_with_shared_modules_verifies(workspace: Workspace, quick_builds: None) -> None:
    checks = ["values", "gradients", "errors", "findings", "branches", "compile"]
    report = trifold.verify("scaled_square", workspace=workspace.root, devices=["cpu"], checks=checks, examples=4)
    rows = report.ops[0].rows
    assert [(row.check, row.implementation, row.failures) for row in rows if row.outcome == "failed"] == []
    assert sum(row.outcome == "passed" for row in rows) == 2 * len(checks)


def test_a_shared_module_counts_for_the_ops_that_import_it_alone(workspace: Workspace) -> None:
    files, other = workspace.op("scaled_square"), workspace.op("other")
    hashes, digests = source_hashes(workspace, files), (files.digest, other.digest)
    assert {"ports/_launches.py", "prototypes/_squares.py", "verify/_why.py"} <= hashes.keys()
    assert not any("/_" in name for name in source_hashes(workspace, other))
    path = workspace.folder("ports") / "_launches.py"
    path.write_text(path.read_text() + "# changed\n")
    assert source_hashes(workspace, files)["ports/_launches.py"] != hashes["ports/_launches.py"]
    assert files.digest != digests[0]
    assert other.digest == digests[1]
