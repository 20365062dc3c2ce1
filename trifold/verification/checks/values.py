"""Values against the reference, and whether those cases could show a wrong result at all."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trifold.spec import Call
from trifold.verification.cell import Cell, CheckFailed, as_tuple, in_float64
from trifold.verification.tolerance import form_mismatch, mismatch, same_bits, share_memory


def values(cell: Cell) -> None:
    """Every result against the exact one; the arguments must come back unchanged."""
    cell.calls.clear()

    def test(call: Call) -> None:
        compare(cell, call)
        cell.calls.append(call)

    cell.for_each_call(test)


def compare(cell: Cell, call: Call, made: tuple[Tensor, ...] | None = None) -> tuple[Tensor, ...]:
    """A call's results; raises ``CheckFailed`` where they, or what the call leaves of its arguments, are wrong.

    With ``made``, they are compared instead of new ones.
    """
    args, kwargs = call.arguments(cell.device)
    before = [value.clone() if isinstance(value, Tensor) else None for value in args]
    results = cell.invoke(call, (args, kwargs)) if made is None else made
    for position, (value, copy) in enumerate(zip(args, before, strict=True)):
        if copy is not None and not same_bits(value, copy):
            raise CheckFailed(f"argument {position} was changed by the call", call)
        if isinstance(value, Tensor) and any(share_memory(result, value) for result in results):
            raise CheckFailed(f"a result lies in the memory of argument {position}", call)
    native = cell.refer(call)
    exact = cell.refer(call, exact=True)
    if len(results) != len(native):
        raise CheckFailed(f"{len(results)} results, the reference gives {len(native)}", call)
    for result, own, want, scale in zip(results, native, exact, scales(cell, call), strict=True):
        wrong = form_mismatch(result, own) or mismatch(result, want, own, scale, multiple=cell.spec.multiple)
        if wrong:
            raise CheckFailed(wrong, call)
    return results


def scales(cell: Cell, call: Call) -> tuple[Tensor | None, ...]:
    """The scale of each result: the spec's, or the reference on absolute values."""
    args, kwargs = in_float64(*call.arguments(cell.device))
    spec = cell.spec
    if spec.scale is None:
        sizes = cell.refer(call, ([value.abs() if isinstance(value, Tensor) else value for value in args], kwargs))
    else:
        torch.manual_seed(call.seed)
        sizes = as_tuple(spec.scale(cell.reference, *args, **kwargs))
    if spec.working_scale is None:
        return sizes
    torch.manual_seed(call.seed)
    return with_working(sizes, as_tuple(spec.working_scale(cell.reference, *args, **kwargs)), call.dtype)


def with_working(sizes: tuple[Tensor, ...], working: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """``sizes``, in round-offs of ``dtype``, and ``working``, in round-offs of what an op of that dtype computes in."""
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    share = torch.finfo(computed).eps / torch.finfo(dtype).eps
    return tuple(size + share * more for size, more in zip(sizes, working, strict=True))


def sensitivity(cell: Cell) -> str:
    """Each impostor must be rejected by some case of the values check.

    An impostor is a wrong result that costs nothing to make: zeros, a copy of an argument, one constant (where the
    result is one number: that of the first case), the result of the call before.
    """
    if not cell.calls:
        raise CheckFailed("the values check compared no case, so it shows nothing")
    accepted = dict.fromkeys(("zeros", "a copy of an argument", "a constant", "the last call's output"), True)
    previous: Tensor | None = None
    first: float | None = None
    for call in cell.calls:
        cell.cases += 1
        args, _ = call.arguments(cell.device)
        exact = cell.refer(call, exact=True)
        native = cell.refer(call)
        rejects = _rejects(cell, call, exact, native)
        own = native[0]
        copies = [x for x in args if isinstance(x, Tensor) and x.shape == own.shape and x.dtype == own.dtype]
        accepted["zeros"] &= not rejects(torch.zeros_like(own))
        if own.numel() > 0:
            first = float(own.flatten()[0]) if own.numel() > 1 or first is None else first
            accepted["a constant"] &= not rejects(torch.full_like(own, first))
        accepted["a copy of an argument"] &= any(not rejects(x) for x in copies)
        if previous is not None:
            accepted["the last call's output"] &= previous.shape == own.shape and not rejects(previous.to(own.dtype))
        previous = own
        if not any(accepted.values()):
            break
    passed = [name for name, everywhere in accepted.items() if everywhere]
    if passed:
        raise CheckFailed(
            f"every case of the values check would accept {' and '.join(passed)}; add samples that do not"
        )
    return f"zeros, copies, constants and stale outputs are rejected within {cell.cases} cases"


def _rejects(cell: Cell, call: Call, exact: tuple[Tensor, ...], native: tuple[Tensor, ...]) -> Callable[[Tensor], bool]:
    scale = scales(cell, call)[0]

    def rejects(impostor: Tensor) -> bool:
        return mismatch(impostor, exact[0], native[0], scale, multiple=cell.spec.multiple) is not None

    return rejects
