"""Calls that the spec never draws: of dtypes and memory layouts, of tensors of which one has another dtype or shape,
of one tensor for two arguments, and of another number or flag than all others have.

An op may refuse them. If it accepts them, it must be right: callers know what an op accepts, not what its spec draws.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from trifold.findings import KernelFault
from trifold.spec import DTYPES, AliasCase, Call, IndexCase, TensorCase
from trifold.spec.call import Path
from trifold.spec.case import AnyCase, Layout
from trifold.verification.calls import exchanged, has_alias
from trifold.verification.cell import Cell
from trifold.verification.checks.dependence import MANY
from trifold.verification.checks.differentiation import in_dtype
from trifold.verification.outcomes import MAY_REFUSE, CheckFailed
from trifold.verification.tolerance import same_numbers

_SMALL = 4096  # elements
_OTHER_LAYOUTS: tuple[Layout, ...] = ("transposed", "sliced", "expanded", "offset")
_CONTIGUOUS: frozenset[Layout] = frozenset({"contiguous", "offset"})


@dataclass(frozen=True)
class Variation:
    """A call that the spec does not draw.

    Attributes:
        name: in what it differs from the spec's.
        plain: of another layout: the call with the same numbers, contiguous.
    """

    name: str
    call: Call
    plain: Call | None = None


class _CompactTensor(TensorCase):
    """The numbers of a tensor, contiguous."""

    def make(self, device: str = "cpu", *, room: int = 0) -> Tensor:
        return super().make(device, room=room).contiguous()

    def code_on(self, device: str = "cpu", *, room: int = 0) -> str:
        return f"{TensorCase(**_fields_of(self)).code_on(device, room=room)}.contiguous()"


class _CompactIndices(IndexCase):
    """Likewise."""

    def make(self, device: str = "cpu") -> Tensor:
        return super().make(device).contiguous()

    def code_on(self, device: str = "cpu") -> str:
        return f"{IndexCase(**_fields_of(self)).code_on(device)}.contiguous()"


def _compact(case: AnyCase) -> AnyCase:
    return (_CompactIndices if isinstance(case, IndexCase) else _CompactTensor)(**_fields_of(case))


def _fields_of(case: AnyCase) -> dict[str, Any]:
    return {each.name: getattr(case, each.name) for each in fields(case)}


def undrawn_calls(cell: Cell) -> Iterator[Variation]:
    """Variations of the calls of the values check: each has a dtype, a layout or a shape that none of them has."""
    calls = [call for call in cell.calls if 0 < call.elements <= _SMALL]
    floating = [call for call in calls if any(case.dtype.is_floating_point for _, case in call.floating())]
    drawn = {case.dtype for call in cell.calls for _, case in call.floating()}
    for dtype in DTYPES if floating else ():
        if dtype not in drawn:
            name = f"{str(dtype).removeprefix('torch.')}, which no call of the spec has"
            yield Variation(name, in_dtype(floating[0], dtype))
    yield from _other_indices(cell, calls)
    for path in dict.fromkeys(path for call in calls for path, _ in call.cases()):
        if any(path in cell.written_paths(call) for call in calls):
            continue
        at_path = [(call, case) for call in calls for other, case in call.cases() if other == path and _varies(case)]
        layouts = {case.layout for _, case in at_path}
        if not layouts or not layouts <= _CONTIGUOUS:
            continue
        call, case = max(at_path, key=lambda one: len(one[1].shape))
        for layout in [other for other in _OTHER_LAYOUTS if other not in layouts]:
            other = replace(case, layout=layout, offset=1, dim=len(case.shape) - 1)
            name = f"{cell.name(path)} {layout}, where it is contiguous in each call of the spec"
            yield _in_other_layout(name, call, case, other)
    yield from _other_orders(cell, calls)
    without_aliases = [call for call in floating if not has_alias(call)]
    yield from _unlike_the_first(cell, without_aliases)
    if len(without_aliases) == len(floating):
        yield from _passed_twice(cell, floating)
    yield from _other_options(cell, calls)


def _other_indices(cell: Cell, calls: Sequence[Call]) -> Iterator[Variation]:
    """A call with indices in another dtype of integers, where they have one dtype in each call of the spec: their bytes
    may be read as those of the usual one."""
    found: dict[Path, list[tuple[Call, IndexCase]]] = {}
    for call in calls:
        for path, case in call.cases():
            if isinstance(case, IndexCase) and math.prod(case.shape) > 1:
                found.setdefault(path, []).append((call, case))
    for path, pairs in found.items():
        dtypes = {case.dtype for _, case in pairs}
        call, case = pairs[0]
        if len(dtypes) == 1 and path not in cell.written_paths(call):
            other = torch.int32 if case.dtype == torch.int64 else torch.int64
            usual, words = (str(dtype).removeprefix("torch.") for dtype in (case.dtype, other))
            name = f"{cell.name(path)} in {words}, where they are {usual} in each call of the spec"
            yield Variation(name, call.with_cases(functools.partial(exchanged, case, replace(case, dtype=other))))


def _in_other_layout(name: str, call: Call, case: AnyCase, other: AnyCase) -> Variation:
    """``call`` with ``other``, of another layout, in place of ``case``."""
    varied, plain = (call.with_cases(functools.partial(exchanged, case, to)) for to in (other, _compact(other)))
    return Variation(name, varied, plain)


def _other_orders(cell: Cell, calls: Sequence[Call]) -> Iterator[Variation]:
    """A tensor of three dimensions or more, of the most that its argument has, in each order in memory in which one
    dimension is outermost or innermost, where no call of the spec has this order: an op that works on few dimensions
    merges others, which not every order allows."""
    found: dict[Path, list[tuple[Call, AnyCase]]] = {}
    for call in calls:
        for path, case in call.cases():
            if _varies(case) and path not in cell.written_paths(call):
                found.setdefault(path, []).append((call, case))
    for path, pairs in found.items():
        call, case = max(pairs, key=lambda one: (sum(size > 1 for size in one[1].shape), -one[0].elements))
        dims = len(case.shape)
        drawn = {(one.layout, one.dim) for _, one in pairs if len(one.shape) == dims}
        orders: list[tuple[Layout, range]] = [("outermost", range(1, dims)), ("innermost", range(dims - 1))]
        for layout, dim in ((layout, dim) for layout, places in orders if dims > 2 for dim in places):
            if (layout, dim) not in drawn:
                other = replace(case, layout=layout, dim=dim)
                name = f"{cell.name(path)} with dimension {dim} {layout} in memory, as in no call of the spec"
                yield _in_other_layout(name, call, case, other)


def _unlike_the_first(cell: Cell, calls: Sequence[Call]) -> Iterator[Variation]:
    """Calls in which one tensor has another dtype than the first, or one element in its first dimension, where the two
    are alike in each call of the spec: the reference may promote or broadcast it."""
    pairs: dict[Path, list[tuple[Call, TensorCase, TensorCase]]] = {}
    for call in calls:
        (_, first), *others = call.floating()
        for path, case in others:
            pairs.setdefault(path, []).append((call, first, case))
    for path, found in pairs.items():
        call, first, case = min(found, key=lambda one: (one[2].shape[:1] < (2,), one[0].elements))
        exchange = functools.partial(exchanged, case)
        if path in cell.written_paths(call) or case is first:
            continue
        alike = f"where it is that of {cell.name(next(call.floating())[0])} in each call of the spec"
        if all(one.dtype == other.dtype for _, one, other in found) and case.dtype.is_floating_point:
            dtype = torch.float32 if case.dtype == torch.float64 else torch.float64
            name = f"{cell.name(path)} in {str(dtype).removeprefix('torch.')}, {alike}"
            yield Variation(name, call.with_cases(functools.partial(exchange, replace(case, dtype=dtype))))
        if all(one.shape == other.shape for _, one, other in found) and case.shape[:1] > (1,):
            shape = (1, *case.shape[1:])
            other = replace(case, shape=shape, layout="contiguous", dim=0)
            name = f"{cell.name(path)} of shape {shape}, {alike}"
            yield Variation(name, call.with_cases(functools.partial(exchange, other)))


def _passed_twice(cell: Cell, calls: Sequence[Call]) -> Iterator[Variation]:
    """A call for each two arguments that may be one tensor, where no call of the spec passes one tensor twice."""
    found: set[tuple[int, int]] = set()
    for call in calls:
        written = cell.written_paths(call)
        cases = enumerate(call.args)
        tensors = [(i, case) for i, case in cases if isinstance(case, TensorCase) and (i,) not in written]
        for (i, first), (j, second) in itertools.combinations(tensors, 2):
            same = (first.shape, first.dtype) == (second.shape, second.dtype)
            if same and (i, j) not in found:
                found.add((i, j))
                args = (*call.args[:j], AliasCase(i), *call.args[j + 1 :])
                yield Variation(f"{cell.name((i,))} also as {cell.name((j,))}", replace(call, args=args))


def _other_options(cell: Cell, calls: Sequence[Call]) -> Iterator[Variation]:
    """Calls with another value of an argument that is one number or flag in each of many calls. Not where the reference
    then draws random numbers, as with another probability of dropout than 0: the op may draw others."""
    if len(cell.calls) < MANY:
        return
    given = [_values_of(call) for call in cell.calls]
    for place, first in {place: value for values in reversed(given) for place, value in values.items()}.items():
        if not isinstance(first, bool | int | float) or any(values.get(place, first) != first for values in given):
            continue
        for call in [call for call in calls if place in _values_of(call)][:1]:
            for other in _other_values(first):
                args = [other if place == position else value for position, value in enumerate(call.args)]
                kwargs = {name: other if place == name else value for name, value in call.kwargs.items()}
                name = f"{cell.name((place,))} = {other}, where it is {first} in each call of the spec"
                changed = replace(call, args=tuple(args), kwargs=kwargs)
                if not _is_random(cell, changed):
                    yield Variation(name, changed)


def _is_random(cell: Cell, call: Call) -> bool:
    """Whether the reference has other results for another seed."""
    try:
        first, second = (cell.refer(replace(call, seed=call.seed + more)) for more in (0, 1))
    except CheckFailed:  # the reference refuses the call
        return False
    return not all(map(same_numbers, first, second))


def _values_of(call: Call) -> dict[int | str, Any]:
    return dict([*enumerate(call.args), *call.kwargs.items()])


def _other_values(value: bool | float) -> tuple[bool | float, ...]:
    """Of a number below 1 that is positive, some that are so too; of a small one, such as an eps, one that shows."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1,)
    return (0.75 * value, 0.25) if abs(value) < _SHOWS else (0.75 * value,)


_SHOWS = 0.01


def _varies(case: AnyCase) -> bool:
    """Whether the case has other layouts."""
    if isinstance(case, IndexCase) and case.order != "any":
        return False
    return isinstance(case, TensorCase | IndexCase) and math.prod(case.shape) > 1 and max(case.shape) > 1


def right_or_refused(cell: Cell, compare: Callable[[Cell, Call], object]) -> None:
    """Raises ``CheckFailed`` if the op accepts such a call and its results are wrong."""
    for variation in undrawn_calls(cell):
        name, call = variation.name, variation.call
        try:
            cell.refer(call)
        except CheckFailed:  # the reference refuses it
            continue
        cell.begin(call, name)
        try:
            cell.invoke(call)
        except KernelFault:
            pass  # not refused: the case below fails
        except MAY_REFUSE:
            continue
        try:
            cell.run_case(lambda call: compare(cell, call), call, name)
        except CheckFailed as error:
            if variation.plain is not None:
                _require_right_numbers(cell, compare, name, variation.plain)
            raise CheckFailed(
                f"{error.message}\nthe op takes {name}: refuse it, or be right and draw it", call, name, error.findings
            ) from error


def _require_right_numbers(cell: Cell, compare: Callable[[Cell, Call], object], name: str, plain: Call) -> None:
    """Raises ``CheckFailed`` if the results are also wrong for the same numbers in the usual layout."""
    try:
        cell.run_case(lambda call: compare(cell, call), plain, f"the numbers of {name.partition(',')[0]}, contiguous")
    except CheckFailed as error:
        raise CheckFailed(
            f"{error.message}\nof numbers that no call of the spec has; if sums of such numbers cancel, state what the "
            "error is relative to: Spec(scale=...)",
            error.call,
            error.sample,
            error.findings,
        ) from error
