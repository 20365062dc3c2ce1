"""Two calls of an op whose launches alternate, as they may in two streams or threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trifold.implementation import Implementation

from .tensors import Json, flattened, numbered, tensors_in

_PLACES = 4  # launches of a call, at most, before which another call runs


def run_interleaved(
    op: Implementation, args: list[Any], kwargs: dict[str, Any], request: Json
) -> tuple[Json, Sequence[Tensor]]:
    """Results and gradients of a call on the CPU: first alone, then once for each of its launches except the first,
    with another call before that launch.

    Args:
        args: for each of the two calls, its positional and its keyword arguments.
    """
    (one, one_by_name), (other, other_by_name) = args
    runs: list[tuple[list[Tensor], Sequence[Tensor | None]]] = []

    def run(before: Callable[[], object]) -> int:
        """Returns the number of launches."""
        launches = 0
        inside = False

        def launched() -> None:
            nonlocal launches, inside
            if inside:
                return
            if launches in places:
                inside = True
                before()
                inside = False
            launches += 1

        with torch.random.fork_rng(devices=()), _before_each_launch(op, launched):
            runs.append(_results_and_gradients(op, one, one_by_name))
        return launches

    def call_other() -> None:
        # In another thread, since autograd's state of this one is that within an operator.
        errors: list[BaseException] = []

        def call() -> None:
            try:
                _results_and_gradients(op, other, other_by_name)
            except BaseException as error:
                errors.append(error)

        with torch.random.fork_rng(devices=()):
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
        failures.extend(errors)

    places: Sequence[int] = ()
    failures: list[BaseException] = []
    launches = run(lambda: None)
    for place in range(1, launches, max(1, launches // _PLACES)):
        places = (place,)
        run(call_other)
        if failures:
            raise failures[0]
    values = [[*results, *grads] for results, grads in runs]
    given = [[value is not None for value in of_run] for of_run in values]
    return {"results": len(runs[0][0]), "given": given}, [
        value for of_run in values for value in of_run if value is not None
    ]


def _results_and_gradients(
    op: Implementation, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Tensor], Sequence[Tensor | None]]:
    results = [value for value in flattened(op.function(*args, **kwargs))[0] if isinstance(value, Tensor)]
    inputs = list({id(value): value for value in tensors_in([args, kwargs]) if value.requires_grad}.values())
    outputs = [value for value in results if value.requires_grad]
    outer = [numbered(output) for output in outputs]
    grads = torch.autograd.grad(outputs, inputs, outer, allow_unused=True) if outputs and inputs else ()
    return [result.detach() for result in results], grads


def _before_each_launch(op: Implementation, call: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
    """A context in which ``call`` is called before each launch, by the thread that launches."""
    if op.kind == "prototype":
        from trifold.simulator import launch

        return launch.told_to(lambda arrays: call())
    from trifold.cpu import runtime

    return runtime.before_each_launch(call)
