"""Used by programs that reproduce a failure: the reference, gradients for the same upstream gradients, and the
difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trifold.implementation import reference as reference_of
from trifold.isolation.tensors import flattened
from trifold.workspace import Workspace

if TYPE_CHECKING:
    from trifold.verification.upstream import Kind


def reference(op: str, *, workspace: Workspace | Path | str | None = None) -> Callable[..., Any]:
    """The function ``reference`` of ``prototypes/<op>.py``.

    Args:
        op: a name that ``trifold list`` shows.
        workspace: the workspace or its folder; default: the nearest one at or above the current folder.

    Raises:
        WorkspaceError: no workspace, no such op, or its prototype has no reference.

    >>> import torch, trifold
    >>> trifold.reference("mul")(torch.tensor([2.0]), torch.tensor([3.0]))
    tensor([6.])
    """
    if not isinstance(workspace, Workspace):
        workspace = Workspace.find() if workspace is None else Workspace.at(workspace)
    return reference_of(workspace.op(op))


def gradients(
    result: Any,
    inputs: Sequence[Tensor],
    *,
    seed: int = 0,
    dtype: torch.dtype | None = None,
    upstream: Kind = "usual",
    through: int | None = None,
) -> tuple[Tensor | None, ...]:
    """Gradients of a result, for the upstream gradients that ``trifold verify`` uses for a call of this seed.

    Args:
        result: what an op returned.
        inputs: arguments that require a gradient.
        seed: of the call.
        dtype: of the call; default: that of the first input.
        upstream: the kind of the upstream gradients: ``usual``, ``special`` (with zeros, infinities and nan),
            ``contiguous``, ``ones`` or ``column-major``.
        through: the position of the only result that is used; default: all are.

    Raises:
        ValueError: an unknown kind.
    """
    from trifold.verification.upstream import upstream_of

    results = [y for y in flattened(result)[0] if isinstance(y, Tensor)]
    asked = [(k, y) for k, y in enumerate(results) if y.requires_grad and through in (None, k)]
    if not asked:
        return (None,) * len(inputs)
    outer = [upstream_of(y, dtype or inputs[0].dtype, seed + k, upstream) for k, y in asked]
    return torch.autograd.grad([y for _, y in asked], inputs, outer, allow_unused=True, retain_graph=True)


def show(result: Any, expected: Any) -> None:
    """Print a result next to the reference's, tensor by tensor, and where they differ most.

    >>> import torch, trifold
    >>> trifold.show(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]))
    result    tensor([1.0000, 2.5000])
    expected  tensor([1., 2.])
    1 of 2 elements differ, most by 0.5 at (1,): 2.5, expected 2.0
    """
    for got, want in zip(flattened(result)[0], flattened(expected)[0], strict=False):
        print(f"result    {got}\nexpected  {want}")
        if isinstance(got, Tensor) and isinstance(want, Tensor):
            print(_difference(got.detach().cpu(), want.detach().cpu()))


def _difference(got: Tensor, want: Tensor) -> str:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"of shape {tuple(got.shape)} and {got.dtype}, expected {tuple(want.shape)} and {want.dtype}"
    wide = torch.complex128 if got.is_complex() else torch.float64
    differs = (got != want) & ~((got != got) & (want != want))
    if not bool(differs.any()):
        return "no element differs"
    off = torch.where(differs, (got.to(wide) - want.to(wide)).abs().nan_to_num(nan=torch.inf), -1.0)
    index = tuple(int(i) for i in torch.unravel_index(off.argmax(), got.shape))
    return (
        f"{int(differs.sum())} of {got.numel()} elements differ, most by {float(off.max()):.6g} at {index}: "
        f"{got[index].item()!r}, expected {want[index].item()!r}"
    )
