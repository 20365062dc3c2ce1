"""Who computed a result: a kernel of the op must have written each of its elements last.

The engine's shadow memory knows which bytes a kernel wrote, and whether they still are what it left there. It runs in
the op's process, and is trusted as such.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trifold.spec import AliasCase, Call
from trifold.spec.call import tensor_at
from trifold.verification.cell import Cell, CheckFailed
from trifold.verification.checks.differentiation import forward
from trifold.verification.remote import Told

_CALLS = 12  # drawn beside the fixed ones


def written(cell: Cell) -> str | None:
    """Of results, and of gradients but those that are the upstream gradient itself."""
    form = "plain" if cell.kind == "prototype" else "checked"
    spec = cell.spec

    def test(call: Call) -> None:
        with cell.process.running(form=form, schedules=(0, 1), record=True) as told:
            arguments = call.arguments(cell.device)
            made = forward(cell, call, cell.implementation.function, arguments)
            returned = len(made.outputs) - len(spec.writes)
            for number, output in enumerate(made.outputs[:returned]):
                if f"result {number}" not in spec.computed_by_torch and number not in spec.views:
                    _require_written(told, output.detach(), f"result {number}", call)
            for path in cell.written_paths(call):
                before, after = (tensor_at(made, path) for made in (call.arguments(cell.device), arguments))
                _require_written(told, after, cell.name(path), call, only=before != after)
            outputs = [output for output in made.outputs if output.requires_grad]
            if not outputs or not made.inputs:
                return
            outer = [torch.ones_like(output) for output in outputs]
            grads = torch.autograd.grad(outputs, made.inputs, outer, allow_unused=True)
            for path, grad in zip(cell.gradient_paths(call), grads, strict=True):
                if any(isinstance(value, AliasCase) and (value.of,) == path for value in call.args):
                    continue  # autograd adds up the gradients of an argument that is two
                name = f"gradient {path[0]}"
                if grad is not None and name not in spec.computed_by_torch and not _is_one(grad, outer):
                    _require_written(told, grad, name, call)

    cell.process.load(build=True, form=form)
    cell.for_each_call(test, examples=min(_CALLS, cell.search.examples))
    for call in cell.small_calls():
        cell.run_case(test, call)
    by_torch = "; ".join(f"{name}: {reason}" for name, reason in spec.computed_by_torch.items())
    return f"computed by torch as the spec says: {by_torch}" if by_torch else None


def _is_one(grad: Tensor, outer: Sequence[Tensor]) -> bool:
    """Whether the gradient is an upstream gradient, handed on."""
    return any(grad.untyped_storage().data_ptr() == one.untyped_storage().data_ptr() for one in outer)


def _require_written(told: Told, result: Tensor, name: str, call: Call, only: Tensor | None = None) -> None:
    """Raises ``CheckFailed`` where an element (of those in ``only``) was not written last by a kernel of the op."""
    if result.numel() == 0:
        return
    bits = told.written.get(result.untyped_storage().data_ptr())
    if bits is None:
        raise CheckFailed(f"{name}: its memory is not the op's own; no kernel of the op has written it", call)
    source = told.copied.get(result.untyped_storage().data_ptr())
    if source:
        raise CheckFailed(f"{name}: torch's {source} computed these very numbers, and a kernel only copied them", call)
    places = torch.arange(bits.numel() // result.itemsize).as_strided(
        result.shape, result.stride(), result.storage_offset()
    )
    whole = bits[: bits.numel() // result.itemsize * result.itemsize].view(-1, result.itemsize).all(1)[places]
    if only is not None:
        whole = whole | ~only.cpu()
    if bool(whole.all()):
        return
    index = tuple(int(i) for i in (~whole).nonzero()[0])
    raise CheckFailed(
        f"{name}: {int((~whole).sum())} of {result.numel()} elements, {index} among them, were not written last by a "
        "kernel of the op, but by torch or by other code; where that is intended, say so: "
        f'Spec(computed_by_torch={{"{name}": "why"}})',
        call,
    )
