"""Values against the reference."""

from __future__ import annotations

import torch
from torch import Tensor

from trifold.spec import Call
from trifold.verification.cell import Cell, CheckFailed, as_tuple, in_float64
from trifold.verification.tolerance import form_mismatch, mismatch, same_bits, share_memory, zero_sign_mismatch

_AGAIN = 8  # calls that come once more


def values(cell: Cell) -> None:
    """Every result against the exact one; the arguments must come back unchanged."""
    cell.calls.clear()

    def test(call: Call) -> None:
        compare(cell, call)
        cell.calls.append(call)

    cell.for_each_call(test)
    for call in cell.swept_calls():
        cell.run_case(test, call)
    # The same calls again, long after others: what was kept of them by address, shape or number of the call is stale.
    for call in cell.calls[: _AGAIN * 3 : 3]:
        cell.run_case(lambda call: (compare(cell, call), None)[1], call, "again, after all others")


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
        if not wrong and not cell.spec.zero_signs:
            wrong = zero_sign_mismatch(result, want, own)
        if wrong:
            raise CheckFailed(wrong, call)
    return results


def scales(cell: Cell, call: Call, dtype: torch.dtype | None = None) -> tuple[Tensor | None, ...]:
    """The scale of each result, in round-offs of ``dtype`` (default: the call's): the spec's, or the reference on
    absolute values."""
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
    return with_working(sizes, as_tuple(spec.working_scale(cell.reference, *args, **kwargs)), dtype or call.dtype)


def with_working(sizes: tuple[Tensor, ...], working: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """``sizes``, in round-offs of ``dtype``, and ``working``, in round-offs of what an op of that dtype computes in."""
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    share = torch.finfo(computed).eps / torch.finfo(dtype).eps
    return tuple(size + share * more for size, more in zip(sizes, working, strict=True))
