"""The calls that stand for all others: together they launch every kernel instance."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn_specs import HereProcess
from tests.wrong.entry import GALLERY
from trifold.implementation import Implementation, load_port, load_prototype, prototype_module
from trifold.spec import Call, Limits, Sample, Spec, TensorCase
from trifold.spec.load import load_spec
from trifold.verification.calls import Search
from trifold.verification.cell import Cell, Remote
from trifold.verification.checks import gpu
from trifold.verification.checks.instances import covering, launching_calls
from trifold.workspace import OpFiles


def test_few_sets_cover_all_elements() -> None:
    assert covering({}) == []
    assert covering({1: set(), 2: {"a"}, 3: {"a"}}) == [2]
    assert covering({1: {"a", "b"}, 2: {"b", "c", "d"}, 3: {"a", "d"}, 4: {"c"}}) == [1, 2]


def test_a_set_that_later_ones_make_superfluous_is_left_out() -> None:
    assert covering({1: {"a", "b", "c"}, 2: {"a", "b", "x"}, 3: {"c", "y"}, 4: {"a", "z"}}) == [2, 3, 4]


class _Launcher(HereProcess):
    """An op that adds numbers up in float32 or float64, in one of three kernels by how many there are."""

    def __init__(self) -> None:
        super().__init__(self.total)
        self.counts = Counter({f"{kernel}<{dtype}>": 0 for kernel in ("few", "many") for dtype in ("float", "double")})
        self.asked: list[Any] = []

    def total(self, x: Tensor) -> Tensor:
        if x.numel():
            kernel = "few" if x.numel() < 100 else "many"
            self.counts[f"{kernel}<{'float' if x.dtype == torch.float32 else 'double'}>"] += 1
        return x.sum()

    def branches(self) -> dict[str, int]:
        return dict(self.counts)

    def beside(self, what: str, args: Any, kwargs: Any, **more: Any) -> tuple[Any, list[Tensor]]:
        self.asked.append((what, args[0].numel(), args[0].dtype))
        return {}, [self.function(*args)]


@contextlib.contextmanager
def _cell(process: HereProcess, spec: Spec, files: OpFiles | None = None) -> Iterator[Cell]:
    files = files or OpFiles("total", *(Path("total.py"),) * 5)
    untyped: Any = process
    remote = Remote("port", files, untyped, ("total",), differentiable=False)
    yield Cell(spec, remote, "cpu", torch.sum, Search(1), Limits(4000), lambda sample: None)


def _call(n: int, dtype: torch.dtype = torch.float32) -> Call:
    return Call((TensorCase((n,), dtype),))


_TOTAL = Spec(
    calls=lambda limits: st.just(_call(min(8, limits.elements))),
    samples=[Sample(f"{n}", _call(n), "of its size") for n in (0, 1, 2, 3, 4, 5, 6, 7)],
    edges=[_call(200), _call(8, torch.float64)],
    smooth=[_call(300, torch.float64), _call(301, torch.float64)],
)


def test_the_calls_launch_every_instance_that_fixed_and_small_calls_launch() -> None:
    with _cell(_Launcher(), _TOTAL) as cell:
        chosen = [call for _, call in launching_calls(cell)]
        assert chosen == [_call(1), _call(200), _call(8, torch.float64), _call(300, torch.float64)]


def test_the_calls_are_found_once_for_all_rows_of_a_cell() -> None:
    process = _Launcher()
    with _cell(process, _TOTAL) as cell:
        first = launching_calls(cell)
        launches = process.counts.total()
        assert launching_calls(cell) is first
        assert process.counts.total() == launches


def test_where_no_launch_is_known_small_calls_stand_for_all() -> None:
    process = _Launcher()
    process.counts.clear()
    with _cell(process, Spec(calls=_TOTAL.calls, samples=[Sample("none", _call(0), "empty")], smooth=[])) as cell:
        process.branches = dict  # type: ignore[method-assign]
        assert [call for _, call in launching_calls(cell)] == cell.small_calls()


def test_a_row_of_a_gpu_runs_an_instance_that_none_of_the_first_six_samples_launches() -> None:
    process = _Launcher()
    with _cell(process, _TOTAL) as cell:
        gpu.stream(cell)
    assert ("stream", 200, torch.float32) in process.asked
    assert len(process.asked) == 4


class _Port(HereProcess):
    """The port of an op of the gallery, as built for the CPU."""

    def __init__(self, implementation: Implementation) -> None:
        super().__init__(implementation.function)
        self.implementation = implementation

    def branches(self) -> dict[str, int]:
        library = self.implementation.kernels("cpu")
        assert library is not None
        return dict(library.manifest().branches)


def test_of_a_port_few_calls_launch_each_instance() -> None:
    files = GALLERY.op("add")
    process = _Port(load_port(files))
    spec = load_spec(files)
    with _cell(process, spec, files) as cell:
        chosen = [call for _, call in launching_calls(cell)]
        every = [*(call for _, call in cell.fixed_calls()), *cell.small_calls()]
        assert len(chosen) < len(every)
        assert _launched(cell, chosen, process) == _launched(cell, every, process)


def _launched(cell: Cell, calls: list[Call], process: _Port) -> set[str]:
    before = process.branches()
    for call in calls:
        cell.invoke(call)
    return {instance for instance, count in process.branches().items() if count > before[instance]}


def test_a_prototypes_launches_are_counted_for_each_of_its_argument_types() -> None:
    function = load_prototype(GALLERY.op("add"), "cpu").function
    from trifold.prototype.launch import launches  # numba's simulator is on by now

    kernel = prototype_module(GALLERY.op("add"), "cpu").add_kernel
    before = Counter(launches(kernel))
    function(torch.ones(3), torch.ones(3))
    function(torch.ones(3, dtype=torch.float16), torch.ones(3, dtype=torch.float16))
    function(torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64))
    assert Counter(launches(kernel)) - before == {
        "float32[1], float32[1], float32[1], int": 2,
        "float64[1], float64[1], float64[1], int": 1,
    }
