"""``trifold sanitize``: whole CUDA programs run on the CPU, and their errors are reported."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.processes import runs
from trifold.errors import ArgumentError, BuildError
from trifold.sanitize.command import sanitize as sanitize_command
from trifold.sanitize.program import ProgramReport, sanitize
from trifold.verification.report import Failure, OpReport, OutcomeName, Report, Row

PROGRAMS = Path(__file__).with_name("programs")
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_one_element_too_far_is_found_at_its_line(capfd: pytest.CaptureFixture[str]) -> None:
    program = EXAMPLES / "vector_add.cu"
    report = sanitize(program)
    (finding,) = report.findings
    assert (finding.kind, finding.array, finding.index) == ("out-of-bounds", "a", (1000,))
    access = finding.accesses[0]
    assert "c[i] = a[i] + b[i];" in program.read_text().splitlines()[access.line - 1]
    assert "The array is d_a, 4000 bytes of the device made at vector_add.cu:" in finding.message
    assert report.exit_status == 1
    # As on a GPU, the launch's mistake is the next call's error.
    assert "unspecified launch failure" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "arguments", "prints"),
    [
        ("multiply", (), "float: 0 wrong, timed\ndouble: 0 wrong, timed\n"),
        ("multiply", ("100",), "float: 0 wrong, timed\ndouble: 0 wrong, timed\n"),
        ("sigmoid", (), "right\n"),
        ("sampling", (), "launched 1, mean 3.0, standard deviation 2.0\n"),
        ("reduction", ("synchronised",), "128 128 128 128\n"),
        ("waiting", (), "0 wrong\n"),
        ("headers", (), "-1+3i 0.44+0.08i 5, 128 31\n"),
        ("objects", (), "308 8, blocks of 64: 32\n5 cudaSuccess\n"),
        ("compiler_atomics", (), "8128 -128 127 255 -4 0 256, 64 873\n42 2\n"),
        ("arguments", (), "3 conversions: 8\n1 view: 1\n109\n109\n"),
        ("api", (), ""),
        ("mistakes", (), ""),
    ],
)
def test_a_right_program_is_clean(
    name: str, arguments: tuple[str, ...], prints: str, capfd: pytest.CaptureFixture[str]
) -> None:
    report = sanitize(PROGRAMS / f"{name}.cu", arguments, schedules=2)
    assert (report.entries, report.exit_status) == ([], 0)
    assert capfd.readouterr().out == prints


def test_a_flag_that_is_stored_without_release_publishes_nothing() -> None:
    (finding,) = sanitize(PROGRAMS / "compiler_atomics.cu", ["relaxed"]).findings
    lines = (PROGRAMS / "compiler_atomics.cu").read_text().splitlines()
    # Indices count from the beginning of the allocation, to which no parameter points.
    assert (finding.kind, finding.array, finding.index) == ("race", "sums", (8,))
    assert {lines[access.line - 1].strip() for access in finding.accesses} == {
        "*data = made + 1 + old;",
        "data[1] = *data;",
    }


@pytest.mark.parametrize("way", range(6))
def test_what_is_read_as_an_argument_by_value_is_checked(way: int) -> None:
    program = PROGRAMS / "by_value.cu"
    (finding,) = sanitize(program, [str(way)]).findings
    assert finding.kind in ("race", "uninitialised read")
    lines = [program.read_text().splitlines()[access.line - 1] for access in finding.accesses]
    assert any(f"if (way == {way}) x =" in line for line in lines)


def test_clusters_and_cooperative_launches(capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAMS / "clusters.cu", schedules=2)
    assert (report.findings, report.exit_status) == ([], 1)
    refused = (
        "of 16 × 1 × 1 blocks: a cluster has at most 8 blocks where the kernel does not allow more",
        "of 5 × 1 × 1 blocks: the grid of 32 × 1 × 1 blocks cannot be divided into them",
        "pairs is launched in clusters of 2 × 1 × 1 blocks: the grid of 31 × 1 × 1 blocks",
        "the device holds only 4224 of them at a time",
        "cudaLaunchKernelEx: an attribute that is not there on the CPU",
    )
    for message, problem in zip(refused, report.problems, strict=True):
        assert message in problem
    assert capfd.readouterr().out == (
        "eight: cudaSuccess, 8\n"
        "sixteen: cudaErrorInvalidClusterSize, 8\n"
        "sixteen allowed: cudaSuccess, 32\n"
        "five: cudaErrorInvalidClusterSize, 32\n"
        "pairs: cudaSuccess, 1\n"
        "pairs again: cudaSuccess, 1\n"
        "pairs of 31: cudaErrorInvalidClusterSize, 1\n"
        "total: cudaSuccess, 1024\n"
        "too many: cudaErrorCooperativeLaunchTooLarge, 1024\n"
        "33 clusters of 4 at a time\n"
        "8 blocks, 16 blocks, 2 blocks\n"
        "event: cudaErrorNotSupported, 1024\n"
    )


def test_a_missing_barrier_is_found_in_a_reduction() -> None:
    report = sanitize(PROGRAMS / "reduction.cu")
    (finding,) = report.findings
    assert (finding.kind, finding.array, finding.memory) == ("uninitialised read", "sdata", "shared")
    shuffled = sanitize(PROGRAMS / "reduction.cu", seed=3)
    assert shuffled.findings[0].kind in ("race", "uninitialised read")
    assert shuffled.findings[0].replay == "replay: --seed 3"


@dataclass(frozen=True)
class Mistake:
    """One of mistakes.cu: its reports, the program's output, and the exit status."""

    word: str
    finding: tuple[str, str, tuple[int, ...]] | None = None
    message: str = ""
    problem: str = ""
    remarks: tuple[str, ...] = ()
    prints: str = ""
    options: dict[str, float] = field(default_factory=dict)
    severity: str = "error"

    def __str__(self) -> str:
        return self.word


X = "x, 256 bytes of the device made at mistakes.cu:"
MISTAKES = (
    Mistake("uninitialised", ("uninitialised read", "x", (0,))),
    Mistake("half initialised", ("uninitialised read", "x", (32,))),
    Mistake("two launches", ("uninitialised read", "x", (63,))),
    Mistake("same value", ("race", "y", (0,)), "both wrote the same value", prints="130\n", severity="warning"),
    Mistake("other values", ("race", "y", (0,)), "which comes first can change", prints="0\n"),
    Mistake("grid barrier", problem="a barrier of the grid in a launch that is not cooperative"),
    Mistake("no wait", ("race", "both", ()), "byte 276 of both, 512 bytes of managed memory made at", prints="5\n"),
    Mistake("wait", prints="5\n"),
    Mistake("host pointer", ("out-of-bounds", "", ()), "x, which points to memory of the host"),
    Mistake("null pointer", ("out-of-bounds", "", ()), "a null pointer"),
    Mistake("use after free", ("out-of-bounds", "", ()), f"{X}44 and freed at mistakes.cu:"),
    Mistake("pointer in memory", ("out-of-bounds", "y", (64,)), "y, 256 bytes of the device"),
    Mistake("host reads", problem=f"the program's host code reads byte 12 of {X}"),
    Mistake("host writes", problem="the program's host code writes byte 20 of y"),
    Mistake("too many threads", problem="a block has 1 to 1024", prints="cudaErrorInvalidConfiguration\ncudaSuccess\n"),
    Mistake(
        "more than its bounds",
        problem="bounded<63> is launched with blocks of 64 × 1 × 1 threads: its __launch_bounds__ allow 63",
        prints="cudaErrorInvalidConfiguration\n",
    ),
    Mistake("double free", remarks=("cudaFree at mistakes.cu:",), prints="0 1\n"),
    Mistake(
        "bad copies",
        remarks=("257 bytes are more than the 256", "its target is memory of the device", "its source is memory of"),
        prints="1 1 1 21\n",
    ),
    Mistake("copy of nothing", remarks=(f"takes byte 252 of {X}",)),
    Mistake("leak", remarks=(f"never freed: {X}",)),
    Mistake("segfault", problem="crashes at mistakes.cu:"),
    Mistake("abort", problem="ended by the signal SIGABRT"),
    Mistake("hang", problem="did not end within 0.5 s", options={"timeout": 0.5}),
    Mistake("and on", ("uninitialised read", "x", (0,)), prints="cudaErrorLaunchFailure\n"),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_told(mistake: Mistake, capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAMS / "mistakes.cu", [mistake.word], timeout=mistake.options.get("timeout", 30))
    found = [(finding.kind, finding.array, finding.index) for finding in report.findings]
    assert found == ([mistake.finding] if mistake.finding else [])
    assert all(mistake.message in finding.message for finding in report.findings)
    assert all(finding.severity == mistake.severity for finding in report.findings)
    assert [problem for problem in report.problems if mistake.problem not in problem] == []
    assert len(report.problems) == bool(mistake.problem)
    assert len(report.remarks) == len(mistake.remarks)
    assert all(part in remark for part, remark in zip(mistake.remarks, report.remarks, strict=True))
    fails = (mistake.finding is not None and mistake.severity == "error") or mistake.problem != ""
    assert report.exit_status == int(fails)
    assert capfd.readouterr().out == mistake.prints


def test_a_failed_assertion_is_an_error_that_stays(capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAMS / "objects.cu", ["fails"])
    (problem,) = report.problems
    assert "a failed assertion, cube[memory.pitch * (memory.ysize * 2 + 3) + 31] == value" in problem
    assert capfd.readouterr().out.endswith("5 cudaErrorAssert\ncudaErrorAssert cudaErrorAssert\n")


def test_an_assertion_of_the_host_ends_the_program_and_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    (problem,) = sanitize(PROGRAMS / "mistakes.cu", ["assertion"]).problems
    assert "ended by the signal SIGABRT" in problem
    shown = capfd.readouterr().err
    assert 'mistake == "none"' in shown and "mistakes.cu:" in shown and "main(int, char**)" in shown


def test_after_a_mistake_the_program_can_go_on(capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAMS / "mistakes.cu", ["and on"], keep_going=True)
    assert len(report.findings) == 1  # the second launch reads what the first one would have written
    assert capfd.readouterr().out == "cudaSuccess\n"


def test_a_program_finds_the_named_compute_capability(capfd: pytest.CaptureFixture[str]) -> None:
    assert sanitize(PROGRAMS / "api.cu", ["which"], compute_capability="sm_75").entries == []
    assert capfd.readouterr().out == "7.5, 65536 bytes\n"


def test_blocks_that_wait_for_each_other_are_right_in_any_order(capfd: pytest.CaptureFixture[str]) -> None:
    assert sanitize(PROGRAMS / "waiting.cu", schedules=8, seed=4).entries == []
    assert capfd.readouterr().out == "0 wrong\n"


def test_findings_of_other_schedules_change_no_result(capfd: pytest.CaptureFixture[str]) -> None:
    report: ProgramReport = sanitize(PROGRAMS / "sampling.cu", schedules=5, seed=2)
    assert report.entries == []
    assert capfd.readouterr().out == "launched 1, mean 3.0, standard deviation 2.0\n"


def command(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trifold", "sanitize", *arguments], input=stdin, capture_output=True, text=True
    )


def test_the_commands_output_input_and_exit_status_are_the_programs() -> None:
    done = command(str(PROGRAMS / "mistakes.cu"), "echo", "--seed", stdin="hello\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "hello --seed\n", "to stderr\n")


def test_a_program_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "forever.cu"
    program.write_text(
        "#include <cstdio>\n#include <unistd.h>\n"
        'int main() { printf("%d\\n", getpid()); fflush(stdout); for (;;) sleep(1); }\n'
    )
    arguments = [sys.executable, "-m", "trifold", "sanitize", str(program)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = int(process.stdout.readline())
        assert runs(started)
        process.kill()
    deadline = time.monotonic() + 10
    while runs(started) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not runs(started)


def test_the_command_prints_findings_and_writes_them_as_json(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    done = command("--json", str(file), str(EXAMPLES / "vector_add.cu"))
    assert done.returncode == 1
    assert "out-of-bounds read of global array element a[1000] in kernel vectorAdd" in done.stderr
    assert "replay: --seed 0" in done.stderr
    report = json.loads(file.read_text())
    assert (report["verdict"], report["status"]) == ("failed", 1)
    assert report["findings"][0]["array"] == "a"


@pytest.mark.parametrize(("outcome", "status"), [("passed", 0), ("failed", 1), ("not run", 2)])
def test_ops_are_sanitised_by_the_findings_of_verify(
    outcome: OutcomeName, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {}

    def verify(*ops: str, **options: object) -> Report:
        asked.update({"ops": ops, **options})
        failures = (Failure("race on shared array element tile[1]"),) if outcome == "failed" else ()
        row = Row("findings", "port", "cpu", outcome, cases=12, failures=failures)
        return Report("", "", "cpu", (OpReport("sigmoid", (row,), partial=True),))

    monkeypatch.setattr("trifold.verification.verify.verify", verify)
    with pytest.raises(typer.Exit) as ended:
        sanitize_command(["sigmoid"])
    assert ended.value.exit_code == status
    assert (asked["ops"], asked["checks"], asked["implementations"]) == (("sigmoid",), ("findings",), ("port",))
    printed = capsys.readouterr().out
    assert f"sigmoid: {outcome}, 12 cases" in printed
    assert ("race on shared array" in printed) == (outcome == "failed")


@pytest.mark.parametrize(
    "given",
    [
        {"schedules": 1},
        {"seed": 0},
        {"keep_going": True},
        {"std": "c++20"},
        {"define": ["N=3"]},
        {"include": [PROGRAMS]},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_is_for_programs_alone_is_refused_by_name(given: dict[str, Any]) -> None:
    (option,) = given
    name = {"define": "-D", "include": "-I"}.get(option, f"--{option.replace('_', '-')}")
    with pytest.raises(ArgumentError, match=f"^{name}: only for a program"):
        sanitize_command(["sigmoid"], **given)


def test_what_cannot_be_built_ends_the_command_with_2(tmp_path: Path) -> None:
    program = tmp_path / "program.cu"
    program.write_text("#include <cublas_v2.h>\nint main() {}\n")
    done = command(str(program))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"trifold: {program}:1:" in done.stderr
    assert "error: <cublas_v2.h> is not there on the CPU" in done.stderr


def test_options_of_the_compiler_after_the_program_are_named_where_it_does_not_compile(tmp_path: Path) -> None:
    program = tmp_path / "program.cu"
    program.write_text('#include "elsewhere.h"\nint main() {}\n')
    done = command(str(program), "-I", "include", "--fast")
    assert done.returncode == 2
    assert f"-I after {program} belongs to the program's arguments: name it before {program}" in done.stderr


@pytest.mark.parametrize("name", ["cuda_fp4.h", "nv/target", "cuda_gl_interop.h", "nvJitLink.h", "cub/grid/none.cuh"])
def test_a_header_that_the_cpu_lacks_is_said_to_be_not_there(name: str, tmp_path: Path) -> None:
    program = tmp_path / "program.cu"
    program.write_text(f"#include <{name}>\nint main() {{}}\n")
    with pytest.raises(BuildError, match=f"program.cu:1:.*<{name}> is not there on the CPU"):
        sanitize(program)


def test_headers_of_types_are_there(tmp_path: Path) -> None:
    names = ("driver_types", "builtin_types", "library_types", "host_defines", "texture_types", "device_types")
    text = "".join(f"#include <{name}.h>\n" for name in names)
    program = tmp_path / "program.cu"
    program.write_text(f"{text}static_assert(CUDA_R_16BF == 14 && cudaErrorAssert == 710);\nint main() {{}}\n")
    assert sanitize(program).entries == []


def test_a_program_needs_a_file_and_a_main(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="there is no file"):
        sanitize(tmp_path / "nothing.cu")
    (tmp_path / "kernel.cu").write_text("__global__ void k() {}\n")
    with pytest.raises(BuildError, match="main"):
        sanitize(tmp_path / "kernel.cu")
