"""CUB's algorithms of a whole device, in programs on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.sanitize.program import sanitize

PROGRAM = Path(__file__).with_name("programs") / "device_algorithms.cu"
RESULTS = """\
249500 0 499 7777
20 0 249480
0 1 249001
0 3 498
500 odd: 1 3
334 flagged: 0 3
500 different: 0 2
499 at 997
0 at 0
500 runs: 1 is there 2 times
500 runs: the sum of 1 is 2
histogram: 100 100 100 100
ranges: 4 992
-50 at 0, 50 at 469
50 first
50 at 15
"""


def test_each_algorithm_has_its_result(capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(PROGRAM)
    assert (report.entries, report.exit_status) == ([], 0)
    assert capfd.readouterr().out == RESULTS


def test_more_items_than_an_array_has_are_found() -> None:
    (finding,) = sanitize(PROGRAM, ["too long"]).findings
    (line,) = [at for at, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "x, out, length" in text]
    assert (finding.kind, finding.kernel, finding.index) == ("out-of-bounds", "cub::DeviceReduce", (1000,))
    assert finding.accesses[0].line == line
    assert "4000 bytes of the device made at device_algorithms.cu:" in finding.message
