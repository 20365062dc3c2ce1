"""cuRAND's device API on the CPU: the numbers of cuRAND 10.4, whose header was compiled for the host by nvcc 13.0."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.sanitize.program import sanitize

# By curand_init(1234, 77, 6): words, skips, normal and log-normal numbers, Poisson's.
NUMBERS = """\
1602733491 3563552947 411432086 1777568378 3768919727 1540669141 0x1.697abap-2 0x1.6183cd906d69p-1 904111672 4045645791
-0.575 0.308 -0.822 -0.151352 -0.388927 -2.163 0.858 -0.700774 -0.763584 5.137 2.969 0.820138 6 55 5051
792187149 4214814024 2094081686 530129520 775103400 3877806507 0x1.bfe348p-1 0x1.769a22ep-3 2205553659 3352141327
0.734 -1.868 1.133 -0.934238 -0.278259 0.916 -0.921 0.192379 -0.126036 4.183 3.650 0.520040 7 64 5068
242481962 4164036063 3330696427 726732565 1005620694 940851992 0x1.d1b844p-1 0x1.5082537aba663p-3 3561593371 4133815085
0.449 -0.270 -0.237 -0.918487 -1.561756 -0.891 0.638 -1.020836 0.060345 2.346 4.293 0.835705 4 52 5136
1453444312 2997619149 600583240 4260505171 0x1.494ac4p-3 0x1.07fe48p-4 0.024 -1.143 0x1.54f1062196b48p-5 \
0x1.bec8333c0aabdp-2 3 0 8 3
about 200
"""


def test_the_numbers_are_those_of_curand(capfd: pytest.CaptureFixture[str]) -> None:
    report = sanitize(Path(__file__).with_name("programs") / "random.cu")
    assert (report.entries, report.exit_status) == ([], 0)
    assert [line.strip() for line in capfd.readouterr().out.splitlines()] == NUMBERS.splitlines()
