"""Requirements of every op on rows: shapes, layouts and values that reveal errors, edges, sizes beyond 2³¹.

A row extends along the last dimension of a tensor; the other dimensions enumerate the rows. A 1-d tensor is one row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from trifold.spec.call import Call
from trifold.spec.case import DTYPES, ROW_FILLS, ROW_LAYOUTS, Layout, TensorCase
from trifold.spec.elementwise import large_backward, large_memory
from trifold.spec.fills import Fill
from trifold.spec.spec import Property, large
from trifold.spec.strategies import MOST_DIMS, Limits, Strategy, any_size, calls_of, tensors, tensors_alike

# All dimensions but the last: none, one row, few, no row, more rows than a block of 256 has warps, several dimensions.
_LEADING = ((), (1,), (2,), (3,), (0,), (5,), (17,), (37,), (2, 3), (3, 1, 2), (4, 0), (2, 1, 2, 1, 3))

# Around a warp, a 16-byte vector, a block's threads and a block's vectors; odd; longer than any of these.
_COLUMNS = (1, 2, 3, 0, 7, 8, 31, 32, 33, 64, 100, 255, 256, 257, 1000, 1023, 1024, 1025, 4095, 4096, 4097, 12_289)
_LONG = (65_536, 99_991)

LONGEST = 1_000_000  # columns


# A launch has a block per row, of which a simulator runs some thousands a second, fewer with all checks: at most this
# many rows, unless a number of elements is required. Then this many, or a sixteenth of the elements.
_MANY_ROWS, _MOST_ROWS = 300, 1024


def row_shapes(limits: Limits, *, least: int = 0, max_dims: int = MOST_DIMS) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of 1 to ``max_dims`` dimensions whose number of elements is within the limits, with at least ``least``
    columns: few rows of any length, and many rows."""
    leading = [rows for rows in _LEADING if len(rows) < max_dims]
    listed = [
        (*rows, n)
        for n in (*_COLUMNS, *_LONG)
        for rows in leading
        if least <= n and limits.fewest <= math.prod(rows) * n <= limits.elements
    ]
    few = [rows for rows in leading if math.prod(rows) and limits.allow(math.prod(rows), least=least)]
    drawn = [_long_rows(limits, few, least)]
    if limits.preferred is not None and few:
        return drawn[0]
    # For one number of elements, these have one column each, of whatever remainder the number is.
    if max_dims > 1 and max(1, least) <= limits.largest_factor and limits.fewest < limits.elements:
        drawn.append(_many_rows(limits, max(1, least), max_dims))
    return st.one_of(*([st.sampled_from(listed)] if listed else []), *drawn)


@st.composite
def _long_rows(draw: st.DrawFn, limits: Limits, leading: Sequence[tuple[int, ...]], least: int) -> tuple[int, ...]:
    rows = draw(st.sampled_from(leading))
    columns = limits.over(math.prod(rows), least=least)
    return (*rows, draw(any_size(columns, (*_COLUMNS, *_LONG))))


@st.composite
def _many_rows(draw: st.DrawFn, limits: Limits, least: int, max_dims: int) -> tuple[int, ...]:
    """Rows of up to 64 columns; of more if there would be too many rows."""
    most = max(_MOST_ROWS, limits.elements // 16) if limits.fewest else _MANY_ROWS
    shortest = min(max(least, -(-limits.fewest // most)), limits.largest_factor)
    columns = draw(any_size(Limits(max(shortest, min(64, limits.largest_factor)), shortest)))
    between = [n for n in (1, 2, 3) if n == 1 or (max_dims > 2 and n * columns <= limits.largest_factor)]
    more = draw(st.sampled_from(between))
    count = limits.over(more * columns)
    rows = draw(any_size(Limits(max(count.fewest, min(count.elements, most // more)), count.fewest)))
    return (rows, columns) if more == 1 else draw(st.sampled_from(((rows, more, columns), (more, rows, columns))))


def row_tensors(
    shape: st.SearchStrategy[tuple[int, ...]] | tuple[int, ...],
    *,
    dtypes: Sequence[torch.dtype] = DTYPES,
    layouts: Sequence[Layout] = ROW_LAYOUTS,
    fills: Sequence[Fill] = ROW_FILLS,
) -> st.SearchStrategy[TensorCase]:
    """Tensors of the given shape(s), in every layout that rows can have."""
    return tensors(shape, dtypes=dtypes, layouts=layouts, fills=fills)


def rows_alike(
    count: int, limits: Limits, *, fills: Sequence[Fill] = ROW_FILLS, dtypes: Sequence[torch.dtype] = DTYPES
) -> st.SearchStrategy[tuple[TensorCase, ...]]:
    """``count`` tensors of one shape and dtype, each with its own layout and values."""
    return tensors_alike(count, row_shapes(limits), dtypes=dtypes, layouts=ROW_LAYOUTS, fills=fills)


def row_calls(count: int, *, dtypes: Sequence[torch.dtype] = DTYPES) -> Strategy:
    """Calls with ``count`` tensors of one shape and dtype, one of ``dtypes``."""

    def calls(limits: Limits) -> st.SearchStrategy[Call]:
        return calls_of(rows_alike(count, limits, dtypes=dtypes))

    return calls


#: More than a block's threads hold in registers: in pieces, and for rows without whole pieces.
LONG_ROWS = (40_000, 20_001)


def row_edges(
    count: int, *, columns: Sequence[int] = (1, 33, 256, 1024, 1025), dtypes: Sequence[torch.dtype] = DTYPES
) -> tuple[Call, ...]:
    """Calls with ``count`` tensors that reach each kernel of each of the ``dtypes``.

    Args:
        count: the number of tensors, all of one shape, dtype and layout.
        columns: lengths of rows on both sides of the limits at which the port changes kernels. Each call has three
            contiguous rows.
    """
    places: tuple[tuple[tuple[int, ...], Layout], ...] = (
        *(((3, n), "contiguous") for n in columns),
        *(((1, n), "contiguous") for n in LONG_ROWS),
        ((5,), "contiguous"),
        ((2, 3, 8), "contiguous"),
        ((3, 8), "padded"),
        ((3, 9), "offset"),
        ((3, 4), "sliced"),
        ((3, 4), "transposed"),
        ((3, 8), "expanded"),
        ((2, 3, 8), "transposed"),
        ((2, 3, 8), "padded"),
    )
    ordinary = [TensorCase(shape, dtype, layout) for dtype in DTYPES for shape, layout in places]
    ordinary += [
        TensorCase((2, 3, 8), layout="outermost", dim=1),
        TensorCase((2, 3, 8), layout="innermost", dim=1),
        TensorCase((2, 3, 8), layout="narrowed", dim=1),
        TensorCase((2, 1, 3, 1, 2, 1, 1, 2, 1, 8), layout="narrowed", dim=2),
    ]
    return tuple(
        Call((first, *(replace(first, fill="normal", seed=seed) for seed in range(1, count))))
        for first in (*ordinary, *row_specials())
        if first.dtype in dtypes
    )


def _plain_call(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    return function(*tensors)


def row_specials() -> tuple[TensorCase, ...]:
    """Rows longer than any team of threads holds, with a number that is not finite in the first column, in the middle,
    and in the last column, which is in the tail."""
    seeds = enumerate((torch.float32, torch.float16, torch.bfloat16))
    return tuple(
        TensorCase(shape, dtype, fill="lone", seed=last + seed)
        for seed, dtype in seeds
        for shape, last in (((3, 4097), 0), ((1, 70_001), 2))
    )


def row_nan(eager: Callable[..., Tensor], *, call: Callable[..., Tensor] = _plain_call) -> Property:
    """A nan has the same effect on result and gradient of its row as in ``eager``, and none on other rows.

    Arguments as for :func:`row_long`.
    """

    def check(function: Callable[..., Any], device: str) -> None:
        for columns, dtype in itertools.product((4097, 70_001), (torch.float32, torch.float16, torch.bfloat16)):
            x = torch.randn(4, columns, generator=torch.Generator().manual_seed(5)).to(device, dtype)
            clean = _forward_and_backward(function, call, x)
            x[0, 0] = x[2, columns // 2] = x[3, -1] = math.nan
            got, want = (_forward_and_backward(f, call, x) for f in (function, eager))
            for name, ours, theirs, before in zip(("result", "gradient"), got, want, clean, strict=True):
                where = f"{name} in {dtype} of {columns} columns"
                assert torch.equal(ours.isnan(), theirs.isnan()), f"{where}: nan is elsewhere than in torch's"
                assert torch.equal(ours[1], before[1]), f"{where}: a nan in other rows changes a row"

    return Property("nan", check, "a row's last column is in a team's remainder", implementations=("port",))


def row_smooth(count: int, dtype: torch.dtype = torch.float64) -> tuple[Call, ...]:
    """Small calls in ``dtype``: a row, a matrix, and three dimensions. (The last one is also compiled and grown.)"""
    return tuple(
        Call(tuple(TensorCase(shape, dtype, seed=10 + seed) for seed in range(count)))
        for shape in ((3,), (1, 1, 2), (2, 4))
    )


#: Lengths at which a port may choose another kernel, in whole 16-byte vectors and not; and on GPUs, whose blocks share
#: longer rows.
_LENGTHS = tuple(n + odd for n in (96, 1000, 4000, 16_000) for odd in (0, 1))
#: The last ones: a kernel that has processed long rows gets shorter ones, and long ones again.
_LENGTHS_OF_GPUS = (*(n + odd for n in (60_000, 130_000, 250_000, 500_000) for odd in (0, 1)), 50_000, 130_000)


def row_long(
    count: int,
    eager: Callable[..., Tensor],
    *,
    multiple: float,
    call: Callable[..., Tensor] = _plain_call,
    name: str = "long row",
) -> Property:
    """Rows of up to a million columns, forward and backward, against ``eager`` in float64.

    Args:
        count: of tensors.
        eager: PyTorch's own op.
        multiple: the accepted error, in unit round-offs of the dtype, relative to the number's size and the mean size
            of all numbers, that is, of the terms of a row's sum.
        call: calls it, or the implementation's public function, with the tensors: ``call(function, *tensors)``.
        name: of the property.
    """

    def check(function: Callable[..., Any], device: str) -> None:
        generator = torch.Generator().manual_seed(3)
        lengths = (*_LENGTHS, *(_LENGTHS_OF_GPUS if device == "cuda" else ()), LONGEST)
        for columns, dtype in itertools.product(lengths, (torch.float32, torch.float16, torch.bfloat16)):
            rows = 1 if columns == LONGEST else 2
            tensors = [torch.randn(rows, columns, generator=generator).to(device, dtype) for _ in range(count)]
            got = _forward_and_backward(function, call, *tensors)
            want = _forward_and_backward(eager, call, *(x.double() for x in tensors))
            names = ("result", *(f"gradient {i}" for i in range(count)))
            for result, ours, exact in zip(names, got, want, strict=True):
                # Rounding a number below the smallest normal one costs as much as for that one.
                size = exact.abs() + exact.abs().mean() + torch.finfo(dtype).smallest_normal
                units = float(((ours.double() - exact).abs() / size).max()) / (torch.finfo(dtype).eps / 2)
                assert units <= multiple, (
                    f"{result} in {dtype} of {columns} columns: {units:.3g} unit round-offs, {multiple:g} are allowed"
                )

    return Property(name, check, "a sum of a million terms loses its last bits", implementations=("port",))


def _forward_and_backward(
    function: Callable[..., Tensor], call: Callable[..., Tensor], *tensors: Tensor
) -> list[Tensor]:
    """The result and the gradients, for an upstream gradient of multiples of 1/8: exact in every dtype."""
    inputs = [x.detach().requires_grad_() for x in tensors]
    result = call(function, *inputs)
    outer = torch.randint(-16, 17, result.shape, generator=torch.Generator().manual_seed(4)) / 8
    return [result.detach(), *torch.autograd.grad(result, inputs, outer.to(result))]


def row_large_backward(
    count: int, eager: Callable[..., Tensor], *, call: Callable[..., Tensor] = _plain_call
) -> Property:
    """More than 2³¹ elements (float16): both ends of the gradients against those of ``eager`` in float64.

    Arguments as for :func:`row_long`.
    """

    def check(function: Callable[..., Any], device: str) -> None:
        columns, count_of_rows = 4096, 2**19 + 3
        large_backward(
            lambda *x: call(function, *x),
            lambda *x: call(eager, *x),
            shapes=[(count_of_rows, columns)] * count,
            end=2,
            device=device,
        )

    return large(check, gpu_memory=large_memory(count, backward=True), name="large backward")


def row_large(count: int, eager: Callable[..., Tensor], *, call: Callable[..., Tensor] = _plain_call) -> Property:
    """More than 2³¹ elements (float16): both ends of the result against ``eager`` on the ends of the inputs.

    Arguments as for :func:`row_long`.
    """

    def check(function: Callable[..., Any], device: str) -> None:
        columns, count_of_rows = 4096, 2**19 + 3
        inputs = [torch.zeros(count_of_rows, columns, dtype=torch.float16, device=device) for _ in range(count)]
        ends = (slice(0, 2), slice(count_of_rows - 2, count_of_rows))
        for x in inputs:
            for end in ends:
                x[end] = torch.randn(2, columns, device=device)
        result = call(function, *inputs)
        for end in ends:
            expected = call(eager, *(x[end].double() for x in inputs))
            torch.testing.assert_close(result[end].double(), expected, rtol=2e-3, atol=1e-6)

    return large(check, gpu_memory=large_memory(count))
