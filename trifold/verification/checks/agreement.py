"""Two runs of one call under other schedules or timings must have the same results and gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from trifold.spec import Call
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import (
    forward,
    same_gradients,
)
from trifold.verification.comparison import same_values
from trifold.verification.outcomes import CheckFailed
from trifold.verification.tolerance import same_numbers


@dataclass(frozen=True)
class Run:
    """The results of a call, and a gradient for each argument, for the check's upstream gradients."""

    results: tuple[Tensor, ...]
    grads: tuple[Tensor | None, ...]

    @classmethod
    def of(cls, cell: Cell, call: Call) -> Run:
        """Run the call forward and backward, with the options of :meth:`OpProcess.running`."""
        made = forward(cell, call, cell.implementation.function)
        return cls(tuple(output.detach() for output in made.outputs), made.gradients(made.upstream(call)))


def runs_of(answer: Mapping[str, Any], tensors: Iterable[Tensor]) -> list[list[Tensor | None]]:
    """The tensors of each run that a function of :mod:`trifold.isolation.beside` made."""
    each = iter(tensors)
    return [[next(each) if there else None for there in given] for given in answer["given"]]


def require_same(
    cell: Cell,
    call: Call,
    first: Run,
    run: Run,
    *,
    what: str,
    where: tuple[str, str],
) -> None:
    """Raise ``CheckFailed`` where two runs differ.

    Results must have the same bits, except that any nan equals any other. Where the spec says that a sum has no order,
    both runs must be within the bound instead.

    Args:
        cell, call: of both runs.
        first, run: the two.
        what: the cause of a difference, for the message.
        where: how each run was made: "in the natural order".
    """
    paths = cell.gradient_paths(call)
    if same_values(cell, call, first.results, run.results) and same_gradients(
        cell, call, paths, first.grads, run.grads
    ):
        return
    if cell.is_unordered(call):
        raise CheckFailed(f"{where[1]}, results or gradients are beyond the bound", call)
    results = [(cell.name_of_result(call, n, run.results), n) for n in range(len(run.results))]
    pairs = [(name, first.results[n], run.results[n]) for name, n in results]
    grads = zip(paths, first.grads, run.grads, strict=True)
    pairs += [(f"the gradient of {cell.name(path)}", a, b) for path, a, b in grads if a is not None and b is not None]
    for name, a, b in pairs:
        if not same_numbers(a, b):
            index = int(((a != b) & ~(a.isnan() & b.isnan())).flatten().int().argmax())
            at_a, at_b = (t.flatten()[index].item() for t in (a, b))
            raise CheckFailed(
                f"{what} shows in {name}: element {index} is {at_a!r} {where[0]} and {at_b!r} {where[1]}; where a sum "
                "has no order by intention, say so: Spec(unordered=...)",
                call,
            )
    raise CheckFailed(f"{where[1]}, other arguments have a gradient than {where[0]}", call)
