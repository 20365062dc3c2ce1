"""Whether the cases of the values check show that the op uses each of its arguments."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch
from torch import Tensor

from trifold.spec import Call, TensorCase
from trifold.spec.call import Path, put_at, tensor_at
from trifold.spec.case import AnyCase
from trifold.verification.calls import has_alias
from trifold.verification.cell import Cell
from trifold.verification.comparison import Expected
from trifold.verification.outcomes import CheckFailed
from trifold.verification.tolerance import computable

MANY = 40  # cases: of as many, drawn values of a parameter are not all its default by chance
_SEVERAL = 3  # cases in which other numbers of an argument change the result, of which one must show it
_SMALL = 2**16  # elements of a call


def require_options(cell: Cell) -> None:
    """Of many cases, some have another value of each parameter whose default is a number, a flag or a word."""
    if len(cell.calls) < MANY:
        return
    for place, parameter in enumerate(cell.parameters):
        default = parameter.default
        if not isinstance(default, bool | int | float | str):
            continue
        given = (call.args[place] if place < len(call.args) else call.kwargs.get(parameter.name) for call in cell.calls)
        if all(value is None or value == default for value in given):
            raise CheckFailed(
                f"{parameter.name} is {default!r} in each case of the values check: an op that ignores it would pass; "
                "draw other values"
            )


def require_arguments(cell: Cell) -> None:
    """An op that takes a tensor, or a list of tensors, to consist of zeros is wrong in some case, if the reference
    depends on its numbers.

    Raises:
        CheckFailed: the op would pass.
    """
    shown: set[str] = set()
    hidden: Counter[str] = Counter()
    for call in cell.calls:
        if call.elements > _SMALL or has_alias(call):
            continue
        for path, case in call.cases():
            name = cell.name(path[:1])
            if name in shown:
                continue
            if _shows(cell, call, path):
                shown.add(name)
            elif hidden[name] < _SEVERAL and _matters(cell, call, path, case):
                hidden[name] += 1
    for name, times in hidden.items():
        if times == _SEVERAL and name not in shown:
            raise CheckFailed(
                f"every case of the values check would accept an op that takes {name} to be 0, though the reference "
                'depends on its numbers; draw others (fill="positive" if they must not be below 0), or state a smaller '
                "scale or multiple"
            )


def _shows(cell: Cell, call: Call, path: Path) -> bool:
    """Whether some result is wrong if the tensor consists of zeros; also if the reference does not take zeros."""
    expected = Expected.of(cell, call)
    results = refer_with(cell, call, path, torch.zeros_like(tensor_at(call.arguments(cell.device), path)))
    if results is None or [x.shape for x in results] != [x.shape for x in expected.native]:
        return True
    return any(expected.wrong(number, expected.where_finite(number, result)) for number, result in enumerate(results))


def _matters(cell: Cell, call: Call, path: Path, case: AnyCase) -> bool:
    """Whether the reference has other results for other numbers of the tensor."""
    other = replace(case, seed=case.seed + 1)
    if isinstance(other, TensorCase) and other.fill == "zero":
        other = replace(other, fill="positive")
    results = refer_with(cell, call, path, other.make(cell.device), exact=True)
    usual = cell.refer(call, exact=True)
    if results is None or [x.shape for x in results] != [x.shape for x in usual]:
        return results is not None
    pairs = [(computable(a), computable(b)) for a, b in zip(results, usual, strict=True)]
    return not all(torch.allclose(a, b, rtol=1e-9, atol=0, equal_nan=True) for a, b in pairs)


def refer_with(cell: Cell, call: Call, path: Path, tensor: Tensor, *, exact: bool = False) -> tuple[Tensor, ...] | None:
    """The reference's results for a call with another tensor at a place; None if it raises."""
    made = call.arguments(cell.device)
    put_at(made, path, tensor)
    try:
        return cell.refer(call, made, exact=exact)
    except CheckFailed:
        return None
