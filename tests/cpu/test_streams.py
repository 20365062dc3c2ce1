"""The order of a program's streams on the CPU (engine/cpu/stream_order.h): missing waits are found at both lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.findings import Finding
from trifold.sanitize.program import ProgramReport, sanitize

PROGRAM = Path(__file__).with_name("programs") / "streams.cu"
MARKS: dict[str, list[int]] = {}
for _number, _line in enumerate(PROGRAM.read_text(encoding="utf-8").splitlines(), 1):
    if "  // " in _line:
        MARKS.setdefault(_line.rsplit("  // ", 1)[1], []).append(_number)

# For each form: its array, its kind, the mark of each access that is not a call's, later and earlier, and a part of the
# remedy.
WRONG = {
    "no_event": ("x", "race", "scale", "", "Record an event in stream 1"),
    "early_event": ("x", "race", "sum", "scale", "in stream 1, before that operation. Record"),
    "wrong_event": ("x", "race", "", "scale", "in stream 3. Record"),
    "unrecorded_event": ("x", "race", "", "scale", "had not been recorded then: such a wait does nothing"),
    "early_read": ("pinned", "race", "", "", "call cudaStreamSynchronize"),
    "early_overwrite": ("pinned", "race", "", "", "call cudaStreamSynchronize"),
    "managed_memory": ("managed", "race", "", "scale", "call cudaStreamSynchronize"),
    "host_atomics": ("managed", "race", "", "count", "call cudaStreamSynchronize"),
    "host_function": ("pinned", "race", "read_first", "", "let stream 2 wait"),
    "free_running_stream": ("x", "race", "scale", "", "made with cudaStreamNonBlocking does not wait"),
    "default_stream_after": ("x", "race", "sum", "scale", "made with cudaStreamNonBlocking does not wait"),
    "per_thread_stream": ("x", "race", "sum", "scale", "let stream 1 wait"),
    "early_free": ("temporary", "lifetime", "", "scale", "let stream 1 wait"),
    "early_use": ("temporary", "lifetime", "", "", "may be used in another stream once that has waited"),
    "free_without_wait": ("temporary", "lifetime", "", "scale", "free it by cudaFreeAsync"),
    "two_buffers": ("x y", "race", "", "scale", "let stream 1 wait"),
    "parts": ("x", "race", "scale", "scale", "bytes 508 to 511 of x"),
    "constant_memory": ("factor", "race", "", "multiply", "let stream 2 wait"),
    "variable_of_device": ("table", "race", "look_up", "", "let stream 2 wait"),
    "atomics": ("x", "race", "count", "count", "let stream 2 wait"),
    "nodes_of_graph": ("x", "race", "sum", "scale", "Add a dependency to the graph"),
    "after_graph": ("x", "race", "sum", "scale", "let stream 1 wait"),
}


@pytest.fixture(scope="module")
def wrong() -> ProgramReport:
    return sanitize(PROGRAM, ["wrong"])


@pytest.mark.parametrize("seed", [0, 3])
def test_streams_that_wait_for_each_other_are_right(seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAM, ["right"], seed=seed, schedules=1 + seed)
    assert (report.entries, report.exit_status) == ([], 0)
    assert capfd.readouterr().out == "done\n"


def test_nothing_else_is_told_of_the_wrong_forms(wrong: ProgramReport) -> None:
    assert (wrong.problems, wrong.remarks, wrong.exit_status) == ([], [], 1)
    assert sum(len(_findings(wrong, form)) for form in WRONG) == len(wrong.findings)


@pytest.mark.parametrize("form", WRONG)
def test_a_missing_order_is_found_at_both_lines(form: str, wrong: ProgramReport) -> None:
    arrays, kind, later, earlier, part = WRONG[form]
    found = _findings(wrong, form)
    assert [finding.array for finding in found] == arrays.split()
    for finding in found:
        assert (finding.kind, finding.severity, part in finding.message) == (kind, "error", True)
        lines = (finding.accesses[0].line, finding.accesses[1].line)
        assert (_mark(lines[0]), _mark(lines[1])) == (later or form, earlier or form)
        # Calls are told in the order of their conflict, and each is an access, or launches one.
        assert all(f"streams.cu:{line}" in finding.message for line in MARKS[form])


def _mark(line: int) -> str:
    return next((mark for mark, lines in MARKS.items() if line in lines), "")


def _findings(report: ProgramReport, form: str) -> list[Finding]:
    def of_form(finding: Finding) -> bool:
        return any(_mark(access.line) == form for access in finding.accesses)

    return [finding for finding in report.findings if of_form(finding)]
