"""Hypothesis strategies for calls. Failures shrink towards the first entry of a list."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from hypothesis import strategies as st

from trifold.spec.call import Call
from trifold.spec.case import DTYPES, FILLS, LAYOUTS, AliasCase, Layout, TensorCase
from trifold.spec.fills import Fill

BLOCK = 256  # threads in a block of an elementwise launch
MOST_DIMS = 6  # of drawn shapes: more than the four for which a kernel may have places for sizes and strides
FEW = 1 << 16  # elements; the port maps more of them in vectors, in any dtype: trifold::few_elements


@dataclass(frozen=True)
class Limits:
    """How many elements a cell can handle: the simulator runs about a million CUDA threads a second.

    Attributes:
        elements: in a tensor, at most.
        fewest: the least in the largest tensor of a call, if the op has calls of that size; otherwise as many as
            possible.
        preferred: a size of a dimension; :func:`any_size` draws it wherever it is within the limits.
    """

    elements: int = 100_000
    fewest: int = 0
    preferred: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.fewest <= self.elements:
            raise ValueError(f"fewest must be from 0 to elements, {self.elements}, but is {self.fewest}")

    def over(self, factor: int, *, least: int = 0) -> Limits:
        """The limits of a number, at least ``least``, such that ``factor`` times it is within these limits.

        Raises:
            ValueError: there is none; all factors up to ``largest_factor`` have one.
        """
        if not self.allow(factor, least=least):
            raise ValueError(
                f"limits.over({factor}): no multiple of {factor} is from {self.fewest} to {self.elements} elements; "
                f"draw factors up to limits.largest_factor, which is {self.largest_factor} here"
            )
        return Limits(self.elements // factor, max(least, -(-self.fewest // factor)), self.preferred)

    def allow(self, factor: int, *, least: int = 0) -> bool:
        """Whether there is such a number."""
        return max(least, -(-self.fewest // factor)) <= self.elements // factor

    @property
    def largest_factor(self) -> int:
        """All factors up to this one are allowed."""
        return max(1, self.elements - self.fewest + 1 if self.fewest else self.elements)


Strategy = Callable[[Limits], st.SearchStrategy[Call]]


def sizes(limits: Limits) -> tuple[int, ...]:
    """Numbers of elements that find mistakes: none, one, around 16-byte vectors and blocks, large; and the limits."""
    vector = [n + d for n in (2, 4, 8, 16, 32) for d in (-1, 0, 1)]
    block = [n + d for n in (BLOCK, 2 * BLOCK, 4 * BLOCK, 8 * BLOCK) for d in (-1, 0, 1)]
    return within(limits, (1, 0, *vector, *block, 10_007, 65_536, 99_991))


def within(limits: Limits, listed: Sequence[int]) -> tuple[int, ...]:
    """The numbers of the list that the limits allow; if the limits have a ``fewest``, also those next to it."""
    ends = (limits.fewest, limits.fewest + 1, limits.elements) if limits.fewest else ()
    numbers = dict.fromkeys((*listed, *ends))
    return tuple(n for n in numbers if limits.fewest <= n <= limits.elements) or (limits.elements,)


def any_size(limits: Limits, listed: Sequence[int] | None = None) -> st.SearchStrategy[int]:
    """A number within the limits: one of ``listed`` (default: :func:`sizes`), or any one, each power of two as often
    as the others; the preferred one of the limits if they allow it."""
    if limits.preferred is not None and limits.fewest <= limits.preferred <= limits.elements:
        return st.just(limits.preferred)
    chosen = st.sampled_from(sizes(limits) if listed is None else within(limits, listed))
    lowest = max(1, limits.fewest)
    if lowest > limits.elements:
        return chosen
    powers = st.integers(lowest.bit_length() - 1, limits.elements.bit_length() - 1)
    drawn = powers.flatmap(lambda k: st.integers(max(1 << k, lowest), min((2 << k) - 1, limits.elements)))
    return st.one_of(chosen, drawn)


def shapes(limits: Limits, *, max_dims: int = MOST_DIMS) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of 0 to ``max_dims`` dimensions whose number of elements is within the limits."""
    line = any_size(limits).map(lambda n: (n,))
    sides = st.integers(0, max_dims).flatmap(lambda dims: st.tuples(*[st.sampled_from(_sides(dims))] * dims))
    few = sides.filter(lambda shape: math.prod(shape) <= limits.elements)
    kinds = [line, few] if limits.fewest == 0 else [line]
    return st.one_of(*kinds, *([_one_long_side(limits, max_dims)] if max_dims > 1 else []))


def _sides(dims: int) -> tuple[int, ...]:
    """Sides of a tensor of few elements."""
    if dims > 4:
        return (2, 3, 1)
    return (2, 3, 4, 5, 7, 1, 0) if dims > 2 else (2, 3, 5, 7, 1, 0, 17, 33)


@st.composite
def _one_long_side(draw: st.DrawFn, limits: Limits, max_dims: int) -> tuple[int, ...]:
    """Shapes of 2 to ``max_dims`` dimensions, of which one may be long."""
    dims = draw(st.integers(2, max_dims))
    sides: list[int] = []
    for _ in range(dims - 1):
        most = limits.largest_factor // math.prod(sides)
        sides.append(draw(st.sampled_from([n for n in (2, 3, 1, 5, 7, 17, 33) if n <= most])))
    sides.insert(draw(st.integers(0, dims - 1)), draw(any_size(limits.over(math.prod(sides)))))
    return tuple(sides)


def places(shape: tuple[int, ...], layout: Layout) -> st.SearchStrategy[tuple[int, int]]:
    """``offset`` and ``dim`` of a :class:`TensorCase`: of a layout that has one, all residues modulo 16, and all
    dimensions in which it is not contiguous."""
    last = len(shape) - 1
    if layout in ("offset", "sliced", "padded"):
        return st.tuples(st.integers(1, 15), st.just(0))
    if layout == "expanded" and shape:
        return st.tuples(st.just(1), st.integers(0, last))
    if layout == "outermost" and last > 0:
        return st.tuples(st.just(1), st.integers(1, last))
    if layout == "innermost" and last > 0:
        return st.tuples(st.just(1), st.integers(0, last - 1))
    if layout == "narrowed" and shape:
        return st.tuples(st.integers(1, 3), st.integers(0, last))
    return st.just((1, 0))


def tensors(
    shape: st.SearchStrategy[tuple[int, ...]] | tuple[int, ...],
    *,
    dtypes: Sequence[torch.dtype] = DTYPES,
    layouts: Sequence[Layout] = LAYOUTS,
    fills: Sequence[Fill] = FILLS,
) -> st.SearchStrategy[TensorCase]:
    """Tensors of the given shape(s), in all layouts, at all offsets."""
    return _tensors(st.just(shape) if isinstance(shape, tuple) else shape, dtypes, layouts, fills)


@st.composite
def _tensors(
    draw: st.DrawFn,
    shape: st.SearchStrategy[tuple[int, ...]],
    dtypes: Sequence[torch.dtype],
    layouts: Sequence[Layout],
    fills: Sequence[Fill],
) -> TensorCase:
    of_shape, dtype = draw(shape), draw(st.sampled_from(list(dtypes)))
    layout, fill = draw(st.sampled_from(list(layouts))), draw(st.sampled_from(list(fills)))
    offset, dim = draw(places(of_shape, layout))
    return TensorCase(of_shape, dtype, layout, fill, draw(st.integers(0, 2**16)), offset, dim)


@st.composite
def tensors_alike(
    draw: st.DrawFn,
    count: int,
    shape: st.SearchStrategy[tuple[int, ...]],
    *,
    dtypes: Sequence[torch.dtype] = DTYPES,
    layouts: Sequence[Layout] = LAYOUTS,
    fills: Sequence[Fill] = FILLS,
) -> tuple[TensorCase, ...]:
    """``count`` tensors of one shape and dtype, each with its own layout and values."""
    first = draw(tensors(shape, dtypes=dtypes, layouts=layouts, fills=fills))
    same = tensors(first.shape, dtypes=[first.dtype], layouts=layouts, fills=fills)
    return (first, *(draw(same) for _ in range(count - 1)))


def alike(
    count: int,
    limits: Limits,
    *,
    max_dims: int = MOST_DIMS,
    dtypes: Sequence[torch.dtype] = DTYPES,
    fills: Sequence[Fill] = FILLS,
) -> st.SearchStrategy[tuple[TensorCase, ...]]:
    """``count`` tensors of one shape and dtype; the shape is drawn from :func:`shapes`."""
    return tensors_alike(count, shapes(limits, max_dims=max_dims), dtypes=dtypes, fills=fills)


@st.composite
def calls_of(draw: st.DrawFn, tensors_of_call: st.SearchStrategy[tuple[TensorCase, ...]]) -> Call:
    """Calls with only these tensors, of one shape and dtype; with two tensors or more, in one call of four, one tensor
    is the same as another one, or overlaps it."""
    args: list[TensorCase | AliasCase] = [*draw(tensors_of_call)]
    if len(args) > 1 and draw(st.integers(0, 3)) == 3:
        position = draw(st.integers(1, len(args) - 1))
        args[position] = draw(aliases(position))
    return Call(tuple(args))


def aliases(position: int) -> st.SearchStrategy[AliasCase]:
    """Draw an alias, at ``position``, of one of the tensors before it: the same tensor, one that overlaps it, or one
    that starts at the same address with dimensions in another order."""
    of, shifts = st.integers(0, position - 1), st.sampled_from((1, 2, 3, 4, 7, 8, 15, 64))
    return st.one_of(
        st.builds(AliasCase, of=of),
        st.builds(AliasCase, of=of, shift=shifts),
        st.builds(AliasCase, of=of, turned=st.just(True)),
    )


def elementwise(count: int, *, dtypes: Sequence[torch.dtype] = DTYPES, fills: Sequence[Fill] = FILLS) -> Strategy:
    """Calls with ``count`` tensors of one shape and dtype, one of ``dtypes``, with numbers of these ``fills``."""

    def calls(limits: Limits) -> st.SearchStrategy[Call]:
        return calls_of(alike(count, limits, dtypes=dtypes, fills=fills))

    return calls


def _orders(count: int) -> Iterator[tuple[TensorCase, ...]]:
    """Tensors of which one is in another order in memory than the others, or cannot be taken for one of fewer
    dimensions."""
    cube, many = TensorCase((2, 3, 4)), TensorCase((2, 1, 3, 1, 2, 1, 1, 2, 1, 2))
    for place in (
        *(replace(cube, layout="outermost", dim=1), replace(cube, layout="innermost", dim=1)),
        *(replace(cube, layout="narrowed", dim=1), replace(many, layout="outermost", dim=2)),
    ):
        yield (place, *[replace(place, layout="contiguous", dim=0)] * (count - 1))


def elementwise_edges(count: int, *, dtypes: Sequence[torch.dtype] = DTYPES) -> tuple[Call, ...]:
    """Calls that launch the plain and the vector kernel of each of the ``dtypes``: the latter with head, tail and
    neither; and calls with many elements in which all, some and none of the pointers are aligned to 16 bytes."""
    cases: list[tuple[TensorCase | AliasCase, ...]] = []
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
        # Of these sizes the gradients' check expands the upstream gradient in one dimension, each of the two.
        cases += [tuple(TensorCase(shape, dtype, seed=seed) for seed in range(count)) for shape in ((7, 4), (5, 2))]
        if count > 1:
            cases += [
                tuple(TensorCase((37,), dtype, "contiguous", fill, seed) for seed in range(count))
                for fill in ("tiny", "subnormal")
            ]
            # So many that each special number of one operand meets each of the other.
            cases.append(tuple(TensorCase((1511,), dtype, "contiguous", "special", seed) for seed in range(count)))
            mixed = [
                TensorCase((4, 6), dtype, "contiguous", "normal", 0),
                TensorCase((4, 6), dtype, "transposed", "normal", 1),
            ]
            cases.append((*mixed, *(replace(mixed[0], seed=s) for s in range(2, count))))
            # Strides of 0 have no order: it is that of the other operand, if that takes part in choosing the result's.
            expanded = TensorCase((4, 6), dtype, "expanded", "normal", 2)
            cases.append((expanded, *(replace(mixed[1], seed=s) for s in range(1, count))))
            # Both start at one address: an op that compares addresses alone takes them for one tensor.
            cases.append((mixed[0], AliasCase(0, turned=True), *(replace(mixed[0], seed=s) for s in range(2, count))))
    cases += [tuple(replace(case, seed=seed) for seed, case in enumerate(places)) for places in _orders(count)]
    return tuple(call for call in map(Call, dict.fromkeys(cases)) if call.dtype in dtypes)
