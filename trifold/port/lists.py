"""Autograd functions of operators with lists of tensors among their arguments or results.

``torch.autograd.Function`` tracks only tensors that are arguments or results themselves. Each list is therefore passed
as separate tensors, and reassembled for the operator and its backward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Call = Callable[..., Any]


@dataclass
class _Lengths:
    """The number of values for each argument and for each result; None: it is not a list, and is one value."""

    arguments: list[int | None]
    results: list[int | None]


def _is_list(value: Any) -> bool:
    # torch passes a list for any sequence in a schema; a Python caller may pass a tuple.
    return isinstance(value, list | tuple) and all(one is None or isinstance(one, torch.Tensor) for one in value)


def _flat(values: Iterable[Any]) -> tuple[list[int | None], list[Any]]:
    lengths: list[int | None] = []
    flat: list[Any] = []
    for value in values:
        lengths.append(len(value) if _is_list(value) else None)
        flat.extend(value if _is_list(value) else (value,))
    return lengths, flat


def _nested(lengths: Sequence[int | None], flat: Iterable[Any]) -> tuple[Any, ...]:
    values = iter(flat)
    return tuple(next(values) if n is None else [next(values) for _ in range(n)] for n in lengths)


def function_of_lists(
    name: str, several: bool, forward: Call, backward: Call, setup_context: Call | None = None
) -> Call:
    """``apply`` of an ``autograd.Function`` whose arguments and results may be lists of tensors.

    Args:
        name: of the operator, for messages.
        several: whether ``forward`` returns a tuple of results.
        forward, backward, setup_context: as an ``autograd.Function`` has them; without the last, ``forward`` gets
            ``ctx``. ``ctx.needs_input_grad`` has a tuple for a list, and ``backward`` returns a list, or None, for one.
    """

    def results(lengths: _Lengths, output: Any) -> tuple[Any, ...]:
        lengths.results, flat = _flat(output if several else (output,))
        return tuple(flat)

    def whole(lengths: _Lengths, flat: Iterable[Any]) -> Any:
        values = _nested(lengths.results, flat)
        return values if several else values[0]

    def saving(ctx: Any, lengths: _Lengths, *flat: Any) -> Any:
        ctx.lengths = lengths
        return results(lengths, forward(ctx, *_nested(lengths.arguments, flat)))

    def computing(lengths: _Lengths, *flat: Any) -> Any:
        return results(lengths, forward(*_nested(lengths.arguments, flat)))

    def setting_up(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        assert setup_context is not None
        lengths, *flat = inputs
        ctx.lengths = lengths
        setup_context(ctx, _nested(lengths.arguments, flat), whole(lengths, output))

    def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        lengths, needed = ctx.lengths, ctx.needs_input_grad
        ctx.needs_input_grad = tuple(
            tuple(each) if isinstance(each, list) else each for each in _nested(lengths.arguments, needed[1:])
        )
        try:
            made = backward(ctx, *_nested(lengths.results, grads))
        finally:
            ctx.needs_input_grad = needed
        return None, *_flat_gradients(name, lengths, made)

    members: dict[str, Any] = {"forward": staticmethod(saving)}
    if setup_context is not None:
        members = {"forward": staticmethod(computing), "setup_context": staticmethod(setting_up)}
        members["generate_vmap_rule"] = True
    function = type(name, (torch.autograd.Function,), {**members, "backward": staticmethod(gradients)})

    def apply(*args: Any) -> Any:
        arguments, flat = _flat(args)
        lengths = _Lengths(arguments, [])
        return whole(lengths, function.apply(lengths, *flat))  # type: ignore[attr-defined]

    return apply


def _flat_gradients(name: str, lengths: _Lengths, made: Any) -> list[Any]:
    """Raises ``RuntimeError`` if backward returns another number of gradients than there are tensors."""
    given = made if isinstance(made, tuple) else (made,)
    if len(given) != len(lengths.arguments):
        raise RuntimeError(
            f"backward of {name} gives {len(given)} gradients for {len(lengths.arguments)} arguments; it is a tuple of "
            "one for each argument, a list for a list"
        )
    flat: list[Any] = []
    for position, (length, grad) in enumerate(zip(lengths.arguments, given, strict=True)):
        if length is None:
            flat.append(grad)
            continue
        grads = [None] * length if grad is None else list(grad)
        if len(grads) != length:
            raise RuntimeError(
                f"backward of {name} gives {len(grads)} gradients for argument {position}, a list of {length} tensors"
            )
        flat += grads
    return flat
