"""Shapes drawn by a seed, and the report of what they showed; the timer is a stand-in."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from random import Random

import pytest
import torch

from tests.test_bench_results import case_rows, row
from tests.test_bench_selection import invoke, measured, root, timer
from trifold.bench import drawn, run
from trifold.bench.drawn import Drawing, report
from trifold.bench.ops import benchmarks_of
from trifold.bench.rows import EAGER, PORT, QUACK, ROOFLINE, with_ratios
from trifold.bench.targets import figures
from trifold.errors import TrifoldError
from trifold.spec.benchmark import Benchmark, Case, Target, rows_benchmarks
from trifold.spec.drawn import MODEL_COLUMNS, columns, matrix, vector
from trifold.workspace import Workspace

__all__ = ["root"]  # a fixture

GPU = torch.device("cuda")
FORWARD, BACKWARD = rows_benchmarks(torch.softmax)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a GPU that need not be here: 80 GiB."""
    monkeypatch.setattr(drawn, "most_bytes", lambda device: (80 << 30) // drawn.TENSORS)


def drawn_sizes(benchmark: Benchmark = FORWARD, count: int = 80, seed: int = 1) -> list[tuple[int, ...]]:
    return [case.sizes for case in Drawing(count, seed).applied(benchmark, GPU).cases]


# ------------------------------------------------------------------------------------------ the drawing


def test_a_seed_draws_the_same_shapes_on_every_machine() -> None:
    assert [matrix(Random(7), 1 << 23, 1 << 29) for _ in range(2)] == [(982_166, 128)] * 2
    assert vector(Random(7), 1 << 23, 1 << 29) == (32_254_488,)


@pytest.mark.usefixtures("memory")
def test_passes_share_their_shapes_and_fewer_are_the_first_of_more() -> None:
    shapes = drawn_sizes()
    assert drawn_sizes(BACKWARD) == shapes
    assert drawn_sizes(count=40) == shapes[:40]
    assert len(set(shapes)) == 80
    assert set(drawn_sizes(seed=2)).isdisjoint(shapes)


@pytest.mark.usefixtures("memory")
def test_a_matrix_has_16_mib_to_2_gib_in_each_dtype() -> None:
    for rows, width in drawn_sizes(count=500):
        assert 64 <= width <= 262_144
        assert rows * width * 2 >= 16 << 20
        assert rows * width * 4 <= 2 << 30


def test_columns_are_of_four_kinds() -> None:
    random = Random(0)
    found = [columns(random) for _ in range(1000)]
    assert sum(width % 8 == 0 for width in found) > 600
    assert sum(width & (width - 1) == 0 for width in found) > 200
    assert sum(width in MODEL_COLUMNS for width in found) > 200
    assert sum(width % 2 == 1 for width in found) > 200
    assert {int(math.log2(width)) for width in found} == set(range(6, 19)), "both short and long ones"


def test_the_memory_of_the_device_cuts_off_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "most_bytes", lambda device: 64 << 20)
    small = drawn_sizes()
    assert max(rows * width * 4 for rows, width in small) <= 64 << 20
    monkeypatch.setattr(drawn, "most_bytes", lambda device: 2 << 30)
    assert [width for _, width in small] == [width for _, width in drawn_sizes()]


@pytest.mark.usefixtures("memory")
def test_an_op_that_states_no_way_to_draw_is_drawn_between_its_own_cases() -> None:
    cases = (Case("a", (4, 10, 7)), Case("b", (400, 1000, 7)), Case("c", (5, 5)))
    stated = dataclasses.replace(FORWARD, cases=cases, draw=None)
    shapes = drawn_sizes(stated)
    assert len(shapes) == 80
    assert all(4 <= a <= 400 and 10 <= b <= 1000 and c == 7 for a, b, c in shapes)
    alone = dataclasses.replace(FORWARD, cases=(Case("a", (4, 10)),), draw=None)
    assert drawn_sizes(alone) == [(4, 10)], "there is no other"


@pytest.mark.usefixtures("memory")
def test_every_benchmark_of_the_gallery_can_be_drawn() -> None:
    for files in Workspace.find().select([]):
        for benchmark in benchmarks_of(files):
            found = Drawing(10, 3).applied(benchmark, GPU)
            assert len(found.cases[0].sizes) == len(benchmark.cases[0].sizes), files.name
            moved = [found.bytes(case, dtype) for case in found.cases for dtype in found.dtypes]
            assert max(moved) <= 5 * drawn.MOST_BYTES, files.name
            assert found.host is None


@pytest.mark.parametrize("text", ["random", "random:", "random:0", "random:-3", "random:many"])
def test_how_many_must_be_said(text: str) -> None:
    with pytest.raises(TrifoldError, match="how many shapes"):
        Drawing.parse(text, 1)


def test_a_seed_without_a_drawing_is_a_mistake() -> None:
    with pytest.raises(TrifoldError, match="nothing to draw"):
        Drawing.parse("4x4", 1)
    assert Drawing.parse("4x4", None) is None
    assert Drawing.parse("random:80", None) == Drawing(80, 0)


# ------------------------------------------------------------------------------------------ what they showed

ROWS = [
    *with_ratios([row(ROOFLINE, 1e-6), row(EAGER, 4e-6), row(QUACK, 1.8e-6), row(PORT, 2e-6)]),
    *with_ratios([row(ROOFLINE, 1.7e-6, case="small"), row(EAGER, 4e-6, case="small"), row(PORT, 2e-6, case="small")]),
]


def test_the_report_names_what_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "COPY_BYTES", 1000)
    text = report(Drawing(2, 5), ROWS).splitlines()
    assert text[0].startswith("Shapes random:2, seed 5")
    assert text[2].split() == ["scale", "·", "forward", "2", "0.90", "1.45", "1", "50.0%", "67.5%", "1"]
    assert "Below 0.95 of the fastest competitor: 1" in text
    assert [line.split()[-3:] for line in text if "large" in line] == [["0.900", "×", "quack"], ["0.500", "4", "GB/s"]]
    assert text[-1] == "Not measured: none"


def test_small_cases_need_not_reach_the_copy_rate() -> None:
    text = report(Drawing(2, 5), ROWS)
    assert "Below 80% of the roofline: none" in text


def test_the_report_names_a_port_that_failed() -> None:
    _, absent = report(Drawing(1, 5), case_rows(port=None)).split("Not measured: 1")
    assert "scale · forward · float32 · large" in absent


@pytest.mark.parametrize(
    ("target", "found", "passed"),
    [
        pytest.param(Target(measure="over eager", at_least=2.0, mean="median"), 2.0, True, id="median"),
        pytest.param(Target(measure="roofline", at_least=0.8, least_bytes=1 << 40), None, None, id="nothing so large"),
        pytest.param(Target(measure="roofline", at_least=0.8, least_bytes=2000), 0.5, False, id="the large one"),
    ],
)
def test_targets_of_drawn_cases(target: Target, found: float | None, passed: bool | None) -> None:
    sizes = {"small": 100, "large": 4000, "other": 100}
    stated = dataclasses.replace(
        FORWARD,
        cases=tuple(Case(name, (size,)) for name, size in sizes.items()),
        bytes=lambda case, dtype: case.sizes[0],
        dtypes=(torch.float32,),
        targets=(target,),
    )
    rows = [
        one
        for (name, size), port in zip(sizes.items(), (1e-6, 2e-6, 4e-6), strict=True)
        for one in case_rows(port=port, case=name, bytes=size)
    ]
    (figure,) = figures("scale", stated, [dataclasses.replace(one, benchmark="forward") for one in rows])
    assert (figure.measured, figure.passed) == (found, passed)


# ------------------------------------------------------------------------------------------ the command

DRAWN = ("--shapes", "random:5", "--seed", "3", "--only", "forward float32 cpu", "--against", "eager")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("LEAST_BYTES", 256), ("MOST_BYTES", 4096), ("COPY_BYTES", 4096)):
        monkeypatch.setattr(drawn, name, most)


@pytest.mark.usefixtures("tiny")
def test_drawn_cases_are_measured_in_place_of_the_own_ones(root: Path) -> None:
    status, output, rows = invoke(root, *DRAWN)
    assert status == 0, output
    cases = {case for case, _, _ in measured(rows)}
    assert len(cases) == 5
    assert cases.isdisjoint({"16", "32", "64", "1000"})
    assert "Shapes random:5, seed 3" in output
    environment = json.loads((root / "results.json").read_text(encoding="utf-8"))["environment"]
    assert environment["shapes"] == "random:5, seed 3"


@pytest.mark.usefixtures("tiny")
def test_parts_come_into_one_file(root: Path) -> None:
    whole = measured(invoke(root, *DRAWN)[2])
    (root / "results.json").unlink()
    first = measured(invoke(root, *DRAWN, "--part", "1/2", "--resume")[2])
    status, output, rows = invoke(root, *DRAWN, "--part", "2/2", "--resume")
    assert status == 0, output
    assert len(first) == 3
    assert measured(rows) == whole
    assert re.search(r"^  gate · forward +5 ", output, re.MULTILINE), "the report is of all parts"


@pytest.mark.usefixtures("tiny")
def test_shapes_of_two_seeds_do_not_come_into_one_file(root: Path) -> None:
    assert invoke(root, *DRAWN, "--part", "1/5")[0] == 0
    status, output, _ = invoke(root, *DRAWN, "--seed", "4", "--resume")
    assert status == 1
    assert "--resume: the file's shapes is random:5, seed 3, this run's is random:5, seed 4" in output


@pytest.mark.usefixtures("tiny")
def test_a_run_that_its_limit_stops_says_what_is_left(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, output, rows = invoke(root, *DRAWN, "--stop-after", "0")
    assert (status, rows) == (3, [])
    assert "Stopped: 5 cases are left; --resume continues" in output
    assert json.loads((root / "results.json").read_text(encoding="utf-8"))["environment"]["complete"] is False
    monkeypatch.setattr(run, "measure", timer())
    assert invoke(root, *DRAWN, "--stop-after", "1", "--resume")[0] == 0


@pytest.mark.parametrize("part", ["2", "0/4", "5/4", "a/b"])
def test_a_part_that_is_none_is_told(root: Path, part: str) -> None:
    status, output, rows = invoke(root, "--part", part)
    assert (status, rows) == (1, [])
    assert f"--part {part}: it names no part" in output
