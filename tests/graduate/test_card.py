"""What the card of a package says of benchmarks."""

from __future__ import annotations

import pytest

from tests.wrong.entry import GALLERY
from trifold.graduate.card import card
from trifold.graduate.port_file import PortFile

CERTIFICATE = {
    "op": "add",
    "verdict": "verified",
    "devices": ["cpu", "cuda"],
    "waived": [],
    "rows": [],
    "cases": 1,
    "versions": {},
    "device": "cpu",
    "date": "2026-11-21",
}
MADE = {"commit": None, "dirty": False, "trifold": "0.1.0", "torch": "2.11.0"}


def test_the_largest_case_stands_beside_the_roofline_and_the_peers() -> None:
    path = GALLERY.files("add").port
    text = path.read_text(encoding="utf-8")
    made = card("k", "k", [PortFile("add", path, text)], {"add": text}, {"add": CERTIFICATE}, MADE, GALLERY.root)
    (line,) = (line for line in made.splitlines() if line.startswith("| add, forward | float32 | graph | 2^28 |"))
    time, rate, of_the_roofline, over_eager, over_compiled = (cell.strip() for cell in line.strip("|").split("|")[4:])
    assert time.endswith("µs")
    assert float(rate.replace(",", "")) > 1000
    assert of_the_roofline.endswith("%")
    assert float(over_eager) == pytest.approx(1, abs=0.1)
    assert float(over_compiled) == pytest.approx(1, abs=0.1)
