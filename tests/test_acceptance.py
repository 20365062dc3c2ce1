"""Parsing of the acceptances in comments and suppressions files."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.acceptance import (
    KINDS,
    AcceptanceError,
    configured_suppressions,
    for_engine,
    read_comments,
    read_suppressions,
)
from trifold.errors import WorkspaceError
from trifold.workspace import Workspace

PYTHON = '''
def kernel(out):
    """An example:  # trifold: allow race, in a string
    """
    out[0] = 1  # trifold: allow race, all write the same value
    # trifold: allow uninitialised read, the host looks at no other
    # an ordinary comment
    out[1] = out[2]
'''

C = """
const char* words = "// trifold: allow race, in a string";
#define WRITE(i) out[i] = 1; /* trifold: allow out-of-bounds, the macro's own */ \\
  out[i + 1] = 2
__global__ void kernel(int* out) {
  // trifold: allow misaligned, only on the CPU
  // trifold: allow race, all write
  //   the same value
  out[0] = 1;
  out[1] = 1;  // trifold: allowance
}
"""


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("kernels.py", PYTHON, [("race", 5, 5), ("uninitialised read", 6, 8)]),
        ("<ipython-input-1>", PYTHON, [("race", 5, 5), ("uninitialised read", 6, 8)]),
        ("kernels.cu", C, [("out-of-bounds", 3, 3), ("misaligned", 6, 9), ("race", 7, 9)]),
    ],
)
def test_a_comment_is_for_its_line_or_the_next_one_that_is_none(
    name: str, text: str, found: list[tuple[str, int, int]]
) -> None:
    read = read_comments(name, text)
    assert [(each.kind, int(each.place.rpartition(":")[2]), each.line) for each in read] == found
    assert all(each.file == name and each.reason for each in read)


@pytest.mark.parametrize(
    ("comment", "problem", "remedy"),
    [
        ("allow races, all equal", "no finding of the kind 'races'", ", ".join(KINDS)),
        ("allow deadlock, it ends", "a deadlock cannot be accepted", ", ".join(KINDS)),
        ("allow race", "without a reason", "trifold: allow race, why it is right"),
        ("allow race,", "without a reason", "trifold: allow race, why it is right"),
        ("allow", "no finding of the kind ''", ", ".join(KINDS)),
    ],
)
def test_a_wrong_comment_is_an_error_with_its_line(comment: str, problem: str, remedy: str) -> None:
    for name, sign in (("kernels.py", "#"), ("kernels.cu", "//")):
        with pytest.raises(AcceptanceError) as error:
            read_comments(name, f"\nx[0] = 1  {sign} trifold: {comment}\n")
        assert f"{name}:2" in error.value.problem
        assert problem in error.value.problem
        assert remedy in error.value.remedy


def test_entries_of_a_file_keep_their_order_and_fields(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text(
        '[[suppression]]\nkind = "race"\nkernel = "hist*"\nfile = "thelib/*.py"\narray = "flags"\n'
        'reason = "any\\nwill do"\n'
        '[[suppression]]\nkind = "misaligned"\nreason = "x86 does not mind"\n'
    )
    first, second = read_suppressions(file)
    assert (first.kind, first.kernel, first.file, first.array, first.line) == (
        "race",
        "hist*",
        "thelib/*.py",
        "flags",
        0,
    )
    assert (second.kernel, second.file, second.array) == ("", "", "")
    assert second.place == f"{file}, entry 2"
    assert for_engine((first, second)) == (
        f"race\thist*\tthelib/*.py\tflags\t0\t{file}, entry 1\tany will do\n"
        f"misaligned\t\t\t\t0\t{file}, entry 2\tx86 does not mind"
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[[suppression]]\nkind = 'race'\n", "entry 1 lacks reason"),
        ("[[suppression]]\nreason = 'so'\n", "entry 1 lacks kind"),
        ("[[suppression]]\nkind = 'race'\nreason = 'so'\nline = 3\n", "entry 1 has no field line"),
        ("[[suppression]]\nkind = 'race'\nreason = 3\n", "entry 1 needs text in reason"),
        ("[[suppression]]\nkind = 'race'\nreason = ''\n", "entry 1 needs text in reason"),
        ("[[suppression]]\nkind = 'rice'\nreason = 'so'\n", "entry 1: there is no finding of the kind 'rice'"),
        ("[suppression]\nkind = 'race'\nreason = 'so'\n", "is not a list of suppressions"),
        ("[[suppressions]]\nkind = 'race'\nreason = 'so'\n", "is not a list of suppressions: it has suppressions"),
        ("[[", "cannot be read"),
    ],
)
def test_a_wrong_entry_is_an_error_that_names_it(content: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text(content)
    with pytest.raises(AcceptanceError) as error:
        read_suppressions(file)
    assert problem in error.value.problem
    with pytest.raises(AcceptanceError, match="cannot be read"):
        read_suppressions(tmp_path / "missing.toml")


def test_the_projects_setting_names_the_file(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    inner = tmp_path / "src" / "part"
    inner.mkdir(parents=True)
    for folder in ("prototypes", "cuda_src", "ports", "verify"):
        (tmp_path / folder).mkdir()
    project.write_text('[tool.trifold]\nsuppressions = "tests/known.toml"\n')
    (inner / "pyproject.toml").write_text("[tool.other]\n")
    assert configured_suppressions(inner) == tmp_path / "tests/known.toml"
    assert Workspace.at(tmp_path).folders["ports"] == "ports"  # the setting is no folder
    project.write_text("[tool.trifold]\nsuppressions = 3\n")
    with pytest.raises(AcceptanceError, match=r"suppressions in \[tool\.trifold\] must be a file's name"):
        configured_suppressions(inner)
    project.write_text("[tool.trifold]\nsupressions = 'known.toml'\n")
    assert configured_suppressions(inner) is None
    with pytest.raises(WorkspaceError, match="has no setting supressions"):
        Workspace.at(tmp_path)
