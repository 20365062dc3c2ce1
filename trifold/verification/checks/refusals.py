"""Calls that the reference refuses because of a size, a dtype or a number: the op must refuse them, too.

``Spec(bad_calls=...)`` lists calls whose messages are looked at, and its author may forget one. An op that lacks the
check reads outside of the shorter tensor, and nothing shows it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from trifold.findings import KernelFault
from trifold.isolation.tensors import mapped
from trifold.spec import Call, IndexCase, TensorCase
from trifold.spec.call import Path
from trifold.verification.calls import exchanged, has_alias
from trifold.verification.cell import Arguments, Cell
from trifold.verification.checks.undrawn import beyond, other_flags, values_of, with_value
from trifold.verification.outcomes import MAY_REFUSE, REFUSALS_NAMED, CheckFailed


def refuses_what_the_reference_refuses(cell: Cell) -> None:
    """Raises ``CheckFailed`` if the op accepts a call of which one tensor is too short for the reference or of a dtype
    that it does not take, or one number out of range."""
    calls = [call for call in cell.small_calls() if not has_alias(call)]
    right = [call for call in calls if _refusal_of_reference(cell, call) is None]
    other_types = ((each.name, each.call) for each in other_flags(cell, right))
    for name, call in (*_with_one_shorter_tensor(cell, right), *other_types, *_with_another_number(cell, right)):
        refusal = _refusal_of_reference(cell, call)
        if refusal is None:
            continue
        cell.begin(call, name)
        wrong = _accepts(cell, call)
        if wrong:
            raise CheckFailed(
                f"{name}: the reference refuses this ({refusal}), but {wrong}: let the op check it, or let the "
                "reference take it",
                call,
                name,
            )


def _zeros(call: Call, device: str) -> Arguments:
    """The call's arguments with zeros in all tensors: what refuses them refuses their sizes. As indices, which a kernel
    need not check, zeros are in range."""
    args, kwargs = mapped(list(call.arguments(device)), torch.zeros_like)
    return args, kwargs


def _refusal_of_reference(cell: Cell, call: Call) -> str | None:
    """The message with which the reference refuses the call's sizes; None if it takes them. It computes on the CPU: on
    a GPU, an index out of range would end its use of the GPU."""
    try:
        cell.refer(call, _zeros(call, "cpu"))
    except CheckFailed as error:
        lines = str(error.__cause__).strip().splitlines()
        return lines[0][:120] if isinstance(error.__cause__, MAY_REFUSE) and lines else None
    return None


def _accepts(cell: Cell, call: Call) -> str | None:
    """What the op does instead of refusing the call; None if it refuses it."""
    try:
        cell.invoke(call, _zeros(call, cell.device))
    except KernelFault as fault:
        return f"a kernel runs, with a fault: {fault}"
    except MAY_REFUSE:
        return None
    except Exception as error:
        return f"the op raises {type(error).__name__}, not {REFUSALS_NAMED}: {error}"
    return "the op raises nothing"


def _with_another_number(cell: Cell, calls: Sequence[Call]) -> Iterator[tuple[str, Call]]:
    """Of each argument that is a whole number, calls with -1 and with one more than the largest of the calls."""
    given = [(call, place, value) for call in calls for place, value in values_of(call).items() if type(value) is int]
    for place in dict.fromkeys(place for _, place, _ in given):
        known = {value for _, other, value in given if other == place}
        call = next(call for call, other, _ in given if other == place)
        for number in beyond(known):
            yield f"{cell.name((place,))} = {number}", with_value(call, place, number)


def _with_one_shorter_tensor(cell: Cell, calls: Sequence[Call]) -> Iterator[tuple[str, Call]]:
    """For each dimension of each tensor, a call in which the tensor has one element fewer along it."""
    seen: set[tuple[Path, int]] = set()
    for call in calls:
        for path, case in call.cases():
            for dim, size in enumerate(case.shape):
                if size < 2 or (path, dim) in seen or not isinstance(case, TensorCase | IndexCase):
                    continue
                seen.add((path, dim))
                shape = (*case.shape[:dim], size - 1, *case.shape[dim + 1 :])
                shorter = replace(case, shape=shape, layout="contiguous", dim=0)
                name = f"{cell.name(path)} of shape {shape}, where it has {size} elements along dimension {dim}"
                yield name, call.with_cases(functools.partial(exchanged, case, shorter))
