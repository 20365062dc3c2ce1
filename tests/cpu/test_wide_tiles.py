"""Cooperative groups' tiles of several warps, and cuda::latch and cuda::counting_semaphore, on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.sanitize.program import sanitize

PROGRAM = Path(__file__).with_name("programs") / "wide_tiles.cu"
LINES = PROGRAM.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("seed", [0, 3])
def test_right_kernels_are_clean(seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAM, seed=seed)
    assert (report.entries, report.exit_status) == ([], 0)
    assert capfd.readouterr().out == "496\n"


@pytest.mark.parametrize(
    ("arguments", "kinds", "marks"),
    [
        (("unordered",), {"race", "uninitialised read"}, {"written", "read"}),
        (("unordered", "second"), {"race", "uninitialised read"}, {"filled", "used"}),
    ],
)
def test_a_missing_wait_is_found_at_its_lines(arguments: tuple[str, ...], kinds: set[str], marks: set[str]) -> None:
    finding = sanitize(PROGRAM, arguments).errors[0]
    assert finding.kind in kinds
    assert {LINES[access.line - 1].split("// ")[-1] for access in finding.accesses} <= marks


def test_a_thread_that_does_not_come_to_a_tile() -> None:
    finding = sanitize(PROGRAM, ["missing"]).errors[0]
    assert finding.kind == "deadlock"
    assert "the barrier of a tile of 64 threads waits for 64 threads, and 63 have come" in finding.message
    assert "wait in sync() of a tile of 64 threads" in finding.message


def test_a_latch_that_a_thread_does_not_count_down() -> None:
    finding = sanitize(PROGRAM, ["absent", "second"]).errors[0]
    assert finding.kind == "deadlock"
    assert "poll memory" in finding.message
