"""``trifold draft``: what it writes, and what it never overwrites."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.draft.test_refusals import drafting
from trifold.new.family import FAMILIES
from trifold.new.render import op_texts
from trifold.workspace import Workspace

ROOT = Path(__file__).parents[2]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for folder in ("prototypes", "ports", "verify"):
        (tmp_path / folder).mkdir()
        shutil.copy(ROOT / folder / "add.py", tmp_path / folder)
    (tmp_path / "cuda_src").mkdir()
    return tmp_path


def draft(workspace: Path, *options: str, op: str = "add") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trifold", "draft", op, "--workspace", str(workspace), *options]
    environment = os.environ | {"COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_drafted_files_follow_the_prototype_until_they_are_edited(workspace: Path) -> None:
    header, prototype = workspace / "cuda_src" / "add.cuh", workspace / "prototypes" / "add.py"
    assert draft(workspace).returncode == 0
    assert "out[i] = T(C(x[i]) + C(y[i]))" in header.read_text()
    assert draft(workspace, "--diff").stdout == ""

    # A changed prototype changes a draft that nobody has edited.
    prototype.write_text(prototype.read_text().replace("x[i] + y[i]", "x[i] - y[i]"))
    assert draft(workspace).returncode == 0
    assert "out[i] = T(C(x[i]) - C(y[i]))" in header.read_text()

    # What is edited stays, and the difference is shown.
    header.write_text(header.read_text() + "// mine\n")
    refused = draft(workspace)
    assert refused.returncode == 2
    assert "cuda_src/add.cuh: edited since it was drafted" in refused.stderr
    shown = draft(workspace, "--diff")
    assert shown.returncode == 1
    assert "-// mine" in shown.stdout.splitlines()
    assert header.read_text().endswith("// mine\n")


def test_what_is_computed_in_float64_by_a_constant_is_named(workspace: Path) -> None:
    prototype = workspace / "prototypes" / "add.py"
    prototype.write_text(prototype.read_text().replace("x[i] + y[i]", "0.5 * (x[i] + y[i])"))
    line = 1 + prototype.read_text().splitlines().index("        out[i] = 0.5 * (x[i] + y[i])")
    why = "computed in float64, since 0.5 is a float64; for float32, write numpy.float32(0.5)"
    assert f"prototypes/add.py:{line}: {why}" in draft(workspace).stdout.splitlines()


def test_a_port_that_is_kept_is_compared_with_the_prototype(workspace: Path) -> None:
    """Its operators are those of an earlier prototype."""
    port, prototype = workspace / "ports" / "add.py", workspace / "prototypes" / "add.py"
    assert "ports/add.py" not in draft(workspace).stdout
    text = prototype.read_text()
    prototype.write_text(text.replace("def add(x: Tensor, y: Tensor)", "def add(x: Tensor, y: Tensor, times: int = 1)"))
    before = port.read_text()
    said = " ".join(draft(workspace).stdout.split())
    assert "ports/add.py: kept, since it was not drafted" in said
    assert "does not define add(Tensor x, Tensor y, int times" in said
    assert port.read_text() == before


@pytest.mark.extended
def test_generated_cpp_that_nobody_has_edited_follows_the_prototype(workspace: Path) -> None:
    command = [sys.executable, "-m", "trifold", "new", "op", "add", "--force", "--workspace", str(workspace)]
    subprocess.run(command, check=True, capture_output=True)
    header, port, prototype = (workspace / name for name in ("cuda_src/add.cuh", "ports/add.py", "prototypes/add.py"))
    generated = port.read_text()
    prototype.write_text(prototype.read_text().replace("x[i] * x[i]", "x[i] * x[i] * x[i]"))
    assert draft(workspace).returncode == 0
    assert "C(x[i]) * C(x[i]) * C(x[i])" in header.read_text()
    assert port.read_text() == generated  # its gradient, and what it says of the op, are not in the prototype

    subprocess.run(command, check=True, capture_output=True)
    header.write_text(header.read_text() + "// mine\n")
    assert draft(workspace).returncode == 2
    assert header.read_text().endswith("// mine\n")


def test_a_changed_prototype_is_merged_into_an_edited_port(workspace: Path) -> None:
    header, prototype = workspace / "cuda_src" / "add.cuh", workspace / "prototypes" / "add.py"
    draft(workspace)
    mine = header.read_text() + "\n// mine\n"
    header.write_text(mine)
    prototype.write_text(prototype.read_text().replace("x[i] + y[i]", "x[i] - y[i]"))
    done = draft(workspace, "--update")
    assert done.stdout.splitlines()[:2] == ["cuda_src/add.cuh: updated", "cuda_src/add.cu: is as it was"]
    assert header.read_text() == mine.replace("C(x[i]) + C(y[i])", "C(x[i]) - C(y[i])")

    # The same line was edited: nothing is lost, and nothing is written.
    mine = header.read_text().replace("C(x[i]) - C(y[i])", "C(x[i]) * C(y[i])")
    header.write_text(mine)
    prototype.write_text(prototype.read_text().replace("x[i] - y[i]", "x[i] + y[i]"))
    done = draft(workspace, "--update")
    assert done.returncode == 1
    assert header.read_text() == mine
    both = (workspace / ".trifold" / "drafts" / "add.cuh.merged").read_text()
    assert "<<<<<<< edited\n" in both
    assert ">>>>>>> new draft\n" in both


def test_a_port_that_was_never_drafted_is_not_merged(workspace: Path) -> None:
    shutil.copy(ROOT / "cuda_src" / "add.cuh", workspace / "cuda_src")
    done = draft(workspace, "--update")
    assert done.returncode == 2
    assert "add.cuh was not drafted: there is no last draft" in done.stderr.replace("\n", "")


def test_an_op_that_has_a_keyword_s_name_is_refused(workspace: Path) -> None:
    for folder in ("prototypes", "ports", "verify"):
        (workspace / folder / "add.py").rename(workspace / folder / "signed.py")
    prototype = workspace / "prototypes" / "signed.py"
    prototype.write_text(prototype.read_text().replace("def add(", "def signed("))
    refused = draft(workspace, op="signed")
    assert refused.returncode == 2
    assert "signed is a keyword of C++" in refused.stderr


def test_a_refusal_names_file_and_line(workspace: Path) -> None:
    prototype = workspace / "prototypes" / "add.py"
    prototype.write_text(prototype.read_text().replace("x[i] + y[i]", "[x[i]][0] + y[i]"))
    refused = draft(workspace)
    assert refused.returncode == 2
    assert "prototypes/add.py:17: a list is not translated" in refused.stderr.replace("\n", "")
    assert not list((workspace / "cuda_src").iterdir())


def test_the_prototypes_of_trifold_new_are_drafted(workspace: Path) -> None:
    ops = {f"my_{family.replace('-', '_')}": family for family in FAMILIES}
    (workspace / "prototypes" / "add.py").unlink()
    for op, family in ops.items():
        files = Workspace(workspace).files(op)
        files.prototype.write_text(op_texts(files, family, None)[files.prototype], encoding="utf-8")
    done = drafting("ops", str(workspace / "prototypes"))
    assert done.returncode == 0, done.stderr
    texts, refused = json.loads(done.stdout)
    assert refused == {}
    assert texts.keys() == ops.keys()
