"""Textures and surfaces of programs, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.sanitize.program import sanitize

PROGRAM = Path(__file__).with_name("programs") / "textures.cu"


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if text in line)


def test_texels_are_those_of_the_programming_guide(capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAM)
    assert (report.entries, report.exit_status) == ([], 0)
    assert capfd.readouterr().out == (
        "point, border: 0 37 -5 -5\n"
        "linear, clamp: 0 5.5 0.75 30\n"
        "linear, wrap: 0 3.5 0 18.5\n"
        "point, mirror: 0 7 0 0\n"
        "fetched: 6 7 0 0\n"
        "colours: 0.2 0.2 0.2 0.2\n"
        "surface: 1 38\n"
        "volume: 2 3\n"
        "layer: 11 12\n"
    )


@pytest.mark.parametrize(
    ("word", "kind", "message", "line"),
    [
        ("unwritten", "uninitialised read", "", "= tex2D<float>"),
        ("freed", "out-of-bounds", "and freed at textures.cu:", "= tex2D<float>"),
        ("neighbour", "race", "", "surf2Dwrite(surf2Dread"),
    ],
)
def test_texels_are_checked_like_other_memory(word: str, kind: str, message: str, line: str) -> None:
    report = sanitize(PROGRAM, [word])
    (finding,) = report.findings
    assert finding.kind == kind
    assert message in finding.message
    assert line_of(line) in [access.line for access in finding.accesses]


@pytest.mark.parametrize(
    ("word", "message", "line"),
    [
        ("destroyed", "a texture or surface object that was destroyed", "= tex2D<float>"),
        ("outside", "whose x, in bytes, is not a multiple of the size", "surf2Dwrite(1.0f"),
        ("copy", "a copy that exceeds its cudaArray", "image.array, 4, 0"),
        ("integers", "a linear filter for a texture that is read as integers", "&bytes.resource, &as"),
    ],
)
def test_a_wrong_use_is_a_problem_at_its_line(word: str, message: str, line: str) -> None:
    report = sanitize(PROGRAM, [word])
    (problem,) = report.problems
    assert message in problem
    assert f"textures.cu:{line_of(line)}" in problem
