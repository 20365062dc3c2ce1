"""Hypothesis strategies for calls. What comes first in a list is what a failure shrinks to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from hypothesis import strategies as st

from trifold.spec.case import DTYPES, FILLS, LAYOUTS, Call, Fill, Layout, TensorCase

BLOCK = 256  # threads in a block of an elementwise launch
FEW = 1 << 16  # elements; the port maps more of them in vectors, in any dtype: trifold::few_elements


@dataclass(frozen=True)
class Limits:
    """What a cell can take: a simulator runs about a million CUDA threads a second.

    Attributes:
        elements: in a tensor, at most.
    """

    elements: int = 100_000


Strategy = Callable[[Limits], st.SearchStrategy[Call]]


def sizes(limits: Limits) -> tuple[int, ...]:
    """Numbers of elements that find mistakes: none, one, around 16-byte vectors and blocks, large."""
    vector = [n + d for n in (2, 4, 8, 16, 32) for d in (-1, 0, 1)]
    block = [n + d for n in (BLOCK, 2 * BLOCK, 4 * BLOCK, 8 * BLOCK) for d in (-1, 0, 1)]
    large = [10_007, 65_536, 99_991]
    return tuple(n for n in dict.fromkeys([1, 0, *vector, *block, *large]) if n <= limits.elements)


def shapes(limits: Limits, *, max_dims: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of 0 to ``max_dims`` dimensions with at most ``limits.elements`` elements."""
    line = st.sampled_from(sizes(limits)).map(lambda n: (n,))
    small, any_side = (2, 3, 4, 5, 7, 1, 0), (2, 3, 5, 7, 1, 0, 17, 33)
    sides = st.integers(0, max_dims).flatmap(
        lambda dims: st.tuples(*[st.sampled_from(small if dims > 2 else any_side)] * dims)
    )
    rows = st.tuples(st.sampled_from((2, 3, 1)), st.sampled_from(sizes(Limits(limits.elements // 3)))).map(tuple)
    return st.one_of(line, sides, rows).filter(lambda shape: torch.Size(shape).numel() <= limits.elements)


def tensors(
    shape: st.SearchStrategy[tuple[int, ...]] | tuple[int, ...],
    *,
    dtypes: Sequence[torch.dtype] = DTYPES,
    layouts: Sequence[Layout] = LAYOUTS,
    fills: Sequence[Fill] = FILLS,
) -> st.SearchStrategy[TensorCase]:
    """Tensors of the given shape(s)."""
    return st.builds(
        TensorCase,
        shape=st.just(shape) if isinstance(shape, tuple) else shape,
        dtype=st.sampled_from(list(dtypes)),
        layout=st.sampled_from(list(layouts)),
        fill=st.sampled_from(list(fills)),
        seed=st.integers(0, 2**16),
    )


@st.composite
def tensors_alike(
    draw: st.DrawFn,
    count: int,
    shape: st.SearchStrategy[tuple[int, ...]],
    *,
    layouts: Sequence[Layout] = LAYOUTS,
    fills: Sequence[Fill] = FILLS,
) -> tuple[TensorCase, ...]:
    """``count`` tensors of one shape and dtype, each with its own layout and values."""
    first = draw(tensors(shape, layouts=layouts, fills=fills))
    same = tensors(first.shape, dtypes=[first.dtype], layouts=layouts, fills=fills)
    return (first, *(draw(same) for _ in range(count - 1)))


def alike(count: int, limits: Limits, *, max_dims: int = 4) -> st.SearchStrategy[tuple[TensorCase, ...]]:
    """``count`` tensors of one shape and dtype, of those that :func:`shapes` makes."""
    return tensors_alike(count, shapes(limits, max_dims=max_dims))


def elementwise(count: int) -> Strategy:
    """Calls with ``count`` tensors of one shape and dtype."""

    def calls(limits: Limits) -> st.SearchStrategy[Call]:
        return alike(count, limits).map(Call)

    return calls


def elementwise_edges(count: int) -> tuple[Call, ...]:
    """Calls that reach the plain and the vector kernel of each dtype: the latter with head, tail and neither; and many
    elements of which all, some and none lie on a 16-byte boundary."""
    cases: list[tuple[TensorCase, ...]] = []
    for dtype in DTYPES:
        vector = 16 // dtype.itemsize

        def line(n: int, *layouts: Layout, dtype: torch.dtype = dtype) -> tuple[TensorCase, ...]:
            # Of many elements the places are tested; among as many normal numbers some lie in a function's tails.
            fill: Fill = "exact" if n > FEW else "normal"
            return tuple(TensorCase((n,), dtype, layouts[i % len(layouts)], fill, i) for i in range(count))

        cases += [line(n, "contiguous") for n in (1, 2 * vector, 2 * vector + 1, 3 * vector - 1, BLOCK + 1)]
        cases += [line(n, "contiguous") for n in (FEW + vector, FEW + vector - 1)]
        cases += [line(FEW + 1, "offset"), line(FEW + 1, "contiguous", "offset")]
        cases.append(tuple(TensorCase((3, 5), dtype, "offset", "normal", seed) for seed in range(count)))
        cases.append(tuple(TensorCase((4, 6), dtype, "transposed", "normal", seed) for seed in range(count)))
        if count > 1:
            mixed = [
                TensorCase((4, 6), dtype, "contiguous", "normal", 0),
                TensorCase((4, 6), dtype, "transposed", "normal", 1),
            ]
            cases.append((*mixed, *(replace(mixed[0], seed=s) for s in range(2, count))))
    return tuple(Call(case) for case in dict.fromkeys(cases))
