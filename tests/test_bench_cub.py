"""CUB competes where a benchmark states one of its functions, says why it does not elsewhere, and is checked before it
is timed. Where there is nvcc its sources are compiled, and where there is a GPU they are run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from tests.test_bench_peers import called_once
from tests.test_build import requires_nvcc
from trifold.bench import cub, run
from trifold.bench.entrants import Entrant, competitor, entrants
from trifold.bench.gradients import tensors
from trifold.bench.ops import benchmarks_of
from trifold.bench.prepare import first_calls
from trifold.bench.rows import CUB, EAGER, PORT, ROOFLINE, Row, with_ratios
from trifold.bench.run import EVERYTHING, Task, tasks
from trifold.bench.targets import figures
from trifold.build import compile_only, toolchain
from trifold.errors import ToolchainError
from trifold.spec.benchmark import Benchmark, Case, Cub, CubFunction, Target
from trifold.spec.case import DTYPES
from trifold.workspace import OpFiles, Workspace

GALLERY = Workspace.at(Path(__file__).parents[1])
NAMES: tuple[CubFunction, ...] = get_args(CubFunction)
OPS = {"cumsum": NAMES[0], "histogram": NAMES[1], "argmax": NAMES[2]}


def cumsum(x: Tensor) -> Tensor:
    return torch.cumsum(x, -1)


def benchmark(**changed: Any) -> Benchmark:
    stated: dict[str, Any] = {
        "name": "forward",
        "cases": (Case("4x16", (4, 16)), Case("8x16", (8, 16))),
        "arguments": lambda device, dtype, case: (torch.randn(case.sizes, device=device, dtype=dtype),),
        "eager": cumsum,
        "bytes": lambda case, dtype: 512,
        "cub": Cub(function="DeviceScan::InclusiveSum"),
    }
    return Benchmark(**(stated | changed))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Puts a function in the place of each that nvcc would build."""

    def use(function: Callable[..., Any]) -> None:
        monkeypatch.setattr(cub, "absent", lambda: "")
        monkeypatch.setattr(cub, "native", lambda source, schema: function)

    return use


# ----------------------------------------------------------------------------- who competes


@pytest.mark.parametrize("op", OPS)
def test_the_forward_pass_of_an_op_states_its_function(op: str) -> None:
    stated = {one.name: one.cub and one.cub.function for one in benchmarks_of(GALLERY.op(op))}
    assert stated.pop("forward") == OPS[op]
    assert not any(stated.values()), "CUB has no gradients"


@pytest.mark.parametrize("name", NAMES)
def test_each_function_that_a_spec_may_state_has_a_source_that_registers_it(name: CubFunction) -> None:
    found = cub._FUNCTIONS[name]
    registered = found.schema.partition("(")[0]
    assert f'm.impl("{registered}"' in (cub._SOURCES / found.source).read_text(encoding="utf-8")


def reason(stated: Benchmark, without: str = "") -> str:
    found = entrants(stated, {PORT: Entrant(PORT, cumsum)}, ("cub",), without=without)
    assert [entrant.name for entrant in found] == [CUB, PORT], "it is not dropped"
    return found[0].absent


@pytest.mark.parametrize(
    ("changed", "without", "says"),
    [
        pytest.param({}, "", "", id="it competes"),
        pytest.param({}, "it needs a GPU", "it needs a GPU", id="no GPU"),
        pytest.param({"cub": None}, "", "the benchmark states no function of CUB", id="none is stated"),
        pytest.param({"backward": True}, "", "CUB's functions have no gradient", id="backward"),
        pytest.param({"training": True}, "", "CUB's functions have no gradient", id="training"),
        pytest.param(
            {"cub": Cub(function="DeviceTopK")},  # type: ignore[arg-type]
            "",
            f"DeviceTopK of CUB is not compiled here: state {', '.join(NAMES)}",
            id="an unknown one",
        ),
    ],
)
def test_who_does_not_compete_says_why(
    compiled: Callable[..., None], changed: dict[str, Any], without: str, says: str
) -> None:
    compiled(cumsum)
    assert reason(benchmark(**changed), without) == says


def test_without_nvcc_its_remedy_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ToolchainError("there is no CUDA compiler", "install the CUDA toolkit")

    monkeypatch.setattr(toolchain, "find_nvcc", missing)
    assert reason(benchmark()) == cub.absent() == "there is no CUDA compiler: install the CUDA toolkit"
    assert cub.version() is None


@pytest.mark.parametrize("folder", ["include/cccl/cub", "include/cub"], ids=["CUDA 13", "CUDA 12"])
def test_the_version_is_that_of_nvccs_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    nvcc = toolchain.Nvcc(tmp_path / "bin/nvcc", tmp_path)
    monkeypatch.setattr(toolchain, "find_nvcc", lambda: nvcc)
    assert f"the CUDA toolkit in {tmp_path} has no CUB" in reason(benchmark())
    assert cub.version() is None
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "version.cuh").write_text("#define CUB_VERSION 300102 // 3.1.2\n", encoding="utf-8")
    assert reason(benchmark()) == ""
    assert cub.version() == "3.1.2"


def test_a_dtype_in_which_it_computes_something_else_is_refused() -> None:
    half, wide = torch.ones(3, dtype=torch.bfloat16), torch.ones(3)
    assert cub.refusal((half,), (torch.float32,)) == "CUB's results in bfloat16 are not those of the op"
    assert cub.refusal((wide,), (torch.float32,)) == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param((torch.ones(3, 4),), "", id="it takes them"),
        pytest.param({"x": torch.ones(3, dtype=torch.bfloat16)}, "", id="by keyword"),
        pytest.param((torch.ones(3, dtype=torch.int32),), "not for int32", id="a dtype"),
        pytest.param((torch.ones(4, 3).T,), "contiguous", id="a layout"),
        pytest.param((torch.ones(0, 3),), "1 to 2^31 - 1 elements here, and x has 0", id="nothing"),
        pytest.param((torch.empty(2**31, device="meta"),), "x has 2,147,483,648", id="too many"),
        pytest.param(([torch.ones(3)],), "takes a tensor x", id="a list"),
    ],
)
def test_arguments_that_it_is_not_compiled_for_are_refused(arguments: Any, says: str) -> None:
    found = cub.refusal(arguments)
    assert says in found
    assert bool(found) is bool(says)


# ----------------------------------------------------------------------------- in a run


def rows(monkeypatch: pytest.MonkeyPatch, stated: Benchmark, dtype: torch.dtype = torch.float32) -> dict[str, Row]:
    monkeypatch.setattr(run, "_method", lambda name, device: "graph")
    monkeypatch.setattr(run, "measure", called_once)
    task = Task("op", stated, stated.cases[0], dtype, "graph")
    machine = run.Machine(torch.device("cpu"), against=("eager", "cub"))
    return {row.competitor: row for row in run.run(task, {PORT: Entrant(PORT, stated.eager)}, machine)}


def test_it_is_a_peer_like_the_others(compiled: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(cumsum)
    found = rows(monkeypatch, benchmark())
    assert {name: row.outcome for name, row in found.items()} == dict.fromkeys((ROOFLINE, EAGER, CUB, PORT), "measured")
    assert set(found[PORT].ratios) == {ROOFLINE, EAGER, CUB}


def test_what_it_does_not_take_is_not_run(compiled: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(cumsum)
    integers = benchmark(arguments=lambda device, dtype, case: (torch.ones(case.sizes, dtype=dtype),))
    found = rows(monkeypatch, integers, torch.int64)
    assert found[CUB].outcome == "not run"
    assert found[CUB].reason.endswith("not for int64")
    assert found[EAGER].outcome == "measured"


@pytest.mark.parametrize(
    ("function", "says"),
    [
        pytest.param(lambda x: cumsum(x) - x, r"result 0 is off by .* of the largest number", id="other numbers"),
        pytest.param(lambda x: cumsum(x) * 1.001, "is off by 0.001 of the largest", id="a little off"),
        pytest.param(lambda x: cumsum(x) * torch.nan, "is off by nan", id="nan"),
        pytest.param(lambda x: cumsum(x)[0], r"has shape \(16,\), eager's \(4, 16\)", id="another shape"),
        pytest.param(lambda x: cumsum(x).long(), "is not that of eager PyTorch", id="integers"),
        pytest.param(lambda x: (cumsum(x), x), "returns 2 tensors, eager 1", id="another number of results"),
    ],
)
def test_wrong_results_are_not_timed(
    compiled: Callable[..., None], monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], says: str
) -> None:
    compiled(function)
    found = rows(monkeypatch, benchmark())
    assert found[CUB].outcome == "failed"
    assert re.search(says, found[CUB].reason), found[CUB].reason
    assert CUB not in found[PORT].ratios


def test_a_spec_may_state_what_agrees(compiled: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(lambda x: cumsum(x) - x)
    exclusive = Cub(function="DeviceScan::InclusiveSum", agrees=lambda got, x: torch.equal(got, cumsum(x) - x))
    assert rows(monkeypatch, benchmark(cub=exclusive))[CUB].outcome == "measured"
    other = Cub(function="DeviceScan::InclusiveSum", agrees=lambda got, x: torch.equal(got, x))
    assert "its results are not those of the op" in rows(monkeypatch, benchmark(cub=other))[CUB].reason


def histogram_even(x: Tensor, bins: int, low: float, high: float) -> Tensor:
    """As CUB defines it: by the reciprocal in float32, and open on the right."""
    wide = x.float()
    first, scale = torch.tensor(low), torch.tensor(bins, dtype=torch.float32) / torch.tensor(high - low)
    chosen = ((wide - first) * scale)[(wide >= low) & (wide < high)].int()
    return torch.bincount(chosen, minlength=bins).int()


@pytest.mark.parametrize("bins", [1, 10, 256, 4096])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_histogram_may_differ_at_edges_only(bins: int, dtype: torch.dtype) -> None:
    (stated,) = benchmarks_of(GALLERY.op("histogram"))
    assert stated.cub is not None
    agrees = stated.cub.agrees
    assert agrees is not None
    x = torch.randn(200_000, generator=torch.Generator().manual_seed(1)).to(dtype)
    x[:100] = 3  # at the right end
    counts = histogram_even(x, bins, -3.0, 3.0)
    assert agrees(counts, x, bins, -3.0, 3.0)
    lost = counts.clone()
    lost[bins // 2] -= int(counts[bins // 2] > 0) * 1000
    assert not agrees(lost, x, bins, -3.0, 3.0)
    if bins > 1:
        assert not agrees(counts.roll(1), x, bins, -3.0, 3.0)
        assert not agrees(torch.zeros_like(counts), x, bins, -3.0, 3.0)


def test_each_function_is_built_once_before_anything_is_timed() -> None:
    def planned(stated: Benchmark, device: Any = "cuda") -> list[str]:
        several = [*tasks("one", stated, device, EVERYTHING), *tasks("other", stated, device, EVERYTHING)]
        return [call.label for call in first_calls(several, ("cub",), device) if call.competitor == CUB]

    assert planned(benchmark()) == ["one forward float32 graph 4x16: cub"]
    assert planned(benchmark(cub=None)) == planned(benchmark(), "cpu") == []


def test_the_fastest_peer_is_known_where_cub_has_competed_or_refused() -> None:
    target = Target(measure="over the fastest peer", at_least=0.9)
    stated = benchmark(cases=(Case("4x16", (4, 16)),), dtypes=(torch.float32,), targets=(target,))

    def row(name: str, seconds: float | None, outcome: Any = "measured") -> Row:
        return Row(
            op="op",
            benchmark="forward",
            case="4x16",
            dtype="float32",
            method="graph",
            competitor=name,
            bytes=512,
            outcome=outcome,
            seconds=seconds,
        )

    timed = [row(ROOFLINE, 1e-6), row(EAGER, 4e-6), row("torch.compile", 3e-6), row(PORT, 2e-6)]
    for more, expected in (
        ([], (None, None)),
        ([row(CUB, 2.2e-6)], (pytest.approx(1.1), True)),
        ([row(CUB, None, "not run")], (pytest.approx(1.5), True)),
    ):
        (figure,) = figures("op", stated, with_ratios([*timed, *more]))
        assert (figure.measured, figure.passed) == expected
    (figure,) = figures("op", dataclasses.replace(stated, cub=None), with_ratios(timed))
    assert figure.passed, "nobody waits for CUB where it has no such function"


# ----------------------------------------------------------------------------- CUB itself


@requires_nvcc
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.extended
def test_nvcc_compiles_its_source(name: CubFunction) -> None:
    source = cub._SOURCES / cub._FUNCTIONS[name].source
    made = compile_only(OpFiles(source.stem, *(source,) * 5), "9.0", namespace="trifold_bench")
    assert made.path.is_file()


SHAPES = ((1, 1), (1, 5000), (1, 1_000_003), (7, 1), (300, 33), (64, 4096), (3, 100_001))


@pytest.mark.gpu
@pytest.mark.slow(seconds=60)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", OPS)
def test_cub_itself_computes_the_op(op: str, dtype: torch.dtype) -> None:
    stated = next(one for one in benchmarks_of(GALLERY.op(op)) if one.name == "forward")
    entrant = next(one for one in entrants(stated, {}, ("cub",)) if one.name == CUB)
    assert entrant.absent == ""
    generator = torch.Generator("cuda").manual_seed(1)
    for shape in SHAPES:
        x = torch.randn(shape, device="cuda", generator=generator).to(dtype)
        others: tuple[Any, ...] = (300, -3.0, 3.0) if op == "histogram" else ()
        arguments = (x, *others)
        absent = entrant.for_arguments(arguments).absent
        if stated.cub is not None and dtype not in stated.cub.dtypes:
            assert "are not those of the op" in absent
            continue
        assert absent == ""
        competitor(entrant, [arguments], "plain")()[0]()
        torch.cuda.synchronize()


@pytest.mark.gpu
def test_a_cuda_graph_holds_its_calls() -> None:
    for op in OPS:
        stated = next(one for one in benchmarks_of(GALLERY.op(op)) if one.name == "forward")
        (entrant,) = entrants(stated, {}, ("cub",))
        sizes = (1 << 16, 10) if op == "histogram" else (64, 1000)
        arguments = stated.arguments(torch.device("cuda"), torch.float32, Case("one", sizes))
        (call,) = competitor(entrant, [arguments], "plain")()
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            expected = call()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                result = call()
            graph.replay()
        torch.cuda.synchronize()
        for got, want in zip(tensors(result), tensors(expected), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-3)
