"""compute-sanitizer's text becomes findings."""

from __future__ import annotations

import pytest

from tests.sanitize import reports
from trifold.compute_sanitizer.report import parse
from trifold.findings import Finding

# kind, severity, kernel, memory, and each access as (operation, thread, block, file, line)
SEEN = {
    "memcheck": (
        reports.MEMCHECK,
        [
            (
                "out-of-bounds",
                "error",
                "ns::scale<float>",
                "global",
                [("write", (232, 0, 0), (3, 0, 0), "/src/scale.cu", 25)],
            ),
            ("misaligned", "error", "outer", "shared", [("read", (0, 1, 0), (0, 0, 2), "/src/scale.cuh", 9)]),
        ],
    ),
    "memcheck before CUDA 12": (
        reports.OLD_MEMCHECK,
        [("out-of-bounds", "error", "MatMul", "local", [("read", (7, 0, 0), (0, 0, 0), "/src/task.cu", 120)])],
    ),
    "racecheck": (
        reports.RACECHECK,
        [
            (
                "race",
                "error",
                "sums",
                "shared",
                [
                    ("read", (0, 0, 0), (0, 0, 0), "/src/sums.cu", 56),
                    ("write", (35, 0, 0), (0, 0, 0), "/src/sums.cu", 44),
                ],
            ),
            (
                "race",
                "warning",
                "sums",
                "shared",
                [
                    ("write", (4, 0, 0), (1, 0, 0), "/src/sums.cu", 61),
                    ("read", (3, 0, 0), (1, 0, 0), "/src/sums.cu", 60),
                ],
            ),
        ],
    ),
    "initcheck": (
        reports.INITCHECK,
        [("uninitialised read", "error", "add_one", "global", [("read", (31, 0, 0), (1, 0, 0), "/src/add.cu", 41)])],
    ),
    "synccheck": (
        reports.SYNCCHECK,
        [
            ("barrier divergence", "error", "wait", "", [("barrier", (32, 0, 0), (0, 0, 0), "/src/wait.cu", 42)]),
            ("warp divergence", "error", "wait", "", [("barrier", (16, 0, 0), (0, 0, 0), "/src/wait.cu", 48)]),
        ],
    ),
}


def _seen(finding: Finding) -> tuple[object, ...]:
    accesses = [(at.operation, at.thread, at.block, at.file, at.line) for at in finding.accesses]
    return finding.kind, finding.severity, finding.kernel, finding.memory, accesses


@pytest.mark.parametrize("name", SEEN)
def test_each_tool_s_reports_are_findings(name: str) -> None:
    text, expected = SEEN[name]
    report = parse(text, name.split()[0])
    assert [_seen(finding) for finding in report.findings] == expected
    assert report.problems == ()
    assert report.complete


def test_a_finding_reads_as_a_sentence() -> None:
    first, _ = parse(reports.MEMCHECK, "memcheck").findings
    assert str(first) == (
        "out-of-bounds in kernel ns::scale<float>: Invalid __global__ write of size 4 bytes, by thread (232, 0, 0) of "
        "block (3, 0, 0) at scale.cu:25 in ns::scale<float>; the address is 1 bytes after the nearest allocation at "
        "0x7f5c92600000 of size 4,000 bytes (memcheck); 1 more like it"
    )
    race, warning = parse(reports.RACECHECK, "racecheck").findings
    assert str(race) == (
        "race on shared memory at 0x8c in kernel sums: thread (0, 0, 0) of block (0, 0, 0) reads at sums.cu:56 in "
        "sums, what thread (35, 0, 0) writes at sums.cu:44 in sums, and nothing orders the two (racecheck); 1 more "
        "like it"
    )
    assert "warp level programming" in str(warning)


def test_an_analysis_tells_the_races_of_which_no_hazard_was_printed() -> None:
    report = parse(reports.RACECHECK_ANALYSIS, "racecheck")
    assert report.problems == ()
    hazard, error, warning = report.findings
    assert hazard.accesses
    assert (error.kind, error.severity, error.kernel, error.memory) == ("race", "error", "sums", "shared")
    assert str(error) == (
        "race on shared memory in kernel sums: a thread writes at sums.cu:44 in sums, what another one writes at "
        "sums.cu:61 in sums, and nothing orders the two (racecheck)"
    )
    assert warning.severity == "warning"
    assert "a thread reads at sums.cu:70 in last, what another one writes at sums.cu:71" in str(warning)


def test_a_block_of_a_cluster_that_may_have_ended_is_a_race() -> None:
    (finding,) = parse(reports.CLUSTER, "racecheck").findings
    assert (finding.kind, finding.severity, finding.memory) == ("race", "error", "shared")
    assert "a block that might have already exited" in str(finding)


def test_it_has_no_seed_to_replay() -> None:
    (finding,) = parse(reports.INITCHECK, "initcheck").findings
    assert finding.seed is None
    assert finding.to_json()["replay"] == ""


def test_a_clean_run_has_neither_findings_nor_problems() -> None:
    report = parse(reports.CLEAN, "memcheck")
    assert (report.findings, report.problems, report.complete) == ((), (), True)


def test_a_run_without_a_summary_is_not_clean() -> None:
    report = parse(reports.NO_CUDA, "memcheck")
    assert not report.complete
    assert report.problems[0] == "Error: Target application terminated before first instrumented API call"


def test_a_failed_call_is_a_problem_unless_a_mistake_explains_it() -> None:
    (problem,) = parse(reports.FAILED_CALL, "memcheck").problems
    assert "cudaErrorUnknown" in problem
    assert parse(reports.MEMCHECK, "memcheck").problems == ()


def test_a_report_of_a_form_that_is_not_known_is_told() -> None:
    text = "========= COMPUTE-SANITIZER\n========= Something new happened\n=========     at f()+0x10\n"
    assert parse(text, "memcheck").problems == ("Something new happened in f",)


def test_what_stops_a_kernel_without_a_kind_of_ours_is_told_once_with_its_place() -> None:
    report = parse(reports.TRAP, "memcheck")
    assert report.findings == ()
    assert report.problems == ("Trace/breakpoint trap at nowhere.cu:230 in nowhere",)


def test_hazards_that_were_not_printed_are_told() -> None:
    text = reports.RACECHECK.replace(
        "3 hazards displayed (2 errors, 1 warning)", "3 hazards displayed (9 errors, 1 warning)"
    )
    assert parse(text, "racecheck").problems == ("racecheck printed only 3 of 10 hazards",)
