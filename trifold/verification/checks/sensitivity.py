"""Whether the cases of the values check, with the spec's tolerance, can show a wrong result at all.

An impostor is a wrong result that is trivial to make. Each must be rejected by some case, at elements where the exact
result is finite: nan and inf reject only an impostor that lacks them.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from trifold.spec import Call
from trifold.spec.call import tensor_at
from trifold.verification.cell import Cell
from trifold.verification.checks.dependence import refer_with, require_arguments, require_options
from trifold.verification.comparison import Expected
from trifold.verification.outcomes import CheckFailed
from trifold.verification.tolerance import computable

# If one of these is the right result in every case, nothing shows that the op computes it.
_CHEAP = ("zeros", "a copy of ", "a constant", "the last call's output")
_LARGE = 2**16  # elements of a call, of which a smaller one shows as much
_BLOCK = 1024  # threads: a kernel that launches one block is right for so many elements

# Results that are almost right.
_ALMOST = ("1.01 times", "one more", "the opposite")

# The name of an impostor, and the impostors that a case offers.
Impostors = Iterator[tuple[str, Tensor]]


def sensitivity(cell: Cell) -> str:
    """Each impostor must be rejected by some case of the values check."""
    if not cell.calls:
        raise CheckFailed("no case passed the values check, so none shows anything")
    if not cell.compared_all:
        raise CheckFailed("the values check stopped at a wrong result, before all its cases: correct that first")
    applied: set[str] = set()
    rejected: set[str] = set()
    stale = _Stale()
    zeros = ZerosBySize()
    for call in sorted(cell.calls, key=lambda call: call.elements > _LARGE):
        if call.elements > _LARGE and applied and applied <= rejected:
            break  # smaller calls reject them all
        cell.cases += 1
        expected = Expected.of(cell, call)
        for number, native in enumerate(expected.native):
            own, finite = computable(native), expected.finite(number)
            place = "" if len(expected.native) == 1 else f" ({cell.name_of_result(call, number, expected.native)})"
            if not bool(finite.any()):
                continue
            none = expected.where_finite(number, torch.zeros_like(own))
            zeros.offer(own[finite], functools.partial(_rejects, expected, number, none))
            for name, impostor in _impostors(cell, call, native, number, stale, place, rejected):
                if name.startswith(_CHEAP):
                    applied.add(name + place)
                other = expected.where_finite(number, impostor)
                if name + place in rejected or torch.equal(computable(other)[finite], own[finite]):
                    continue
                applied.add(name + place)
                if expected.wrong(number, other) is not None:
                    rejected.add(name + place)
            stale.remember(number, own)
    if not any(one.startswith(_ALMOST) for one in applied):
        raise CheckFailed("each case has zeros or nothing finite for its result; add samples that do not")
    passed = sorted(applied - rejected)
    if passed:
        raise CheckFailed(
            f"every case of the values check would accept {' and '.join(passed)}; add samples that do not, or state a "
            "smaller scale or multiple"
        )
    if accepted := zeros.accepted():
        raise CheckFailed(
            f"every case with a result of {accepted} would accept zeros: state a smaller scale for these sizes"
        )
    _require_sizes(cell)
    require_options(cell)
    require_arguments(cell)
    return f"{len(applied)} impostors are rejected within {cell.cases} cases"


def _rejects(expected: Expected, number: int, impostor: Tensor) -> bool:
    return expected.wrong(number, impostor) is not None


class ZerosBySize:
    """Zeros instead of results (or gradients), for each power of two of elements: a tolerance may be too wide at some
    sizes."""

    def __init__(self) -> None:
        self._offered: Counter[int] = Counter()
        self._rejected: set[int] = set()

    def offer(self, right: Tensor, rejects: Callable[[], bool]) -> None:
        """Whether all elements of ``right`` are finite, and some are well above the residue of summands that cancel."""
        size = right.numel().bit_length()
        if right.numel() < _ENOUGH or size in self._rejected:
            return
        above = right if right.dtype == torch.bool else right.abs() >= _WELL_ABOVE_0
        if not bool(above.any()):
            return
        self._offered[size] += 1
        if rejects():
            self._rejected.add(size)

    def accepted(self) -> str:
        """The sizes, in words, at which several cases existed and none rejects zeros."""
        sizes = [size for size, cases in sorted(self._offered.items()) if cases >= 3 and size not in self._rejected]
        return " or ".join(f"{2 ** (size - 1)} to {2**size - 1} elements" for size in sizes)


_ENOUGH = 8  # elements of a result
_WELL_ABOVE_0 = 0.01


def _require_sizes(cell: Cell) -> None:
    """Some case has more elements than a block has threads."""
    largest = 0
    for call in cell.calls:
        made = call.arguments("cpu")
        tensors = [tensor_at(made, path) for path, _ in call.cases()]
        largest = max(largest, *(tensor.numel() for tensor in (*tensors, *cell.refer(call))))
        if largest > _BLOCK:
            return
    raise CheckFailed(
        f"no case of the values check has more than {largest} elements: a kernel that launches one block would pass; "
        f"draw tensors of more than {_BLOCK} elements"
    )


class _Stale:
    """The results of earlier cases."""

    def __init__(self) -> None:
        self.last: dict[int, Tensor] = {}
        self.first: dict[int, Tensor] = {}

    def remember(self, number: int, own: Tensor) -> None:
        self.last[number] = own
        if own.numel() > 0 and number not in self.first:
            self.first[number] = own.flatten()[0]


def _impostors(
    cell: Cell, call: Call, native: Tensor, number: int, stale: _Stale, place: str, rejected: set[str]
) -> Impostors:
    """Wrong results for a case whose right result is ``native``; of float8 as float32. Those that need the reference
    are made only until one is rejected."""
    own = computable(native)
    if own is not native:
        yield "one more than the result", computable((native.view(torch.uint8) ^ 1).view(native.dtype))
    yield "zeros", torch.zeros_like(own)
    made = call.arguments(cell.device)
    for path, _ in call.cases():
        value, name = tensor_at(made, path), f"a copy of {cell.name(path)}"
        if value.shape == own.shape and value.dtype == own.dtype:
            yield name, value
        else:  # its shape or dtype would show it
            rejected.add(f"{name}{place}")
    first = own.flatten()[0] if own.numel() > 1 else stale.first.get(number)
    if first is not None:  # perhaps of another dtype, whose numbers leave the range of this one
        yield "a constant", first.to(own.dtype).expand_as(own)
    last = stale.last.get(number)
    if last is not None and last.shape == own.shape:
        yield "the last call's output", last.to(own.dtype)
    elif last is not None:
        rejected.add(f"the last call's output{place}")
    # Half types may be off by 1% where several roundings accumulate.
    if native.is_floating_point() and native.itemsize >= 4:
        dtype = str(own.dtype).removeprefix("torch.")
        yield f"1.01 times the result in {dtype}", (own.double() * 1.01).to(own.dtype)
        yield f"the result rounded to half in {dtype}", own.half().to(own.dtype)
    if own.is_floating_point() or own.is_complex():
        wide = own.to(torch.complex128 if own.is_complex() else torch.float64)
        yield "1.01 times the result", (wide * 1.01).to(own.dtype)
    elif own.dtype == torch.bool:
        yield "the opposite of the result", ~own
    else:
        yield "one more than the result", own + 1
    yield from _moved(own)
    name = "the transposed argument's result"
    if name + place not in rejected:
        yield from ((name, made) for made in _of_transposed(cell, call, own, number))


def _moved(own: Tensor) -> Impostors:
    """The result with elements at wrong places."""
    if own.numel() < 2:
        return
    flat = own.contiguous().flatten()
    size = (flat.abs() if flat.is_complex() else flat.double().abs()).nan_to_num(nan=0.0, posinf=0.0)
    changed = flat.clone()
    changed[int(size.argmax())] = flat[int(size.argmin())]
    yield "the result with one element changed", changed.view(own.shape)
    ended = flat.clone()
    ended[-1] = 0
    yield "the result with 0 for its last element", ended.view(own.shape)
    if own.dim() > 1 and own.shape[0] > 1:
        swapped = own.clone()
        swapped[0], swapped[-1] = own[-1], own[0]
        yield "the result with two rows swapped", swapped


def _of_transposed(cell: Cell, call: Call, own: Tensor, number: int) -> Iterator[Tensor]:
    for path, case in call.cases():
        if len(case.shape) < 2 or 0 in case.shape:
            continue
        value = tensor_at(call.arguments(cell.device), path)
        turned = value.transpose(-1, -2).reshape(value.shape)
        results, wide = (refer_with(cell, call, path, turned, exact=exact) for exact in (False, True))
        if results is None or wide is None:
            return
        made, exact = computable(results[number]), computable(wide[number])
        # Skipped for a sum of all elements, which has no order except in its rounding.
        same = made.shape != own.shape or torch.allclose(
            exact, computable(cell.refer(call, exact=True)[number]), rtol=1e-9, atol=0, equal_nan=True
        )
        if not same:
            yield made
        return
