"""Rows, tables, targets, JSON and plots say what was measured, and no more."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from pathlib import Path

import pytest
import torch

from trifold.bench.plot import _COLOURS, _over_shapes, by_shape, plot
from trifold.bench.rows import COMPILED, EAGER, LIGER, PORT, PROTOTYPE, QUACK, ROOFLINE, Results, Row, with_ratios
from trifold.bench.table import figure_lines, table
from trifold.bench.targets import figures
from trifold.errors import TrifoldError
from trifold.spec.benchmark import Benchmark, Case, Target, elementwise_benchmarks

CASES = (Case("small", (4,)), Case("large", (1024,)))
ENVIRONMENT = {"device": "a GPU", "torch": "2.13", "date": "2026-01-01", "commit": None, "dirty": None}


def row(competitor: str, seconds: float | None, **other: object) -> Row:
    base = Row(
        op="scale",
        benchmark="forward",
        case="large",
        dtype="float32",
        method="graph",
        competitor=competitor,
        bytes=8000,
        outcome="measured" if seconds else "failed",
        reason="" if seconds else "ValueError: no",
        seconds=seconds,
        low=seconds and 0.9 * seconds,
        high=seconds and 1.1 * seconds,
        samples=10 if seconds else 0,
    )
    return dataclasses.replace(base, **other)  # type: ignore[arg-type]


def case_rows(port: float | None = 2e-6, **other: object) -> list[Row]:
    seconds = {ROOFLINE: 1e-6, EAGER: 4e-6, COMPILED: 3e-6, PROTOTYPE: 8e-6, PORT: port}
    return with_ratios([row(name, value, **other) for name, value in seconds.items()])


def benchmark(*targets: Target) -> Benchmark:
    return Benchmark(
        name="forward",
        cases=CASES,
        arguments=lambda device, dtype, case: (torch.ones(case.sizes, device=device, dtype=dtype),),
        eager=lambda x: 2 * x,
        bytes=lambda case, dtype: 2 * case.sizes[0] * dtype.itemsize,
        dtypes=(torch.float32,),
        targets=targets,
    )


def test_ratios_are_the_other_time_over_this_one() -> None:
    port = case_rows()[-1]
    assert {name: estimate.value for name, estimate in port.ratios.items()} == pytest.approx(
        {ROOFLINE: 0.5, EAGER: 2.0, COMPILED: 1.5}
    )
    assert port.fastest_peer is not None
    assert port.fastest_peer[0] == COMPILED
    assert port.gb_per_s == pytest.approx(4.0)
    assert port.spread == pytest.approx(0.1)


def test_nothing_is_compared_with_what_failed() -> None:
    rows = with_ratios([row(EAGER, None), row(PORT, 2e-6)])
    assert rows[1].ratios == {}
    assert rows[0].ratios == {}
    assert rows[1].fastest_peer is None


def test_a_ratio_of_rounds_read_together_has_an_interval() -> None:
    readings = {EAGER: [4e-6 + 1e-8 * i for i in range(10)], PORT: [2e-6] * 10}
    ported = with_ratios([row(EAGER, 4e-6), row(PORT, 2e-6)], readings)[1]
    eager = ported.ratios[EAGER]
    assert (eager.low, eager.value, eager.high) == pytest.approx((2.005, 2.0225, 2.04))
    assert "2.02 ±0.9%" in table([ported])


def test_the_fastest_peer_is_no_prototype_and_not_itself() -> None:
    rows = with_ratios([row(EAGER, 4e-6), row(QUACK, 2e-6), row(LIGER, 3e-6), row(PROTOTYPE, 1e-6), row(PORT, 2e-6)])
    fastest = {one.competitor: one.fastest_peer and one.fastest_peer[0] for one in rows}
    assert fastest == {EAGER: QUACK, QUACK: LIGER, LIGER: QUACK, PROTOTYPE: QUACK, PORT: QUACK}


def test_a_host_time_has_no_rate() -> None:
    assert row(PORT, 1e-6, method="host: no grad").gb_per_s is None


def test_the_table_shows_each_competitor_and_why_one_failed() -> None:
    text = table(case_rows(port=None))
    assert "scale · forward · float32 · CUDA graph replay" in text
    for name in (EAGER, COMPILED, PROTOTYPE, PORT):
        assert name in text
    assert "failed: ValueError: no" in text
    assert "slow: one call" in table([row(PROTOTYPE, 1.0, outcome="slow")])


@pytest.mark.parametrize(
    ("target", "rows", "measured", "passed"),
    [
        pytest.param(
            Target(measure="over eager", at_least=2.0),
            [*case_rows(case="small"), *case_rows()],
            2.0,
            True,
            id="reached in each case",
        ),
        pytest.param(
            Target(measure="over eager", at_least=1.5),
            [*case_rows(), *case_rows(port=4e-6, case="small")],
            1.0,
            False,
            id="missed in one case",
        ),
        pytest.param(Target(measure="over eager", at_least=1.5), case_rows(), 2.0, None, id="one case is absent"),
        pytest.param(
            Target(measure="over eager", at_least=1.5),
            [*case_rows(), *case_rows(port=None, case="small")],
            2.0,
            False,
            id="the port failed in one case",
        ),
        pytest.param(
            Target(measure="roofline", at_least=0.4, cases=("large",)), case_rows(), 0.5, True, id="only the large case"
        ),
        pytest.param(
            Target(measure="roofline", at_least=0.97, cases=("large",)), case_rows(), 0.5, False, id="below the rate"
        ),
        pytest.param(
            Target(measure="over torch.compile", at_least=1.5, mean="geometric mean"),
            [*case_rows(port=1e-6), *case_rows(port=4e-6, case="small")],
            1.5,
            True,
            id="the mean of 3 and 0.75",
        ),
        pytest.param(
            Target(measure="over torch.compile", at_least=1.0, mean="geometric mean"),
            case_rows(),
            1.5,
            None,
            id="a mean needs all cases",
        ),
        pytest.param(Target(measure="over eager", at_least=1.0, method="events"), case_rows(), None, None, id="no row"),
        pytest.param(
            Target(measure="over eager", at_least=1 / 1.3, method="host: no grad"),
            case_rows(method="host: no grad", case="small"),
            2.0,
            True,
            id="the host's one case",
        ),
    ],
)
def test_targets(target: Target, rows: list[Row], measured: float | None, passed: bool | None) -> None:
    (figure,) = figures("scale", benchmark(target), rows)
    assert figure.passed is passed
    assert figure.measured == (None if measured is None else pytest.approx(measured))
    mark = {True: "PASS", False: "FAIL", None: "-"}[passed]
    assert figure_lines([figure]).splitlines()[2].strip().startswith(mark)


FASTEST = Target(measure="over the fastest peer", at_least=1 / 1.02)


def fastest_rows(**seconds: float | None) -> list[Row]:
    """Eager, torch.compile and the port take as long as in `case_rows`; `seconds` adds or replaces competitors."""
    times = {ROOFLINE: 1e-6, EAGER: 4e-6, COMPILED: 3e-6, PORT: 2e-6} | seconds
    return with_ratios([row(name, value) for name, value in times.items()])


@pytest.mark.parametrize(
    ("rows", "measured", "passed", "where"),
    [
        pytest.param(fastest_rows(liger=5e-6, quack=2.2e-6), 1.1, True, "is quack", id="a library is the fastest"),
        pytest.param(fastest_rows(liger=5e-6, quack=1.9e-6), 0.95, False, "is quack", id="and faster than the port"),
        pytest.param(fastest_rows(liger=5e-6, quack=1.97e-6), 0.985, True, "is quack", id="by less than the limit"),
        pytest.param(fastest_rows(liger=None, quack=9e-6), 1.5, True, "torch.compile", id="one refuses the size"),
        pytest.param(fastest_rows(liger=5e-6), None, None, "0 of 1", id="one is absent: nobody knows"),
        pytest.param(fastest_rows(liger=1e-6), 0.5, False, "is liger", id="one is absent, but another is faster"),
    ],
)
def test_targets_over_the_fastest_peer(
    rows: list[Row], measured: float | None, passed: bool | None, where: str
) -> None:
    stated = dataclasses.replace(benchmark(FASTEST), cases=CASES[1:], peers="softmax")
    (figure,) = figures("scale", stated, rows)
    assert figure.passed is passed
    assert figure.measured == (None if measured is None else pytest.approx(measured))
    assert where in figure.where
    assert figure.target == "at most 1.02 × the time of the fastest peer"


def test_an_absent_library_is_not_waited_for_where_it_lacks_the_op() -> None:
    (figure,) = figures("scale", dataclasses.replace(benchmark(FASTEST), cases=CASES[1:]), fastest_rows())
    assert figure.passed is True


def results() -> Results:
    rows = [*case_rows(case="small", bytes=80), *case_rows()]
    judged = figures("scale", benchmark(Target(measure="roofline", at_least=0.4)), rows)
    return Results(environment=ENVIRONMENT, rows=tuple(rows), figures=tuple(judged))


def test_json_holds_every_field_and_comes_back(tmp_path: Path) -> None:
    document = json.loads(results().to_json())
    assert set(document) == {"environment", "rows", "figures"}
    assert {field.name for field in dataclasses.fields(Row)} | {"gb_per_s"} == set(document["rows"][0])
    path = tmp_path / "results.json"
    path.write_text(results().to_json(), encoding="utf-8")
    assert Results.read(path) == results()
    lines = path.read_text(encoding="utf-8").splitlines()
    assert sum('"competitor": "port"' in line for line in lines) == 2, "a row is a line"


def test_a_file_from_before_the_intervals_is_read_without_them(tmp_path: Path) -> None:
    ported = {name: value for name, value in json.loads(results().to_json())["rows"][-1].items() if name != "ratios"}
    ported |= {"roofline": 0.5, "over_eager": 2.0, "over_compiled": None}
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"environment": ENVIRONMENT, "figures": [], "rows": [ported]}), encoding="utf-8")
    (read,) = Results.read(path).rows
    assert {name: estimate.value for name, estimate in read.ratios.items()} == {ROOFLINE: 0.5, EAGER: 2.0}
    assert read.seconds == 2e-6
    assert read.spread is None, "its low and high are quartiles"


@pytest.mark.parametrize("content", ["", "[]", '{"rows": []}', '{"environment": {}, "rows": [{}], "figures": []}'])
def test_a_file_without_results_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TrifoldError, match=r"other\.json holds no results"):
        Results.read(path)


def test_plot_writes_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot(results(), tmp_path / "new" / "results.png")
    assert (tmp_path / "new" / "results.png").read_bytes().startswith(b"\x89PNG")


def shaped_results() -> Results:
    """Two ops over shapes, and one over sizes."""
    rows = results().rows
    for op in ("softmax", "rms_norm"):
        for shape in ((64, 16), (32, 32), (16, 64)):
            rows += tuple(case_rows(op=op, case=f"({shape[0]}, {shape[1]})", sizes=shape, bytes=8192))
    return Results(environment=ENVIRONMENT, rows=rows, figures=())


def test_ops_over_shapes_have_a_plot_of_their_own(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = plot(shaped_results(), tmp_path / "figures.png")
    assert [path.name for path in written] == ["figures-shapes.png", "figures.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_a_panel_over_shapes_has_a_line_for_each_competitor_and_dtype() -> None:
    pytest.importorskip("matplotlib")
    shapes = ((64, 16), (32, 32), (16, 64))

    def tables(benchmark: str, dtype: str, port: float | None = 2e-6) -> list[Row]:
        common = {"op": "softmax", "benchmark": benchmark, "dtype": dtype}
        rows = [case_rows(port, case=str(shape), sizes=shape, **common) for shape in shapes[:2]]
        return [*itertools.chain(*rows), *case_rows(4e-6, case=str(shapes[2]), sizes=shapes[2], **common)]

    dtypes = ("float32", "bfloat16")
    figure = _over_shapes(
        [*(tables("backward", dtype) for dtype in dtypes), *(tables("forward", dtype, None) for dtype in dtypes)]
    )
    forward, backward = figure.axes
    assert (forward.get_title(), backward.get_title()) == ("softmax · forward", "softmax · backward")
    assert [label.get_text() for label in backward.get_xticklabels()] == [str(shape) for shape in shapes]
    drawn = {(line.get_color(), line.get_linestyle()): list(line.get_ydata()) for line in backward.lines[:-1]}
    colour = _COLOURS[PORT]
    assert drawn[colour, "-"] == drawn[colour, "--"] == pytest.approx([50, 50, 25])
    assert drawn[_COLOURS[EAGER], "-"] == pytest.approx([25, 25, 25])
    failed = next(line for line in forward.lines if line.get_color() == colour)
    assert list(failed.get_ydata()) == pytest.approx([math.nan, math.nan, 25], nan_ok=True), "what failed is a gap"
    (key,) = figure.legends
    assert [text.get_text() for text in key.get_texts()] == [EAGER, COMPILED, PROTOTYPE, PORT, *dtypes]


@pytest.mark.parametrize(
    ("shapes", "method", "expected"),
    [
        pytest.param(((1024,), (4096,), (16384,)), "graph", False, id="sizes"),
        pytest.param(((10, 1024), (100, 1024), (500, 1024)), "graph", False, id="one of two sizes grows"),
        pytest.param(((8192, 32_000), (4096, 131_072)), "graph", True, id="more columns, fewer rows"),
        pytest.param(((64, 16), (64, 32), (32, 64)), "graph", True, id="some of them"),
        pytest.param(((64, 16), (16, 64)), "events", False, id="no rates"),
        pytest.param(((), ()), "graph", False, id="a file from before sizes were written"),
    ],
)
def test_cases_are_shapes_where_each_of_two_is_larger_in_one_size(
    shapes: tuple[tuple[int, ...], ...], method: str, expected: bool
) -> None:
    rows = [row(PORT, 1e-6, case=str(n), sizes=sizes, method=method) for n, sizes in enumerate(shapes)]
    assert by_shape(rows) is expected


def test_a_plot_of_one_case_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(TrifoldError, match="nothing to plot"):
        plot(Results(environment=ENVIRONMENT, rows=tuple(case_rows()), figures=()), tmp_path / "results.png")


def test_elementwise_benchmarks_count_bytes_once() -> None:
    forward, backward = elementwise_benchmarks(torch.mul, inputs=2, backward_moves=5)
    case = forward.cases[0]
    assert forward.bytes(case, torch.float32) == 3 * 1024 * 4
    assert backward.bytes(case, torch.bfloat16) == 5 * 1024 * 2
    assert forward.cases[-1].sizes == (1 << 28,)
    assert {"roofline", "over eager", "over torch.compile"} == {target.measure for target in forward.targets}
    assert [argument.shape for argument in tuple(forward.arguments(torch.device("cpu"), torch.float32, case))] == [
        (1024,)
    ] * 2


def test_an_op_whose_backward_moves_nothing_has_no_backward_benchmark() -> None:
    (forward,) = elementwise_benchmarks(torch.add, inputs=2)
    assert not forward.backward
