"""Reductions over warps and blocks: the same in C++ and in prototypes, exact where sums are, nan where one is.

And the rows that are reduced: a tensor of any strides, as kernels take it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32, float64
from torch import Tensor

from tests.cpu.workspace import op_of
from trifold import device
from trifold.cpu import runtime
from trifold.findings import collect
from trifold.implementation import load_checked_port, load_port
from trifold.prototype import rows
from trifold.spec import Limits, TensorCase, row_shapes, row_tensors
from trifold.workspace import OpFiles

Reduce = Callable[..., Tensor]
FORMS = ("port", "checked port", "prototype")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> OpFiles:
    return op_of("reductions", tmp_path_factory.mktemp("workspace"), Path(__file__).parent)


@pytest.fixture(scope="module")
def forms(files: OpFiles) -> dict[str, Reduce]:
    return {
        "port": load_port(files).function,
        "checked port": load_checked_port(files).function,
        "prototype": _prototype,
    }


def _kernel(kind: Any) -> Any:
    @cuda.jit
    def reduce_kernel(x, warp_sums, warp_maxima, block_sums, block_maxima):  # type: ignore[no-untyped-def]
        of_warp = cuda.shared.array(32, kind)
        i = device.thread_index()
        warp_sums[i] = device.warp_sum(x[i])
        warp_maxima[i] = device.warp_max(x[i])
        block_sums[i] = device.block_sum(x[i], of_warp)
        block_maxima[i] = device.block_max(x[i], of_warp)

    return reduce_kernel


_KERNELS = {torch.float32: _kernel(float32), torch.float64: _kernel(float64)}


def _prototype(x: Tensor, threads: int) -> Tensor:
    out = torch.empty((4, x.numel()), dtype=x.dtype)
    _KERNELS[x.dtype][x.numel() // threads, threads](x, *out)
    return out


def _expected(x: Tensor, threads: int) -> Tensor:
    def each(width: int, reduce: Callable[[Tensor], Tensor]) -> Tensor:
        return reduce(x.reshape(-1, width)).repeat_interleave(width)

    def maxima(rows: Tensor) -> Tensor:
        return rows.max(1).values

    return torch.stack([each(width, f) for width in (32, threads) for f in (lambda rows: rows.sum(1), maxima)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("threads", [32, 96, 1024])
@pytest.mark.parametrize("form", FORMS)
def test_every_thread_gets_the_result(forms: dict[str, Reduce], form: str, threads: int, dtype: torch.dtype) -> None:
    x = (torch.arange(2 * threads, dtype=dtype) * 7) % 64 - 20  # whole numbers: sums are exact
    with runtime.schedules(2), collect() as found:
        result = forms[form](x, threads)
    assert found == []
    assert torch.equal(result, _expected(x, threads))


@pytest.mark.parametrize("form", FORMS)
def test_nan_is_the_largest(forms: dict[str, Reduce], form: str) -> None:
    x = torch.zeros(96)
    x[40] = torch.nan
    maxima = forms[form](x, 96)[[1, 3]]
    assert torch.isnan(maxima[0]).nonzero().flatten().tolist() == list(range(32, 64))
    assert torch.isnan(maxima[1]).all()


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(numbers=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=96, max_size=96))
def test_port_and_prototype_add_in_one_order(forms: dict[str, Reduce], numbers: list[float]) -> None:
    x = torch.tensor(numbers, dtype=torch.float32)
    with np.errstate(all="ignore"):
        assert forms["port"](x, 96).equal(forms["prototype"](x, 96)) or torch.isnan(forms["port"](x, 96)).any()


def test_a_struct_is_reduced_whole(forms: dict[str, Reduce]) -> None:
    x = torch.arange(128, dtype=torch.float32)
    sums, counts = forms["checked port"](x, way="pairs")
    assert counts.unique().tolist() == [64]
    assert sums.unique().tolist() == [float(x[:64].sum()), float(x[64:].sum())]


def test_a_sum_of_many_equal_terms_is_exact_to_a_round_off(forms: dict[str, Reduce]) -> None:
    """Plain sums of 64 threads are 2,500 round-offs off here: additions of 0.1 err on the same side."""
    x = torch.full((1_000_003,), 0.1)
    for form in ("port", "checked port"):
        some = x if form == "port" else x[:1003]
        sums, squares = forms[form](some, way="sums")
        for got, exact in ((sums, some.double().sum()), (squares, (some * some).double().sum())):
            assert got.unique().numel() == 1
            assert abs(float(got[0]) / float(exact) - 1) < 8 * 2**-24  # six additions in the tree


ROWS = {
    "0-d": (TensorCase(()), (1, 1, 1, False)),
    "one row": (TensorCase((5,)), (1, 5, 5, False)),
    "one row of every second element": (TensorCase((5,), layout="sliced"), (1, 5, 5, True)),
    "three dimensions": (TensorCase((2, 3, 4)), (6, 4, 4, False)),
    "rows that lie apart": (TensorCase((6, 4), layout="padded"), (6, 4, 5, False)),
    "rows that lie apart, in three dimensions": (TensorCase((2, 3, 4), layout="padded"), (6, 4, 5, False)),
    "one row again and again": (TensorCase((6, 4), layout="expanded"), (6, 4, 0, False)),
    "a matrix again and again": (TensorCase((2, 3, 4), layout="expanded"), (6, 4, 4, True)),
    "transposed": (TensorCase((3, 4), layout="transposed"), (3, 4, 4, True)),
    "transposed, with one column": (TensorCase((3, 1), layout="transposed"), (3, 1, 1, False)),
    "no row": (TensorCase((0, 4), layout="padded"), (0, 4, 4, False)),
    "no column": (TensorCase((2, 3, 0), layout="padded"), (6, 0, 0, False)),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_tensor_as_rows_is_copied_only_where_its_strides_ask_for_it(forms: dict[str, Any], name: str) -> None:
    case, expected = ROWS[name]
    assert tuple(forms["port"](case.make(), way="rows")) == expected


@settings(deadline=None, derandomize=True, database=None)
@given(case=row_tensors(row_shapes(Limits(elements=100)), fills=["normal"]))
def test_rows_of_a_prototype_are_those_of_the_port(forms: dict[str, Any], case: TensorCase) -> None:
    x = case.make()
    count, columns, stride, copied = forms["port"](x, way="rows")
    matrix = rows(x)
    assert matrix.shape == (count, columns)
    assert copied or count < 2 or columns == 0 or matrix.stride(0) == stride
    assert torch.equal(matrix.flatten(), x.flatten())


@pytest.mark.parametrize(
    ("a", "b", "quotient"), [(0, 3, 0), (1, 3, 1), (3, 3, 1), (4, 3, 2), (2**40 + 1, 2**20, 2**20 + 1)]
)
def test_division_rounds_up(a: int, b: int, quotient: int) -> None:
    @cuda.jit
    def kernel(a, b, out):  # type: ignore[no-untyped-def]
        out[0] = device.ceil_div(a, b)

    out = np.zeros(1, np.int64)
    kernel[1, 1](a, b, out)
    assert out[0] == quotient
