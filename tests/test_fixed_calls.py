"""The calls that checks of accesses make in the simulator: large ones in one dtype; edges as native code; long
dimensions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import strategies as st

from trifold.cells import ImplementationKind
from trifold.spec import DTYPES, Call, Limits, Spec, TensorCase
from trifold.verification.calls import Search
from trifold.verification.cell import Cell, Remote
from trifold.workspace import OpFiles


def _call(n: int, dtype: torch.dtype, seed: int = 0, factor: float = 1.0) -> Call:
    return Call((TensorCase((n,), dtype, seed=seed), factor))


SMALL = [_call(256, dtype) for dtype in DTYPES]
LARGE = [_call(257, dtype, seed) for seed, dtype in enumerate(DTYPES)]
OTHERS = [_call(257, torch.float32, factor=2.0), _call(258, torch.float32)]


def _cell(
    kind: ImplementationKind,
    edges: list[Call],
    examples: int = 1,
    calls: Callable[[Limits], st.SearchStrategy[Call]] = lambda limits: st.just(SMALL[0]),
) -> Cell:
    remote = Remote(kind, OpFiles("op", *(Path("op.py"),) * 5), cast(Any, None), ("op",), differentiable=False)
    spec = Spec(calls=calls, smooth=[], edges=edges)
    return Cell(spec, remote, "cpu", torch.clone, Search(examples), Limits(4000), lambda sample: None)


def _calls(kind: ImplementationKind) -> list[Call]:
    cell = _cell(kind, [*LARGE, *SMALL, *OTHERS])
    return [call for _, call in cell.fixed_calls_of_one_dtype()]


def test_in_the_simulator_large_calls_that_differ_in_their_dtypes_alone_are_one() -> None:
    calls = _calls("prototype")
    assert calls == _calls("prototype")
    assert len(set(map(repr, calls))) == len(calls) == len(SMALL) + 1 + len(OTHERS)
    assert all(call in calls for call in (*SMALL, *OTHERS))
    assert sum(call in calls for call in LARGE) == 1


@pytest.mark.parametrize("call", LARGE, ids=lambda call: str(call.dtype))
def test_a_port_has_kernels_for_each_dtype(call: Call) -> None:
    assert call in _calls("port")


def test_edges_too_large_for_the_simulator_are_native_calls_of_one_dtype_each() -> None:
    large = [_call(4001, dtype) for dtype in DTYPES]
    edges = [Call((3.0,)), SMALL[0], *large, _call(100_001, torch.float32)]
    assert _cell("prototype", edges, examples=48).native_edges() == [_call(4001, torch.float32)]
    assert _cell("port", edges, examples=48).native_edges() == []


@pytest.mark.parametrize(("kind", "least"), [("port", 2**12), ("prototype", 2**10)])
def test_each_dimension_of_each_tensor_is_long_in_a_call(kind: ImplementationKind, least: int) -> None:
    """Of matrices to multiply: rows, columns, and the inner dimension."""

    @st.composite
    def products(draw: st.DrawFn, limits: Limits) -> Call:
        short = draw(st.integers(1, 3))
        m, k, n = draw(st.permutations((short, short, limits.elements // short)))
        return Call((TensorCase((m, k), torch.float32, fill="exact"), TensorCase((k, n), torch.float32, fill="exact")))

    calls = _cell(kind, [], examples=48, calls=products).calls_of_length()
    shapes = [tuple(case.shape for _, case in call.cases()) for call in calls]
    assert {max(range(3), key=lambda i: (*a, b[1])[i]) for a, b in shapes} == {0, 1, 2}
    assert all(max(*a, *b) >= least for a, b in shapes)
    assert _cell(kind, [], calls=products).calls_of_length() == []
