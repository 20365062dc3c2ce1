"""What computed a result: a kernel of the op must have been the last to write each of its elements.

The engine's shadow memory records which bytes a kernel wrote, and whether they have changed since. It is in the op's
process, and is trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trifold.spec import AliasCase, Call
from trifold.spec.call import tensor_at
from trifold.verification.cell import Arguments, Cell
from trifold.verification.checks.differentiation import Forward, forward
from trifold.verification.observations import Observations
from trifold.verification.outcomes import CheckFailed

_CALLS = 12  # drawn calls, in addition to the fixed ones


def written(cell: Cell) -> str | None:
    """Checks results, and gradients other than the upstream gradient itself. Uses the runs of ``findings`` if these
    completed."""
    if cell.origins is None:
        _run_recorded(cell)
    else:
        cell.cases, cell.dtypes = cell.origins.cases, set(cell.origins.dtypes)
        if cell.origins.failure is not None:
            raise cell.origins.failure
    by_torch = "; ".join(f"{name}: {reason}" for name, reason in cell.spec.computed_by_torch.items())
    return f"computed by torch as the spec says: {by_torch}" if by_torch else None


def _run_recorded(cell: Cell) -> None:
    form = form_with_checks(cell)

    def test(call: Call) -> None:
        run = Recorded.of(cell, call, form, 0, record=True)
        run.require_written(cell, call)

    cell.process.load(build=True, form=form)
    cell.for_each_call(test, examples=min(_CALLS, cell.search.examples))
    for call in cell.small_calls():
        cell.run_case(test, call)


def form_with_checks(cell: Cell) -> str:
    return "plain" if cell.kind == "prototype" else "checked"


@dataclass(frozen=True)
class Recorded:
    """A call forward and backward under one schedule, with all checks.

    Attributes:
        outer: the upstream gradients.
        observed: what the engine reported; on request, also which bytes the kernels wrote.
    """

    arguments: Arguments
    made: Forward
    outer: list[Tensor]
    grads: tuple[Tensor | None, ...]
    observed: Observations

    @classmethod
    def of(cls, cell: Cell, call: Call, form: str, seed: int, *, record: bool) -> Recorded:
        with cell.process.running(form=form, schedules=(seed, 1), record=record) as observed:
            arguments = call.arguments(cell.device)
            made = forward(cell, call, cell.implementation.function, arguments)
            outer = made.upstream(call)
            return cls(arguments, made, outer, made.gradients(outer), observed)

    def require_written(self, cell: Cell, call: Call) -> None:
        """Raises ``CheckFailed`` if a kernel of the op was not the last to write an element of a result, or wrote into
        an argument."""
        spec, made = cell.spec, self.made
        for number, output in enumerate(made.outputs[: len(made.outputs) - len(cell.written_paths(call))]):
            if f"result {number}" not in spec.computed_by_torch and number not in spec.views:
                _require_written(self.observed, output.detach(), f"result {number}", call)
        for path, _ in call.cases():
            if path not in cell.written_paths(call):
                _require_untouched(self.observed, tensor_at(self.arguments, path), cell.name(path), call)
        for path in cell.written_paths(call):
            before, after = (tensor_at(values, path) for values in (call.arguments(cell.device), self.arguments))
            _require_written(self.observed, after, cell.name(path), call, only=_changed(before, after))
        passed_twice = [(value.of,) for value in call.args if isinstance(value, AliasCase)]
        # Another gradient may be a multiple of the sum that torch makes of theirs: both may be the upstream gradient's.
        observed = replace(self.observed, copied={}) if passed_twice else self.observed
        for path, grad in zip(cell.gradient_paths(call), self.grads, strict=True):
            if path in passed_twice:
                continue  # autograd adds the gradients for each place
            name = f"gradient {path[0]}"
            if grad is not None and name not in spec.computed_by_torch and not _is_one(grad, self.outer):
                _require_written(observed, grad, name, call)


def _require_untouched(observed: Observations, argument: Tensor, name: str, call: Call) -> None:
    """Raises ``CheckFailed`` if a kernel wrote into an argument, even if the values did not change."""
    bits = observed.written.get(argument.untyped_storage().data_ptr()) if argument.numel() > 0 else None
    if bits is not None and bool(bits.any()):
        raise CheckFailed(
            f"a kernel writes into {name} the values that it already has: another call may read it at the same time",
            call,
        )


def _changed(before: Tensor, after: Tensor) -> Tensor:
    """The elements that have other numbers; a nan that is still a nan has not."""
    return (before != after) & ~((before != before) & (after != after))


def _is_one(grad: Tensor, outer: Sequence[Tensor]) -> bool:
    """Whether the gradient is an upstream gradient, passed on."""
    return any(grad.untyped_storage().data_ptr() == one.untyped_storage().data_ptr() for one in outer)


def _require_written(observed: Observations, result: Tensor, name: str, call: Call, only: Tensor | None = None) -> None:
    """Raises ``CheckFailed`` if a kernel of the op was not the last to write an element (among those in ``only``)."""
    if result.numel() == 0:
        return
    bits = observed.written.get(result.untyped_storage().data_ptr())
    if bits is None:
        raise CheckFailed(f"{name}: its memory is not the op's own; no kernel of the op has written it", call)
    source = observed.copied.get(result.untyped_storage().data_ptr())
    if source:
        made = f"{source} computed these numbers, and a kernel only copied or scaled them"
        raise CheckFailed(f"{name}: {made}", call)
    places = torch.arange(bits.numel() // result.itemsize).as_strided(
        result.shape, result.stride(), result.storage_offset()
    )
    whole = bits[: bits.numel() // result.itemsize * result.itemsize].view(-1, result.itemsize).all(1)[places]
    if only is not None:
        whole = whole | ~only.cpu()
    if bool(whole.all()):
        return
    index = tuple(int(i) for i in (~whole).nonzero()[0])
    remedy = f'; where that is intended, say so: Spec(computed_by_torch={{"{name}": "why"}})' if only is None else ""
    raise CheckFailed(
        f"{name}: {int((~whole).sum())} of {result.numel()} elements, {index} among them, were not written last by a "
        f"kernel of the op, but by torch or by other code{remedy}",
        call,
    )
