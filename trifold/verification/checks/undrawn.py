"""Calls that the spec never draws: of dtypes and memory layouts, of tensors of which one has another dtype or shape,
of one tensor for two arguments, and of another number or flag than all others have.

An op may refuse them. If it accepts them, it must be right: callers know what an op accepts, not what its spec draws.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
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
from trifold.verification.remote_errors import RaisedByOp
from trifold.verification.tolerance import is_approximate, same_numbers

_SMALL = 4096  # elements
_OTHER_LAYOUTS: tuple[Layout, ...] = ("transposed", "sliced", "expanded", "offset")
_CONTIGUOUS: frozenset[Layout] = frozenset({"contiguous", "offset"})


@dataclass(frozen=True)
class Variation:
    """A call that the spec does not draw.

    Attributes:
        name: in what it differs from the spec's.
        plain: of another layout: the call with the same numbers, contiguous.
        roughly: whether to compare within a hundredth only, since the spec's bound may not hold for it.
    """

    name: str
    call: Call
    plain: Call | None = None
    roughly: bool = False


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
    apart = [call for call in floating if not has_alias(call)]
    yield from _unlike_the_first(cell, apart)
    if len(apart) == len(floating):
        yield from _passed_twice(cell, floating)
    without_aliases = [call for call in calls if not has_alias(call)]
    if not cell.spec.random:
        yield from _other_ranks(cell, without_aliases)
        yield from _longer_lists(cell, without_aliases)
    yield from other_flags(cell, without_aliases)
    yield from _other_options(cell, calls)
    yield from _other_numbers(cell, calls)


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
            yield _with_case(name, call, case, replace(case, dtype=other))


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


def _cases_by_path(cell: Cell, calls: Sequence[Call]) -> dict[Path, list[tuple[Call, TensorCase]]]:
    """The tensors with random numbers, of several elements, that no kernel writes into, by their places."""
    found: dict[Path, list[tuple[Call, TensorCase]]] = {}
    for call in calls:
        for path, case in call.cases():
            if isinstance(case, TensorCase) and math.prod(case.shape) > 1 and path not in cell.written_paths(call):
                found.setdefault(path, []).append((call, case))
    return found


def _with_case(name: str, call: Call, case: AnyCase, other: AnyCase) -> Variation:
    return Variation(name, call.with_cases(functools.partial(exchanged, case, other)))


def _other_ranks(cell: Cell, calls: Sequence[Call]) -> Iterator[Variation]:
    """A tensor that has as many dimensions in each call of the spec with one more, in front: an op that takes its sizes
    by number would leave most of it out."""
    for path, pairs in _cases_by_path(cell, calls).items():
        if len({len(case.shape) for _, case in pairs}) == 1:
            call, case = min(pairs, key=lambda one: one[0].elements)
            other = replace(case, shape=(2, *case.shape), layout="contiguous", dim=0)
            dims = len(case.shape)
            name = f"{cell.name(path)} of {dims + 1} dimensions, where it has {dims} in each call of the spec"
            yield replace(_with_case(name, call, case, other), roughly=True)


def other_flags(cell: Cell, calls: Sequence[Call]) -> Iterator[Variation]:
    """Masks and whole numbers in another dtype, and of one element in their first dimension, where each of the calls
    has one dtype and more elements: their bytes may be read as the usual ones, or beyond the last."""
    for path, pairs in _cases_by_path(cell, calls).items():
        call, case = min(pairs, key=lambda one: (one[1].shape[:1] < (2,), one[0].elements))
        dtypes = {one.dtype for _, one in pairs}
        if len(dtypes) > 1 or case.dtype.is_floating_point or case.dtype.is_complex:
            continue
        other = torch.int32 if case.dtype == torch.int64 else torch.int64
        usual, words = (str(dtype).removeprefix("torch.") for dtype in (case.dtype, other))
        name = f"{cell.name(path)} in {words}, where it is {usual} in each call of the spec"
        yield _with_case(name, call, case, replace(case, dtype=other))
        if all(one.shape[:1] > (1,) for _, one in pairs):
            shape = (1, *case.shape[1:])
            name = f"{cell.name(path)} of shape {shape}, where its first dimension is longer in each call of the spec"
            yield _with_case(name, call, case, replace(case, shape=shape, layout="contiguous", dim=0))


_MANY_TENSORS = 200


def _longer_lists(cell: Cell, calls: Sequence[Call]) -> Iterator[Variation]:
    """A list of more tensors than an op has room for, if it copies their addresses into an array."""
    for place in dict.fromkeys(place for call in calls for place, value in values_of(call).items() if _is_list(value)):
        found = [call for call in calls if _is_list(values_of(call).get(place))]
        call = min(found, key=lambda one: (one.dtype.itemsize < 4, one.elements))
        tensors = values_of(call)[place]
        times = -(-_MANY_TENSORS // len(tensors))
        if call.elements * times <= _SMALL * 16 and not any(path[0] == place for path in cell.written_paths(call)):
            name = f"{cell.name((place,))} of {times * len(tensors)} tensors"
            longer = with_value(call, place, type(tensors)(times * list(tensors)))
            yield Variation(name, longer, roughly=True)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(one, TensorCase) for one in value)


def _other_numbers(cell: Cell, calls: Sequence[Call]) -> Iterator[Variation]:
    """Of an argument that is a number, one that float32 does not have, in a call in float64; of a whole one, -1 and one
    more than the largest of the spec."""
    given = [(call, place, value) for call in calls for place, value in values_of(call).items()]
    for place in dict.fromkeys(place for _, place, value in given if type(value) in (int, float)):
        at_place = [(call, value) for call, other, value in given if other == place and type(value) in (int, float)]
        if all(isinstance(value, int) for _, value in at_place):
            call, _ = at_place[0]
            drawn = {value for _, value in at_place}
            tried: list[float] = [*beyond(drawn)]
        else:
            exact = [one for one in at_place if one[0].dtype == torch.float64 and one[1] not in (0.0, math.inf)]
            call, value = exact[0] if exact else at_place[0]
            tried = [value * (1 + 2.0**-30)] if exact else []
        for number in tried:
            changed = with_value(call, place, number)
            if takes_the_same_each_time(cell, changed):
                yield Variation(f"{cell.name((place,))} = {number}, which no call of the spec has", changed)


def beyond(known: Collection[int]) -> list[int]:
    """Numbers that may be out of range: -1, and one more than the largest of those that are known to be in it."""
    return [each for each in (-1, max(known) + 1) if each not in known]


def with_value(call: Call, place: int | str, value: Any) -> Call:
    """The call with another value of the argument at a place."""
    args = [value if place == position else own for position, own in enumerate(call.args)]
    kwargs = {name: value if place == name else own for name, own in call.kwargs.items()}
    return replace(call, args=tuple(args), kwargs=kwargs)


def with_other_options(call: Call) -> Iterator[Call]:
    """The call with another value of each argument that is a number or a flag, one at a time."""
    for place, value in values_of(call).items():
        if isinstance(value, bool | int | float):
            yield with_value(call, place, _other_values(value)[0])


def _other_options(cell: Cell, calls: Sequence[Call]) -> Iterator[Variation]:
    """Calls with another value of an argument that is one number or flag in each of many calls. Not where the reference
    then draws random numbers, as with another probability of dropout than 0: the op may draw others."""
    if len(cell.calls) < MANY:
        return
    given = [values_of(call) for call in cell.calls]
    for place, first in {place: value for values in reversed(given) for place, value in values.items()}.items():
        if not isinstance(first, bool | int | float) or any(values.get(place, first) != first for values in given):
            continue
        for call in [call for call in calls if place in values_of(call)][:1]:
            for other in _other_values(first):
                name = f"{cell.name((place,))} = {other}, where it is {first} in each call of the spec"
                changed = with_value(call, place, other)
                if takes_the_same_each_time(cell, changed):
                    yield Variation(name, changed)


def takes_the_same_each_time(cell: Cell, call: Call) -> bool:
    """Whether the reference takes the call, and has the same results for another seed."""
    try:
        first, second = (cell.refer(replace(call, seed=call.seed + more)) for more in (0, 1))
    except CheckFailed:
        return False
    return all(map(same_numbers, first, second))


def values_of(call: Call) -> dict[int | str, Any]:
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
        judge = _compare_roughly if variation.roughly else compare
        try:
            cell.run_case(functools.partial(judge, cell), call, name)
        except CheckFailed as error:
            if _is_of_spec(error):
                continue
            if variation.plain is not None:
                _require_right_numbers(cell, compare, name, variation.plain)
            raise CheckFailed(
                f"{error.message}\nthe op takes {name}: refuse it, or be right and draw it", call, name, error.findings
            ) from error


_ROUGHLY = 0.01  # of the largest number


def _compare_roughly(cell: Cell, call: Call) -> None:
    """Raises ``CheckFailed`` if a result has another shape than the reference's, or numbers that are far off, and
    further than the reference's own in the op's dtype."""
    native, exact = cell.refer(call), cell.refer(call, exact=True)
    for result, own, want in zip(cell.invoke(call), native, exact, strict=True):
        if result.shape != own.shape:
            shapes = f"the result's shape is {tuple(result.shape)}, the reference's is {tuple(own.shape)}"
            raise CheckFailed(shapes, call)
        if is_approximate(own) and want.numel() > 0:
            known = want.isfinite() & own.isfinite() & result.isfinite()
            off, own_error, size = (torch.where(known, x.abs(), 0) for x in (result - want, own - want, want))
            wrong = int((off > _ROUGHLY * (1 + size.max()) + 4 * own_error.max()).sum())
            if wrong:
                raise CheckFailed(f"{wrong} of {want.numel()} elements are far from the reference's", call)


def _is_of_spec(error: CheckFailed) -> bool:
    """Whether a function of the spec raised, such as that of the scale: it need not take what the spec does not
    draw."""
    cause = error.__cause__
    return cause is not None and not isinstance(cause, CheckFailed | KernelFault | RaisedByOp)


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
