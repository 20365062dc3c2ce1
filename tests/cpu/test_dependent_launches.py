"""Programmatic dependent launches: a kernel that may begin before the previous one has ended must wait for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trifold.sanitize.program import sanitize

PROGRAM = Path(__file__).with_name("programs") / "dependent.cu"
SOURCE = PROGRAM.read_text(encoding="utf-8").splitlines()
WAYS = re.findall(r"^  (\w+),", PROGRAM.read_text(encoding="utf-8").split("enum class Way")[1].split("};")[0], re.M)


@pytest.mark.parametrize("way", ["right", "one_waits", "asm_text", "synchronised", "not_early"])
def test_a_kernel_that_waits_is_clean(way: str, capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAM, (str(WAYS.index(way)),), schedules=3)
    assert (report.entries, report.exit_status) == ([], 0)
    assert capfd.readouterr().out == "0 wrong\n"


@pytest.mark.parametrize(
    ("way", "marks", "array"),
    [
        ("no_wait", ("// consumed", "// produced"), "t"),
        ("read_too_early", ("// too early", "// produced"), "t"),
        ("some_wait", ("// consumed", "// produced"), "t"),
        ("overwritten", ("// overwritten", "// produced"), "x"),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_missing_wait_is_a_race_of_the_two_kernels(way: str, marks: tuple[str, ...], array: str, seed: int) -> None:
    report = sanitize(PROGRAM, (str(WAYS.index(way)),), seed=seed)
    (finding,) = report.findings
    assert (finding.kind, finding.kernel, finding.array) == ("race", "consume", array)
    later, earlier = finding.accesses
    assert (later.kernel, earlier.kernel) == ("", "produce")
    assert earlier.block == later.block and earlier.thread == later.thread
    for access, mark in zip(finding.accesses, marks, strict=True):
        assert SOURCE[access.line - 1].endswith(mark)
    assert "of kernel produce" in finding.message and "Call cudaGridDependencySynchronize()" in finding.message
