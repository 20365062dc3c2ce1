"""A certificate is of the files that were there before the run, holds for these alone, and proves what it says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import trifold
from tests.wrong.entry import copy_of_gallery
from trifold.cells import CellName
from trifold.source_hashes import source_hashes
from trifold.verification import certificate as certificates
from trifold.verification.certificate import (
    certificate_path,
    certified_rows,
    read_certificate,
    toolkit_digest,
    write_certificate,
)
from trifold.verification.job import Job
from trifold.verification.matrix import render
from trifold.verification.report import Failure, OpReport, OutcomeName, Report, Row
from trifold.verification.stages import stages
from trifold.verification.verify import Interrupted
from trifold.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """The op ``add`` with its own header and module, which includes and imports one more each."""
    workspace = copy_of_gallery("add", tmp_path)
    for name, text in {
        "cuda_src/add.cuh": '\n#include "rows/near.cuh"\n',
        "cuda_src/rows/near.cuh": '#include "far.cuh"\n#if __has_include("late.cuh")\n#endif\n',
        "cuda_src/rows/far.cuh": "",
        "verify/add.py": "\nfrom tools import near\n",
        "tools/__init__.py": "",
        "tools/near.py": "def f():\n    from tools import far, late\n",
        "tools/far.py": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text((path.read_text() if path.is_file() else "") + text)
    return workspace


def rows(*outcomes: OutcomeName) -> tuple[Row, ...]:
    implementations = ("prototype", "port")
    return tuple(
        Row("values", kind, "cpu", outcome, 3) for kind, outcome in zip(implementations, outcomes, strict=True)
    )


def certify(workspace: Workspace, *of: Row, examples: int | None = None) -> bool:
    result = OpReport("add", of or rows("passed", "passed"), examples=examples)
    report = Report(version("trifold"), "2.13", "cpu", (result,))
    sources = source_hashes(workspace, workspace.files("add"))
    return write_certificate(workspace, result, report, sources=sources, seed=None)


def state(workspace: Workspace) -> str:
    return stages(workspace)[0].certificate


def verdict(workspace: Workspace) -> str:
    return stages(workspace)[0].verified


@pytest.mark.parametrize(
    "name", ["cuda_src/rows/near.cuh", "cuda_src/rows/far.cuh", "tools/__init__.py", "tools/near.py", "tools/far.py"]
)
@pytest.mark.parametrize(
    "edit", [lambda path: path.write_text(f"{path.read_text()}\n"), Path.unlink], ids=["edited", "removed"]
)
def test_what_an_op_includes_or_imports_is_as_good_as_its_own(
    name: str, edit: Callable[[Path], object], workspace: Workspace
) -> None:
    certify(workspace)
    assert state(workspace) == "current"
    edit(workspace.root / name)
    assert state(workspace).startswith("stale: ")
    assert name in state(workspace)


@pytest.mark.parametrize("name", ["cuda_src/rows/late.cuh", "cuda_src/far.cuh", "tools/late.py", "tools.py"])
def test_a_new_file_that_is_reached_makes_stale(name: str, workspace: Workspace) -> None:
    certify(workspace)
    (workspace.root / name).write_text("")
    assert state(workspace) == f"stale: {name} changed since"


def test_other_files_do_not(workspace: Workspace) -> None:
    certify(workspace)
    for name in ("cuda_src/rows/other.cuh", "tools/other.py", "README.md", "prototypes/mul.py"):
        (workspace.root / name).write_text("")
    assert state(workspace) == "current"


@pytest.mark.parametrize(
    ("outcomes", "verdict"), [(("passed", "failed"), "failed"), (("passed", "not run"), "incomplete")]
)
def test_only_verified_is_a_proof(
    outcomes: tuple[OutcomeName, OutcomeName], verdict: str, workspace: Workspace
) -> None:
    cell = CellName("add", "prototype", "cpu")
    certify(workspace)
    assert certified_rows(workspace, cell, "cpu", examples=None, seed=None) == [rows("passed", "passed")[0]]
    certify(workspace, *rows(*outcomes))
    assert state(workspace) == f"no proof: it says '{verdict}'"
    assert certified_rows(workspace, cell, "cpu", examples=None, seed=None) == []


# ------------------------------------------------------------------------------------------------------------ examples

FEW = "5 of 48 examples (prototype cpu), 5 of 80 examples (port cpu)"


def test_it_states_how_many_examples_each_cell_drew(workspace: Workspace) -> None:
    def drawn(**more: int) -> object:
        certify(workspace, *rows("passed", "passed"), Row("all checks", "port", "cuda", "not run"), **more)
        return read_certificate(workspace, "add")["examples"]

    assert drawn(examples=5) == {"prototype cpu": 5, "port cpu": 5}
    assert drawn() == {"prototype cpu": 48, "port cpu": 80}


def test_a_port_that_is_built_and_not_run_draws_none() -> None:
    built = Row("build", "port", "cpu", "passed", 1)
    assert OpReport("add", (built, Row("values", "port", "cpu", "not run"))).drawn == {}


@pytest.mark.parametrize(
    ("examples", "says"),
    [
        (None, "verified on cpu"),
        (100, "verified on cpu"),
        (60, "verified on cpu with 60 of 80 examples (port cpu)"),
        (5, f"verified on cpu with {FEW}"),
    ],
)
def test_fewer_examples_than_by_default_are_listed(workspace: Workspace, examples: int | None, says: str) -> None:
    certify(workspace, examples=examples)
    assert (verdict(workspace), state(workspace)) == (says, "current")


@pytest.mark.parametrize(
    ("before", "after", "replaces"),
    [
        (None, 5, False),
        (20, 5, False),
        (100, 5, False),
        (5, 5, True),
        (5, 20, True),
        (5, None, True),
        (None, 100, True),
        (100, None, True),
    ],
)
def test_a_smaller_search_replaces_no_larger_one(
    before: int | None, after: int | None, replaces: bool, workspace: Workspace
) -> None:
    assert certify(workspace, examples=before)
    assert certify(workspace, examples=after) == replaces
    kept = after if replaces else before
    assert read_certificate(workspace, "add")["examples"]["port cpu"] == (kept or 80)


def test_it_does_once_a_source_is_another(workspace: Workspace) -> None:
    certify(workspace)
    (workspace.root / "tools" / "far.py").write_text("edited = True\n")
    assert certify(workspace, examples=5)
    assert (verdict(workspace), state(workspace)) == (f"verified on cpu with {FEW}", "current")


def test_it_does_not_hide_that_a_larger_one_failed(workspace: Workspace) -> None:
    certify(workspace, *rows("passed", "failed"))
    assert not certify(workspace, examples=5)
    assert state(workspace) == "no proof: it says 'failed'"


def test_it_shows_more_than_a_larger_one_of_one_implementation(workspace: Workspace) -> None:
    certify(workspace, rows("passed", "passed")[0])
    assert certify(workspace, examples=5)
    assert state(workspace) == "current"


def test_a_failure_in_a_smaller_search_counts(workspace: Workspace) -> None:
    certify(workspace)
    assert certify(workspace, *rows("passed", "failed"), examples=5)
    assert state(workspace) == "no proof: it says 'failed'"


@pytest.mark.parametrize(("examples", "found"), [(None, False), (48, False), (5, True)])
def test_rows_are_those_of_as_many_examples(workspace: Workspace, examples: int | None, found: bool) -> None:
    certify(workspace, examples=5)
    cell = CellName("add", "prototype", "cpu")
    assert bool(certified_rows(workspace, cell, "cpu", examples=examples, seed=None)) == found


# ------------------------------------------------------------------------------------------------------ during the run


def verify_while(
    workspace: Workspace,
    patch: pytest.MonkeyPatch,
    happens: Callable[[], object] = lambda: None,
    *,
    outcome: OutcomeName = "passed",
    **asked: Any,
) -> Report:
    """Return the result of `trifold.verify` for a run whose rows all have one outcome, while something ``happens``."""

    def rows_of_cell(_: Workspace, job: Job, *more: object) -> list[Row]:
        happens()
        failures = (Failure("2, not 1"),) if outcome == "failed" else ()
        return [Row("values", job.cell.implementation, job.cell.device, outcome, 3, failures=failures)]

    patch.setattr("trifold.verification.verify.rows_of_cell", rows_of_cell)
    return trifold.verify("add", workspace=workspace, devices=["cpu"], **asked)


def test_some_checks_leave_a_certificate_unless_they_fail(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify_while(workspace, monkeypatch)
    assert verify_while(workspace, monkeypatch, checks=["values"]).verdict == "incomplete"
    assert (verdict(workspace), state(workspace)) == ("verified on cpu", "current")
    verify_while(workspace, monkeypatch, checks=["values"], outcome="failed")
    assert (verdict(workspace), state(workspace)) == ("failed", "no proof: it says 'failed'")


def test_a_failure_counts_though_the_run_was_interrupted(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    certify(workspace)
    monkeypatch.setattr("trifold.verification.verify._run", lambda workspace, jobs, *more: ([FAILED, []], False))
    with pytest.raises(Interrupted):
        trifold.verify("add", workspace=workspace, devices=["cpu"])
    assert state(workspace) == "no proof: it says 'failed'"


FAILED = [Row("values", "prototype", "cpu", "failed", 1, failures=(Failure("2, not 1"),))]


def test_the_matrix_says_which_search_was_small_and_which_certificate_stays(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(**asked: Any) -> str:
        console = Console(width=300, file=StringIO())
        with console.capture() as capture:
            console.print(render(verify_while(workspace, monkeypatch, **asked)))
        return capture.get()

    assert f"add verified on cpu with {FEW}\n" in shown(examples=5)
    assert "add verified on cpu\n" in shown()
    assert f"add verified on cpu with {FEW}, and its certificate stays that of a fuller run\n" in shown(examples=5)


@pytest.mark.parametrize("name", ["prototypes/add.py", "cuda_src/add.cuh", "cuda_src/rows/far.cuh", "tools/late.py"])
def test_files_that_change_during_the_run_leave_no_certificate(
    name: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(workspace)
    report = verify_while(workspace, monkeypatch, lambda: (workspace.root / name).write_text("changed = True\n"))
    assert report.verdict == "failed"
    assert any(name in failure.message for row in report.ops[0].rows for failure in row.failures)
    assert not certificate_path(workspace, "add").exists()


def test_trifold_that_changes_during_the_run_leaves_none(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = iter(["before", "after"])
    monkeypatch.setattr("trifold.verification.verify.toolkit_digest", lambda: next(changes))
    assert verify_while(workspace, monkeypatch).verdict == "failed"
    assert not certificate_path(workspace, "add").exists()


def test_a_certificate_has_the_hashes_from_before_the_run(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = source_hashes(workspace, workspace.files("add"))
    assert verify_while(workspace, monkeypatch).verdict == "verified"
    recorded = json.loads(certificate_path(workspace, "add").read_text())
    assert (recorded["sources"], recorded["toolkit"]) == (before, toolkit_digest())
    assert "tools/far.py" in before


# ------------------------------------------------------------------------------------------------------------- trifold


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("verification/checks/values.py", True),
        ("verification/tolerance.py", True),
        ("spec/rows.py", True),
        ("simulator/launch.py", True),
        ("engine/core/shadow.cpp", True),
        ("include/trifold/cuda.cuh", True),
        ("port/wiring.py", True),
        ("a_new_folder/new.py", True),
        ("cli.py", False),
        ("bench/run.py", False),
        ("graduate/card.py", False),
        ("spec/__pycache__/rows.cpython-311.pyc", False),
    ],
)
def test_the_toolkits_digest_has_what_judges(
    name: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "trifold"
    shutil.copytree(Path(certificates.__file__).parents[1], root, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    monkeypatch.setattr(certificates, "__file__", str(root / "verification" / "certificate.py"))
    before = toolkit_digest()
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((path.read_bytes() if path.is_file() else b"") + b"\n")
    assert (toolkit_digest() != before) == counts
