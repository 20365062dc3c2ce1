"""Thrust on the emulated device: nvcc accepts the same programs, with CCCL 3."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.sanitize.program import sanitize

PROGRAMS = Path(__file__).with_name("programs")
MISTAKES = PROGRAMS / "thrust_mistakes.cu"
SAMPLES = """\
pi is near 3.14: 1
dense: 4 2 3 3 2 8 3 3 5 7 \n\
values: 0 1 2 3 4 5 6 7 8 9 \n\
counts: 4 2 3 3 2 8 3 3 5 7 \n\
row 0 sums to 46
row 1 sums to 62
row 2 sums to 78
box (0.5, -1) (4.5, 3)
averages: 2 2.33333 2.66667 1.33333 1.66667 2
centres: 1.5 20.5 6.875 \n\
"""


@pytest.mark.parametrize(
    ("name", "prints"),
    [
        ("algorithms", "0 failures\n"),
        pytest.param("memory", "3: 3 3 \n0 failures\n", marks=pytest.mark.extended),
        pytest.param("samples", SAMPLES, marks=pytest.mark.extended),
    ],
)
def test_results_are_thrusts(name: str, prints: str, capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAMS / f"thrust_{name}.cu")
    printed = capfd.readouterr().out
    assert (report.entries, report.exit_status) == ([], 0), printed
    assert printed == prints


def line_of(text: str) -> int:
    (number,) = [at for at, line in enumerate(MISTAKES.read_text().splitlines(), 1) if text in line]
    return number


def test_without_a_mistake_the_program_is_clean(capfd: pytest.CaptureFixture[str]) -> None:
    assert sanitize(MISTAKES).entries == []
    assert capfd.readouterr().out == "400 0\n"


@pytest.mark.parametrize(
    ("mistake", "kind", "kernel", "at", "says"),
    [
        ("kernel", "out-of-bounds", "twice", "// in a kernel", "x[100]"),
        ("functor", "out-of-bounds", "thrust::transform", "// in a functor", "values[100]"),
        ("uninitialised", "uninitialised read", "thrust::reduce", "// of cudaMalloc", "memory[0]"),
        ("range", "out-of-bounds", "thrust::reduce", "// a range", "sums[100]"),
        ("lifetime", "out-of-bounds", "twice", "// in a kernel", "temporary"),
        ("scatter", "race", "thrust::scatter", "// to one place", "sums[5]"),
        ("race", "race", "thrust::for_each", "// by all", "count[0]"),
        ("host", "out-of-bounds", "thrust::sort", "// of the host", "memory of the host"),
    ],
)
def test_a_mistake_is_found_at_its_line(mistake: str, kind: str, kernel: str, at: str, says: str) -> None:
    finding = sanitize(MISTAKES, [mistake]).findings[0]
    assert (finding.kind, finding.kernel) == (kind, kernel)
    assert line_of(at) in {access.line for access in finding.accesses}
    assert says in str(finding)


def test_without_a_policy_a_raw_pointer_is_the_hosts() -> None:
    (problem,) = sanitize(MISTAKES, ["policy"]).problems
    assert "values, 400 bytes of the device" in problem
