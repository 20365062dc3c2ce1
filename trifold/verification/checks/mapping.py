"""An op under ``torch.vmap``."""

from __future__ import annotations

import torch
from torch import Tensor

from trifold.spec import Call
from trifold.verification.calls import has_alias
from trifold.verification.cell import Cell
from trifold.verification.checks.agreement import runs_of
from trifold.verification.checks.differentiation import require_gradients
from trifold.verification.outcomes import CheckFailed
from trifold.verification.seeding import seed

_ROUND_OFFS = 2**10  # of the largest number: torch may add in another order
_MOST = 0.05  # of the largest number


def same_when_mapped(cell: Cell, call: Call, other: Call) -> list[str]:
    """The two calls under ``torch.vmap`` have the results and gradients of a loop, or raise an error.

    Args:
        call, other: they differ in the numbers of their tensors alone.

    Returns:
        The errors.
    """
    if cell.spec.random or cell.spec.writes or has_alias(call) or not list(call.cases()):
        return []
    made = []
    for each in (call, other):
        arguments = each.arguments(cell.device)
        require_gradients(arguments, each, cell.gradient_paths(call))
        made.append(list(arguments))
    seed(call.seed)
    answer, tensors = cell.process.beside("mapped", made, {})
    runs = runs_of(answer, tensors)
    for under_vmap, in_a_loop in zip(runs[::2], runs[1::2], strict=True):
        for place, (a, b) in enumerate(zip(under_vmap, in_a_loop, strict=True)):
            what = "the result" if place < answer["results"] else "a gradient"
            if a is None and b is not None:
                raise CheckFailed(
                    f"under torch.vmap {what} is missing, where a loop over the batch has one: within vmap a tensor "
                    "does not say that its batch requires a gradient; ask trifold.port.may_need_gradient(x) instead",
                    call,
                )
            if a is not None and b is not None and not _near(a, b):
                raise CheckFailed(f"under torch.vmap {what} is another one than in a loop over the batch", call)
    return list(answer["errors"])


def _near(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not (b.is_floating_point() or b.is_complex()):
        return torch.equal(a, b)
    share = min(_MOST, _ROUND_OFFS * torch.finfo(b.dtype).eps)
    wide = torch.complex128 if b.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    finite = b.abs()[b.isfinite()]
    largest = float(finite.max()) if finite.numel() else 0.0
    return torch.allclose(a, b, rtol=0, atol=share * largest, equal_nan=True)
