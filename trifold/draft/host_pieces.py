"""Pieces of tensors along a dimension, and tensors that are expanded to a common shape, in a launch function."""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping
from typing import Any

import torch

from trifold.draft import cpp, host_tensors
from trifold.draft import host_values as v
from trifold.draft.host import Host
from trifold.draft.host_cpp import call
from trifold.draft.host_tensors import count_of, sizes_given
from trifold.draft.refusal import DraftError


def _given(names: tuple[str, ...], arguments: Any, keywords: Mapping[str, Any]) -> dict[str, Any]:
    return dict(zip(names, arguments, strict=False)) | dict(keywords.items())


def _dimension(host: Host, given: Mapping[str, Any], node: ast.Call) -> v.Number:
    dimension = v.number(given.get("dim", 0))
    if dimension.type != v.INT:
        raise DraftError(host.place(node), "this dimension is no integer", "write a number, or an int argument")
    return dimension


def _piece(x: v.Tensor, function: str, *numbers: v.Number | int, fewer: int = 0) -> v.Tensor:
    dimensions = None if x.dimensions is None else x.dimensions - fewer
    expr = call(function, x.expr, *(v.number(each).expr for each in numbers))
    return v.Tensor(expr, x.dtypes, dimensions, strided=True, memory=x.memory)


def _narrowed(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    given = _given(("dim", "start", "length"), arguments, keywords)
    return _piece(x, "trifold::narrow", _dimension(host, given, node), given["start"], given["length"])


def _split(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    """``x.split(size, dim)``, unpacked; or ``x.split([a, b], dim)``."""
    given = _given(("split_size", "dim"), arguments, keywords)
    dim, size = _dimension(host, given, node), given["split_size"]
    if isinstance(size, tuple):
        host.into.append(cpp.Run(call("trifold::check_split", x.expr, dim.expr, host.dims(size, node))))
        pieces: list[v.Tensor] = []
        start: Any = 0
        for each in size:
            pieces.append(_piece(x, "trifold::narrow", dim, start, each))
            start = host.binary(operator.add, start, each, node)
        return tuple(pieces)
    return v.Pieces(lambda place, count: _piece(x, "trifold::piece", dim, size, place, count))


def _chunk(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    given = _given(("chunks", "dim"), arguments, keywords)
    dim, count = _dimension(host, given, node), given["chunks"]
    if not isinstance(count, int) or count < 1:
        raise DraftError(
            host.place(node), "the number of chunks is not known while drafting", "write x.split(size, dim)"
        )
    return tuple(_piece(x, "trifold::chunk", dim, place, count) for place in range(count))


def _unbound(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    dim = _dimension(host, _given(("dim",), arguments, keywords), node)
    return v.Pieces(lambda place, count: _piece(x, "trifold::unbound", dim, place, count, fewer=1))


def _expanded(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    sizes = sizes_given(arguments)
    expr = call("trifold::expand", x.expr, host.dims(sizes, node))
    return v.Tensor(expr, x.dtypes, count_of(sizes), strided=True, memory=x.memory)


def _expanded_as(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    (other,) = arguments
    return _expanded(host, x, (v.shape_of(other),), {}, node)


def _in_shape_of(host: Host, x: v.Tensor, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    (other,) = arguments
    viewed: v.Tensor = METHODS["reshape"](host, x, (v.shape_of(other),), {}, node)
    return viewed


def _common_shape(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Sizes:
    return v.Sizes(call("trifold::broadcast_shapes", cpp.Braces(tuple(host.dims(each, node) for each in arguments))))


def _broadcast(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> tuple[v.Tensor, ...]:
    shapes = [v.shape_of(each) for each in arguments]
    shape = host.named(_common_shape(host, shapes, {}, node), "shape", host.into)
    counts = [each.dimensions for each in arguments]
    made = [_expanded(host, each, (shape,), {}, node) for each in arguments]
    for each in made if None not in counts else ():
        each.dimensions = max(counts)
    return tuple(made)


METHODS: dict[str, Any] = {
    **host_tensors.METHODS,
    "narrow": _narrowed,
    "split": _split,
    "chunk": _chunk,
    "unbind": _unbound,
    "expand": _expanded,
    "broadcast_to": _expanded,
    "expand_as": _expanded_as,
    "view_as": _in_shape_of,
    "reshape_as": _in_shape_of,
}

#: Functions of torch that are methods of their first argument: torch.reshape(x, sizes).
_AS_METHODS = tuple(getattr(torch, name) for name in METHODS if callable(getattr(torch, name, None)))


def _as_method(name: str) -> Any:
    return lambda host, arguments, keywords, node: METHODS[name](host, arguments[0], arguments[1:], keywords, node)


HANDLERS: dict[Any, Any] = {
    **{function: _as_method(function.__name__) for function in _AS_METHODS},
    torch.broadcast_shapes: _common_shape,
    torch.broadcast_tensors: _broadcast,
}
