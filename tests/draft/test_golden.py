"""The drafts of the gallery's ops, as they are kept in golden/: a change of what is written is seen.

python -m tests.draft.test_golden     writes them anew
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trifold
from benchmarks.drafts import drafted as workspace_of_drafts
from tests.draft.test_refusals import drafting
from trifold.workspace import Workspace

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"


def drafted() -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """The header and the binding of each op, and what is said of each that is refused."""
    done = drafting("ops", str(ROOT / "prototypes"))
    assert done.returncode == 0, done.stderr
    texts, refused = json.loads(done.stdout)
    return texts, refused


def test_drafts_of_the_gallery_are_the_golden_texts() -> None:
    """In one test: most of the time is that of importing Numba, which a process does once."""
    texts, refused = drafted()
    assert refused == {}
    for op, (header, binding) in texts.items():
        assert header == (GOLDEN / f"{op}.cuh").read_text(encoding="utf-8")
        assert binding == (GOLDEN / f"{op}.cu").read_text(encoding="utf-8")


@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("op", ["cross_entropy", "cumsum", "transpose"])
def test_golden_texts_of_several_types_compute_what_the_port_does(op: str, tmp_path: Path) -> None:
    report = trifold.verify(
        op,
        workspace=workspace_of_drafts([op], tmp_path).root,
        devices=["cpu"],
        implementations=["port"],
        checks=["values", "errors"],
        examples=3,
    )
    assert {row.outcome for each in report.ops for row in each.rows} == {"passed"}


@pytest.mark.extended
@pytest.mark.slow(seconds=30)
@pytest.mark.parametrize("op", Workspace.at(ROOT).ops())
def test_golden_texts_are_verified_as_they_are(op: str, tmp_path: Path) -> None:
    workspace = workspace_of_drafts([op], tmp_path).root
    report = trifold.verify(op, workspace=workspace, devices=["cpu"], implementations=["port"])
    assert {row.outcome for each in report.ops for row in each.rows} <= {"passed", "not run"}


if __name__ == "__main__":
    for name, (header, binding) in drafted()[0].items():
        (GOLDEN / f"{name}.cuh").write_text(header, encoding="utf-8")
        (GOLDEN / f"{name}.cu").write_text(binding, encoding="utf-8")
