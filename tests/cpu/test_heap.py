"""Kernels' own heap: malloc, free, new and delete of device code, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.sanitize.program import sanitize

PROGRAM = Path(__file__).with_name("programs") / "heap.cu"
DATA = "data, 64 bytes of the kernels' heap made at heap.cu:"


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if text in line)


def test_what_kernels_allocate_is_right_in_any_order(capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAM, schedules=3)
    assert (report.findings, report.problems, report.exit_status) == ([], [], 0)
    made = f"heap.cu:{line_of('kept = malloc')}"
    assert report.remarks == [f"never freed: kept, 1000 bytes of the kernels' heap made at {made}"]
    assert capfd.readouterr().out == "8388608\n21 9600\n496 496\n3\n1 16 9604\nfull: 1\n"


@pytest.mark.parametrize(
    ("word", "kind", "message", "line"),
    [
        ("0", "out-of-bounds", f"The array is {DATA}", "y[0] = data[16]"),
        ("1", "out-of-bounds", f"{DATA}{line_of('(int*)malloc(64)')} and freed at", "y[0] = data[5]"),
        ("2", "out-of-bounds", f"frees, at heap.cu:{line_of('(word == twice) free')}", "(word == twice) free"),
        ("3", "uninitialised read", f"{DATA[:4]}", "y[0] = data[3]"),
        ("4", "race", "data", "word == in_use && threadIdx.x == 31) free"),
        ("5", "out-of-bounds", "sums, 128 bytes of the device", "free(y)"),
        ("6", "out-of-bounds", f"an address within {DATA}", "free(data + 1)"),
    ],
)
def test_a_mistake_with_the_heap_is_found(word: str, kind: str, message: str, line: str) -> None:
    report = sanitize(PROGRAM, [word])
    (finding,) = report.findings
    assert finding.kind == kind
    assert message in finding.message
    assert line_of(line) in [access.line for access in finding.accesses]


def test_memory_of_the_heap_is_for_kernels_only(capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAM, ["leak"])
    copied, leaked = report.remarks
    assert "its source is shapes[threadIdx.x], 16 bytes of the kernels' heap" in copied
    assert "which only kernels may access" in copied
    assert "never freed: shapes[threadIdx.x], 16 bytes of the kernels' heap" in leaked
    assert capfd.readouterr().out == "1\n"
