"""The valid names of ops and workspaces; each refusal suggests one that works, or says what to do."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trifold.new.family import FAMILIES
from trifold.new.names import LONGEST, UnusableName, check_op_name, project_name
from trifold.workspace import Workspace


@pytest.mark.parametrize("name", ["softmax", "row_norm", "x2", "gelu", "add", "round_ste", "a" * LONGEST])
def test_good_names(name: str) -> None:
    check_op_name(name)


@pytest.mark.parametrize("gallery", Workspace.at(Path(__file__).parents[2]).ops())
def test_the_gallery_s_names_are_good(gallery: str) -> None:
    check_op_name(gallery)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("RowNorm", "lower-case"),
        ("row-norm", "lower-case"),
        ("2x", "lower-case"),
        ("_x", "lower-case"),
        ("größe", "lower-case"),
        ("", "lower-case"),
        ("../evil", "lower-case"),
        ("a" * (LONGEST + 1), "shorten"),
        ("lambda", "word of Python"),
        ("match", "word of Python"),
        ("template", "word of Python or C\\+\\+"),
        ("sum", "function of Python"),
        ("exp", "function of C's headers"),
        ("expf", "function of C's headers"),
        ("index", "function of C's headers"),
        ("torch", "means something else"),
        ("flat", "means something else"),
        ("test_me", "means something else"),
        ("conftest", "means something else"),
    ],
)
def test_bad_names(name: str, reason: str) -> None:
    with pytest.raises(UnusableName, match=reason):
        check_op_name(name)


@given(st.text(max_size=12))
def test_the_name_that_is_suggested_is_good_or_refused_for_another_reason(name: str) -> None:
    """For any text: the remedy of "use lower-case letters" is of lower-case letters."""
    try:
        check_op_name(name)
    except UnusableName as error:
        suggested = re.search(r"begin with a letter: (\w+)$", error.remedy)
        assert suggested is None or re.fullmatch(r"[a-z][a-z0-9_]*", suggested[1])


def _refused(name: str) -> bool:
    try:
        check_op_name(name)
    except UnusableName:
        return True
    return False


def test_every_name_that_a_template_imports_or_defines_is_refused() -> None:
    """An op of that name would hide it in its own files."""
    folder = resources.files("trifold.new").joinpath("templates")
    for family in FAMILIES:
        for template in folder.joinpath(family).iterdir():
            text = template.read_text(encoding="utf-8")
            names = set(re.findall(r"^(?:from [\w.]+ )?import (.+)$", text, re.MULTILINE))
            names = {re.sub(r"\w+ as ", "", line) for line in names}
            used = {name for line in names for name in re.findall(r"\b[a-z][a-z0-9_]*\b", line)}
            used |= set(re.findall(r"^(?:template .*\n)?[\w:<>]+ ([a-z]\w*)\(", text, re.MULTILINE))
            for name in used - {"if", "else", "several"}:
                assert _refused(name), f"{family}/{template.name}: {name}"


@pytest.mark.parametrize(
    ("folder", "name"), [("kernels", "kernels"), ("My Kernels!", "my-kernels"), ("a__b", "a-b"), ("3d", "3d")]
)
def test_project_names(folder: str, name: str) -> None:
    assert project_name(folder) == name


def test_a_folder_without_letters_gives_no_name() -> None:
    with pytest.raises(UnusableName, match="no project's name"):
        project_name("…")
