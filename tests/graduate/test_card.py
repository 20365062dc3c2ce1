"""The card of a package: verification, tolerances and benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.wrong.entry import GALLERY, copy_of_gallery
from trifold.graduate.card import card
from trifold.graduate.port_file import PortFile
from trifold.graduate.tolerance import Tolerance

ROW: dict[str, Any] = {"check": "values", "implementation": "port", "outcome": "passed", "cases": 9, "reason": ""}
CERTIFICATE: dict[str, Any] = {
    "op": "add",
    "verdict": "verified",
    "devices": ["cpu", "cuda"],
    "waived": [],
    "examples": {"prototype cpu": 48, "port cpu": 80, "port cuda": 80},
    "rows": [
        {**ROW, "device": "cpu", "dtypes": ["bfloat16", "float64"]},
        {**ROW, "device": "cuda", "dtypes": ["float16", "float64"]},
        {**ROW, "device": "cpu", "implementation": "prototype", "dtypes": ["float32"]},
    ],
    "cases": 1,
    "versions": {},
    "device": "cpu",
    "date": "2026-11-21",
}
MADE = {"commit": None, "dirty": False, "trifold": "0.1.0", "torch": "2.11.0"}


def card_of(op: str, **changes: Any) -> str:
    """The card of a package of one op of the gallery, whose certificate is this one with ``changes``."""
    files = GALLERY.files(op)
    text = files.port.read_text(encoding="utf-8")
    certificate = CERTIFICATE | {"op": op} | changes
    tolerances = {op: Tolerance.of(files)}
    port = PortFile(op, files.port, text)
    return card("k", "k", [port], {op: text}, {op: certificate}, tolerances, MADE, GALLERY.root)


def test_it_shows_examples_and_dtypes() -> None:
    made = card_of("add")
    assert "Examples that each check drew: 48 (prototype cpu), 80 (port cpu), 80 (port cuda). Dtypes in which" in made
    assert "values were compared: float64, bfloat16, float16." in made
    assert "| values | cuda | passed | 9 | float64, float16 |  |" in made
    assert "few examples" not in made


def test_few_examples_stand_at_the_top() -> None:
    made = card_of("add", examples={"prototype cpu": 5, "port cpu": 5}, waived=["cuda", "examples"], devices=["cpu"])
    few = "add with 5 of 48 examples (prototype cpu), 5 of 80 examples (port cpu)"
    assert (
        f"**Not verified on cuda**: that was waived when it was made.\n\n**Verified with few examples**: {few}." in made
    )
    assert "5 (prototype cpu), 5 (port cpu), fewer than by default, which was waived." in made
    assert "verified on cpu; not on cuda, which was waived." in made


@pytest.mark.parametrize(
    ("op", "says"),
    [
        ("add", "of at most 4 unit round-offs of the dtype, the default, times the scale"),
        (
            "add",
            "- results: the reference on absolute values\n- gradients: the reference's gradient on absolute values\n",
        ),
        ("add", "Results in half types are the exact ones rounded once: ports/add.py: half types are added in float32"),
        ("sigmoid", "- results: `reference(x)`, in `sigmoid.py`\n- gradients: `1.5 * (grad * reference(x)).abs()`, in"),
        (
            "softmax",
            "- results: y itself: the errors of exp, sum and quotient are relative to it, also in the tails.\n",
        ),
        ("softmax", "- results, in round-offs of the type that it computes in: `_working_scale`, in `softmax.py`\n"),
    ],
)
def test_it_shows_the_tolerance_with_its_reasons(op: str, says: str) -> None:
    assert says in card_of(op)


def test_another_multiple_has_its_reason(tmp_path: Path) -> None:
    files = copy_of_gallery("add", tmp_path).files("add")
    spec = files.spec.read_text()
    files.spec.write_text(spec.replace("spec = Spec(", 'spec = Spec(\n    multiple=6, multiple_reason="two sums",'))
    assert "at most 6 unit round-offs of the dtype (two sums), times the scale" in str(Tolerance.of(files))


def test_the_largest_case_stands_beside_the_roofline_and_the_peers() -> None:
    made = card_of("add")
    (line,) = (line for line in made.splitlines() if line.startswith("| add, forward | float32 | graph | 2^28 |"))
    time, rate, of_the_roofline, over_eager, over_compiled = (cell.strip() for cell in line.strip("|").split("|")[4:])
    assert time.endswith("µs")
    assert float(rate.replace(",", "")) > 1000
    assert of_the_roofline.endswith("%")
    assert float(over_eager) == pytest.approx(1, abs=0.1)
    assert float(over_compiled) == pytest.approx(1, abs=0.1)
