"""A comparison with a file finds what became slower relative to the memory's rate, and says where it cannot compare."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.test_bench_results import ENVIRONMENT, case_rows, row
from trifold.bench import compare
from trifold.bench.command import _compared
from trifold.bench.rows import EAGER, PORT, ROOFLINE, Results, Row, with_ratios
from trifold.errors import TrifoldError


def of(*rows: Row) -> Results:
    return Results(environment=ENVIRONMENT, rows=tuple(rows), figures=())


def on_machine(copy: float, port: float, **other: object) -> list[Row]:
    """Seconds of a copy and of the port in one case."""
    return with_ratios([row(ROOFLINE, copy, **other), row(EAGER, 2e-6, **other), row(PORT, port, **other)])


BEFORE = of(*on_machine(1e-6, 1.1e-6), *on_machine(1e-6, 1.2e-6, case="small"))


@pytest.mark.parametrize(
    ("now", "status", "says"),
    [
        pytest.param(on_machine(1e-6, 1.1e-6), 0, "0 slower", id="as before"),
        pytest.param(on_machine(2e-6, 2.2e-6), 0, "0 slower", id="a machine with half the rate"),
        pytest.param(on_machine(1e-6, 1.14e-6), 0, "the slowest change is +3.5%", id="slower within the limit"),
        pytest.param(on_machine(1e-6, 1.2e-6), 1, "8.3%", id="slower"),
        pytest.param(on_machine(0.5e-6, 1.1e-6), 1, "50.0%", id="no slower in time, on a faster machine"),
        pytest.param([row(PORT, None)], 1, "failed: scale · forward", id="the port fails now"),
        pytest.param(on_machine(1e-6, 9e-6, case="huge"), 2, "Nothing is comparable", id="a case that is new"),
        pytest.param(on_machine(1e-6, 9e-6, dtype="float16"), 2, "Nothing is comparable", id="a dtype that is new"),
        pytest.param(on_machine(1e-6, 9e-6, method="cpu"), 2, "Nothing is comparable", id="another method"),
        pytest.param([row(PORT, 9e-6)], 2, "Nothing is comparable", id="no rate to compare with"),
    ],
)
def test_status_and_text(now: list[Row], status: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _compared(of(*now), BEFORE, 0.05) == status
    assert says in capsys.readouterr().out


def test_the_table_has_what_became_slower_the_worst_first(capsys: pytest.CaptureFixture[str]) -> None:
    now = of(*on_machine(1e-6, 1.2e-6), *on_machine(1e-6, 2.4e-6, case="small"), *case_rows(op="other"))
    assert _compared(now, BEFORE, 0.05) == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "scale" in line]
    assert [line[-4] for line in lines] == ["50.0%", "8.3%"]


def test_cases_of_several_ops_in_one_file_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """They have the same cases, dtypes and methods, and passes of one name."""
    passes = [{"op": op, "benchmark": name} for op in ("softmax", "rms_norm") for name in ("forward", "backward")]
    before = of(*(one for number, which in enumerate(passes) for one in on_machine(1e-6, (2 + number) * 1e-6, **which)))
    assert _compared(before, before, 0.05) == 0
    assert "4 cases, 0 slower" in capsys.readouterr().out
    slower = of(
        *(one for number, which in enumerate(passes) for one in on_machine(1e-6, (2, 3, 5, 5)[number] * 1e-6, **which))
    )
    assert _compared(slower, before, 0.05) == 1
    output = capsys.readouterr().out
    assert "4 cases, 1 slower" in output
    assert "rms_norm · forward · float32 · graph" in output
    assert "backward" not in output


def test_a_peer_that_became_slower_is_nobodys_regression() -> None:
    slow = [dataclasses.replace(one, competitor=EAGER) for one in on_machine(1e-6, 9e-6)[1:]]
    assert compare.changes([*on_machine(1e-6, 1.1e-6), *slow], BEFORE.rows)[0].slower == pytest.approx(0)


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0.05", 0.05), (" 2.5 % ", 0.025), ("0", 0.0)])
def test_limits(text: str, value: float) -> None:
    assert compare.limit(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "much", "-1%", "100%", "nan"])
def test_a_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(TrifoldError, match="--limit"):
        compare.limit(text)


def test_a_file_of_today_compares_with_itself(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(BEFORE.to_json(), encoding="utf-8")
    found = compare.changes(BEFORE.rows, Results.read(path).rows)
    assert [change.slower for change in found] == [0, 0]
