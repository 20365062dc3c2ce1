"""Each command and code block of the documentation runs, and prints what the page says."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.debug import registers
from tests.docs.blocks import RUN, Block, PageError, blocks, hunks
from tests.docs.commands import require_real_commands
from tests.docs.session import Session, unavailable
from tests.wrong.catalogue import CATALOGUE
from tests.wrong.entry import GALLERY, Wrong
from tests.wrong.tricks import TRICKS
from trifold.spec import Spec
from trifold.verification.checks import CHECKS

ROOT = GALLERY.root
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"))
)
NOTES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "benchmarks").glob("**/*.md"))
BLOCKS = [block for page in PAGES for block in blocks(ROOT / page, page)]
_WRONG = {str(wrong): wrong for wrong in CATALOGUE if wrong.device == "cpu"}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Session]]:
    """One for each page: in this repository, whose builds other tests made, or for a page that writes in a copy."""
    made: dict[str, Session] = {}
    for page in PAGES:
        mine = [block for block in BLOCKS if block.page == page]
        folder = ROOT
        if any(block.writes for block in mine):
            folder = tmp_path_factory.mktemp("page")
            shutil.copytree(ROOT / "examples", folder / "examples")
        made[page] = Session(mine, folder)
    yield made
    for session in made.values():
        session.close()


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language in RUN or block.writes], ids=str)
def test_a_block_is_right(block: Block, sessions: dict[str, Session]) -> None:
    if block.language == "sh":
        require_real_commands(block)
    if block.skipped or unavailable(block):
        pytest.skip(block.skipped or unavailable(block))
    try:
        sessions[block.page].run(block)
    except PageError as error:
        registers.skip_where_they_cannot_be_written(str(error))
        raise


SHOWN = [block for block in BLOCKS if "wrong" in block.marks]


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: f"{block}-{block.marks['wrong']}")
def test_a_wrong_kernel_is_one_that_is_rejected(block: Block) -> None:
    """``tests/test_wrong.py`` runs each of the catalogue: the page shows exactly what is rejected there."""
    wrong = _WRONG[block.marks["wrong"]]
    texts = {hunk.path: (ROOT / hunk.path).read_text(encoding="utf-8") for hunk in hunks(block)}
    for hunk in hunks(block):
        texts[hunk.path] = hunk.apply(texts[hunk.path], block)
    assert texts == _texts(wrong)


def _texts(wrong: Wrong) -> dict[str, str]:
    files = GALLERY.files(wrong.op)
    texts: dict[str, str] = {}
    for edit in wrong.edits:
        path: Path = getattr(files, edit.file)
        name = str(path.relative_to(ROOT))
        texts[name] = texts.get(name, path.read_text(encoding="utf-8")).replace(edit.old, edit.new)
    return texts


def test_each_check_has_a_section_with_a_mistake_of_its_own() -> None:
    page = (ROOT / "docs/verification.md").read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    for check in CHECKS:
        assert check.name in sections, f"docs/verification.md has no section on {check.name}"
        if "cpu" in check.devices:
            shown = [name for name in _WRONG if f'wrong="{name}"' in sections[check.name]]
            assert shown, f"no wrong kernel shows what {check.name} finds"
            assert {_WRONG[name].row for name in shown} == {check.name}


def test_each_trick_fails_in_the_row_that_the_page_names() -> None:
    page = (ROOT / "docs/trust.md").read_text(encoding="utf-8")
    table = re.findall(r"(?m)^\| ([^|`]+) \| ([^|`]+) \| [^|]+ \|$", page.partition("\n## Tricks\n")[2])
    listed = [(name, row) for name, row in table if name not in ("trick", "---")]
    assert listed
    assert set(listed) <= {(wrong.name, wrong.row) for wrong in TRICKS if not wrong.missed}


def test_each_field_of_a_spec_that_loosens_a_row_is_named() -> None:
    page = (ROOT / "docs/verification.md").read_text(encoding="utf-8").partition("\n## What a spec may state\n")[2]
    inputs = {"calls", "smooth", "samples", "edges", "gpu_edges", "bad_calls", "properties", "benchmarks"}
    assert {field.name for field in dataclasses.fields(Spec)} - inputs <= set(re.findall(r"`(\w+)`", page))


def test_links_lead_to_files() -> None:
    for page in (*PAGES, *NOTES):
        text = re.sub(r"(?ms)^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if not target.startswith("http"):
                assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}, which is not there"
