"""The functions that a launch function may call: those of :mod:`trifold.prototype`, and a few of Python and torch."""

from __future__ import annotations

import ast
import dataclasses
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import types

from trifold import prototype
from trifold.draft import cpp, host_launch, host_pieces
from trifold.draft import host_values as v
from trifold.draft.host import Host
from trifold.draft.host_cpp import call, text_of, whole_shape
from trifold.draft.host_powers import as_float
from trifold.draft.host_tensors import (
    as_complex,
    as_reals,
    count_of,
    full_of,
    new_empty,
    new_like,
    of_dtype,
    ones_of,
    sizes_given,
    zeros_of,
)
from trifold.draft.printer import expression
from trifold.draft.refusal import DraftError
from trifold.draft.tree import Interval

Handler = Callable[[Host, Any, dict[str, Any], ast.Call], Any]


def _check_floating(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> None:
    (op,) = arguments
    for name, tensor in keywords.items():
        host.into.append(
            cpp.Run(call("trifold::check_floating", host.message_part(op), tensor.expr, host.message_part(name)))
        )
        host.set_dtypes(tensor, v.FLOATING)


def _check_alike(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> None:
    (op,) = arguments
    (first, x), *others = keywords.items()
    for name, y in others:
        parts = [op, first, name]
        text = [host.message_part(each) for each in parts]
        host.into.append(cpp.Run(call("trifold::check_alike", text[0], x.expr, text[1], y.expr, text[2])))
    host.one_device.compared(*keywords.values())
    known = next((each for each in keywords.values() if each.dtypes is not None), x)
    host.set_dtypes(known, v.FLOATING)
    for y in keywords.values():
        if y is not known:
            y.known, y.choices = known.dtypes, ()
            known.take_shape_of(y)


def _elementwise_output(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    first = arguments[0]
    expr = call("trifold::elementwise_output", *(each.expr for each in arguments))
    return v.Tensor(expr, first.dtypes, first.dimensions, dense=True, strided=True, memory=v.allocated(first))


def _row_output(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    (x,) = arguments
    return v.Tensor(call("trifold::row_output", x.expr), x.dtypes, x.dimensions, memory=v.allocated(x))


def _rows(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    (x,) = arguments
    return v.Tensor(call("trifold::rows", x.expr), x.dtypes, 2, memory=x.memory)


def _flat(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    x, layout = arguments[0], arguments[1] if len(arguments) > 1 else None
    if layout is None and not x.dense:
        raise DraftError(host.place(node), "flat of a tensor that is not dense is not translated", "pass a layout")
    expr = x.expr if layout is None else call("trifold::in_layout_of", layout.expr, x.expr)
    return v.Tensor(expr, x.dtypes, 1, dense=True, memory=x.memory)


def _threads_for(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    columns = arguments[0] if arguments else keywords["columns"]
    if not isinstance(columns, v.Number):
        return prototype.threads_for(columns)
    interval = (prototype.threads_for(1), prototype.threads_for(2**62))
    return v.Number(cpp.CallTo("trifold::threads_for", (columns.expr,), type=v.INT, interval=interval), v.INT, interval)


def _empty(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    device = keywords.pop("device", None)
    dtype = keywords.get("dtype") or torch.float32
    keywords["dtype"] = dtype
    if not isinstance(device, v.DeviceOf):
        raise DraftError(
            host.place(node), "a new tensor is on the CPU unless a device is stated", "add device=x.device"
        )
    if device.tensor is not None:
        return new_empty(host, device.tensor, arguments, keywords, node)
    assert device.expr is not None
    shape = sizes_given(arguments)
    expr = call("trifold::empty_on", device.expr, host.dims(shape, node), host.scalar(dtype, node))
    return of_dtype(host, expr, dtype, count_of(shape))


def _empty_like(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    return new_like(host, arguments[0], arguments[1:], keywords, node)


def _least(name: str) -> Handler:
    def write(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
        if len(arguments) == 1:
            (of,) = arguments
            if (listed := _of_list(host, f"{name}_of", of, node)) is not None:
                return listed
            arguments = host.numbers_in(of) or arguments
        if not any(isinstance(each, v.Number | v.Part) for each in arguments):
            return {"min": min, "max": max}[name](*arguments)
        given = [
            x for each in arguments for x in (_sizes_of(host, each, node) if isinstance(each, v.Part) else (each,))
        ]
        numbers = [v.number(each) for each in given]
        kind = v.FLOAT if any(each.type == v.FLOAT for each in numbers) else v.INT
        interval = _interval_of_least(name, [each.interval for each in numbers]) if kind == v.INT else None
        if len(numbers) == 1:
            return numbers[0]
        exprs: tuple[cpp.Expr, ...] = tuple(each.expr for each in numbers)
        if len(exprs) > 2:
            exprs = (cpp.Braces(exprs),)
        function = f"std::{name}<{'int64_t' if kind == v.INT else 'double'}>"
        return v.Number(cpp.CallTo(function, exprs, type=kind, interval=interval), kind, interval)

    return write


def _of_list(host: Host, function: str, of: Any, node: ast.Call) -> v.Number | None:
    """A number that a function of <trifold/launch_functions.h> computes from a list; None: it is none, or its numbers
    are known one by one."""
    if isinstance(of, v.Sizes | v.Floats) or (isinstance(of, v.Shape) and host.numbers_in(of) is None):
        kind = v.FLOAT if isinstance(of, v.Floats) else v.INT
        numbers = of.expr if isinstance(of, v.Floats) else host.dims(of, node)
        return v.Number(cpp.CallTo(f"trifold::{function}", (numbers,), type=kind), kind)
    return None


def _interval_of_least(name: str, intervals: list[Interval | None]) -> Interval | None:
    """The range of the least or largest of integers with these ranges; None: of one without bounds."""
    choose = {"min": min, "max": max}[name]
    known = [each for each in intervals if each is not None]
    if len(known) == len(intervals):
        return choose(low for low, _ in known), choose(high for _, high in known)
    return (max(low for low, _ in known), 2**63 - 1) if name == "max" and known else None


def _sizes_of(host: Host, part: v.Part, node: ast.Call) -> tuple[Any, ...]:
    return host.series(v.Shape((part,)), node)


def _divmod(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    a, b = arguments
    return host.binary(operator.floordiv, a, b, node), host.binary(operator.mod, a, b, node)


def _abs(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    (value,) = arguments
    if not isinstance(value, v.Number):
        return abs(value)
    kind = v.FLOAT if value.type == v.FLOAT else v.INT
    least = (0, 2**63 - 1) if kind == v.INT else None
    return v.Number(cpp.CallTo("std::abs", (value.expr,), type=kind, interval=least), kind, least)


def _is_finite(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    (value,) = arguments
    if not isinstance(value, v.Number):
        return math.isfinite(value)
    return v.Number(cpp.CallTo("std::isfinite", (value.expr,), type=v.BOOL), v.BOOL)


def _whole_number(name: str) -> Handler:
    """``math.ceil`` and ``math.floor``, of a quotient of integers or of any float."""

    def write(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
        (value,) = arguments
        if not isinstance(value, v.Number):
            return getattr(math, name)(value)
        if value.quotient is not None:
            a, b = value.quotient
            return host._ceil(a, b) if name == "ceil" else host.binary(operator.floordiv, a, b, node)
        if value.type != v.FLOAT:
            return value
        return v.Number(cpp.Cast("int64_t", call(f"std::{name}", value.expr), type=v.INT), v.INT)

    return write


def _of_a_number(function: Any) -> Handler:
    def write(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
        (value,) = arguments
        if not isinstance(value, v.Number):
            return function(value)
        given = as_float(value)
        return v.Number(cpp.CallTo(f"std::{function.__name__}", (given.expr,), type=v.FLOAT), v.FLOAT)

    return write


# Functions of one number that <cmath> has by the names of Python's.
_FUNCTIONS_OF_CMATH = (
    "sqrt cbrt exp exp2 expm1 log log2 log10 log1p fabs sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "erf erfc lgamma"
)


def _int(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    (value,) = arguments
    if isinstance(value, v.Tensor):
        value = host.number_of(value, node)
    if not isinstance(value, v.Number):
        return int(value)
    if value.type == v.INT:
        return value
    return v.Number(cpp.Cast("int64_t", value.expr, type=v.INT), v.INT)


def _float(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    (value,) = arguments
    if isinstance(value, v.Tensor):
        value = host.number_of(value, node)
    return as_float(value) if isinstance(value, v.Number) else float(value)


def _float32(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    number = v.number(_float(host, arguments, keywords, node))
    return host.rounded(v.Precision(None, (types.float32,)), number)


def _power(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    a, b = arguments
    return host.binary(operator.pow, a, b, node)


def _product(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    (sizes,) = arguments
    if isinstance(sizes, v.OfEach):
        sizes = host.list_of_each(sizes, node)
    if isinstance(sizes, v.Sizes):
        return v.Number(cpp.CallTo("trifold::product", (sizes.expr,), type=v.INT), v.INT)
    return host.product(sizes, node)


def _sum(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    if (listed := _of_list(host, "sum_of", arguments[0], node)) is not None:
        return listed
    result, *others = host.numbers_in(arguments[0]) or arguments[0]
    for other in others:
        result = host.binary(operator.add, result, other, node)
    return result


def _tuple(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    (value,) = arguments or ((),)
    if isinstance(value, v.OfEach):
        value = host.list_of_each(value, node)
    if isinstance(value, v.Shape | v.Sizes):
        return dataclasses.replace(value, listed=False)
    return tuple(value) if isinstance(value, v.Elements) else value


def _dict(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> dict[Any, Any]:
    (given,) = arguments or ({},)
    return {**dict(given), **dict(keywords.items())}


def _list(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    (value,) = arguments or ((),)
    if isinstance(value, v.Tensors):
        raise DraftError(host.place(node), "a copy of a list of tensors is not translated", "use the list itself")
    if isinstance(value, v.OfEach):
        return host.list_of_each(value, node)
    return v.listed(host.series(value, node) if isinstance(value, (range, dict)) else value)


def _str(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    (value,) = arguments
    parts = host.in_words(value, node)
    return "".join(parts) if all(isinstance(p, str) for p in parts) else v.Text(tuple(parts))  # type: ignore[arg-type]


def _bool(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    (value,) = arguments
    return host.truth(host.number_of(value, node) if isinstance(value, v.Tensor) else value)


def _is_instance(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> bool:
    value, kinds = arguments
    if isinstance(value, (v.Number, bool, int, float)):
        kind: type = {v.INT: int, v.FLOAT: float, v.BOOL: bool}[v.number(value).type]
    elif isinstance(value, v.Tensor | v.Text | v.DtypeOf):
        kind = {v.Tensor: torch.Tensor, v.Text: str, v.DtypeOf: torch.dtype}[type(value)]
    else:
        raise DraftError(host.place(node), "the type of this is not known while drafting", "annotate the parameter")
    return issubclass(kind, kinds)


def _all_or_any(all_of: bool) -> Handler:
    def write(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
        (values,) = arguments
        if isinstance(values, v.OfEach):
            return _all_or_any_of_each(host, values, node, all_of=all_of)
        if not isinstance(values, tuple):
            raise DraftError(
                host.place(node),
                "how many conditions these are is not known while drafting",
                "write a tuple, or a comprehension over one",
            )
        return host.joined(all_of, [host.truth(each) for each in values])

    return write


def _all_or_any_of_each(host: Host, each: v.OfEach, node: ast.Call, *, all_of: bool) -> v.Number:
    if each.place:
        problem = "conditions on sizes and their indices are not translated"
        raise DraftError(host.place(node), problem, "write a loop, or leave enumerate out")
    test, condition = host.truth(each.value), each.condition
    if all_of and condition is not True:
        condition = host.negation(v.number(condition))
    joined = host.joined(not all_of, [test, condition]) if each.condition is not True else test
    sizes, how = text_of(host.dims(each.sizes, node)), "all_of" if all_of else "any_of"
    text = f"[&](int64_t {each.name}) {{ return {expression(v.number(joined).expr)}; }}"
    numbers = cpp.Name(f"trifold::{how}({sizes}, {text})", type=v.BOOL)
    return v.Number(numbers, v.BOOL)


def _length(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    (value,) = arguments
    whole = whole_shape(value)
    if whole is not None:
        return host.dimensions_of(whole)
    numbers = host.numbers_in(value)
    if numbers is not None:
        return len(numbers)
    if isinstance(value, v.Tensor):
        return host.size(value, 0)
    if isinstance(value, v.Sizes | v.Floats | v.Tensors):
        return host.length(value)
    raise DraftError(
        host.place(node), "this length is not known while drafting", "write x.numel(), x.dim() or x.shape[0]"
    )


def _limits_of(of: Any) -> Handler:
    """``torch.finfo(dtype)`` or ``torch.iinfo(dtype)``."""

    def write(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
        (dtype,) = arguments
        return of(dtype) if isinstance(dtype, torch.dtype) else v.Limits(of, dtype, host.scalar(dtype, node))

    return write


def _device_properties(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.DeviceProperties:
    device = arguments[0] if arguments else keywords.get("device")
    if not isinstance(device, v.DeviceOf) or device.tensor is None:
        problem = "the properties of a device that is not a tensor's are not translated"
        raise DraftError(host.place(node), problem, "write torch.cuda.get_device_properties(x.device)")
    return v.DeviceProperties(device.tensor)


def _of_series(function: Any) -> Handler:
    """``zip``, ``enumerate`` or ``reversed``."""

    def write(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
        series = (tuple, list, range, dict, v.Shape)
        given = [host.series(x, node) if isinstance(x, series) else x for x in arguments]
        return tuple(function(*given, **dict(keywords.items())))

    return write


HANDLERS: dict[Any, Handler] = {
    **{function: _of_series(function) for function in (zip, enumerate, reversed)},
    prototype.check_floating: _check_floating,
    prototype.check_alike: _check_alike,
    prototype.elementwise_output: _elementwise_output,
    prototype.row_output: _row_output,
    prototype.rows: _rows,
    prototype.flat: _flat,
    **host_launch.HANDLERS,
    prototype.threads_for: _threads_for,
    torch.empty: _empty,
    torch.empty_like: _empty_like,
    torch.full: full_of(_empty),
    torch.full_like: full_of(_empty_like),
    torch.ones: ones_of(_empty),
    torch.ones_like: ones_of(_empty_like),
    torch.zeros: zeros_of(_empty),
    torch.zeros_like: zeros_of(_empty_like),
    torch.finfo: _limits_of(torch.finfo),
    torch.iinfo: _limits_of(torch.iinfo),
    torch.cuda.get_device_properties: _device_properties,
    torch.view_as_real: as_reals,
    torch.view_as_complex: as_complex,
    divmod: _divmod,
    abs: _abs,
    min: _least("min"),
    max: _least("max"),
    math.isfinite: _is_finite,
    math.ceil: _whole_number("ceil"),
    math.floor: _whole_number("floor"),
    **{getattr(math, name): _of_a_number(getattr(math, name)) for name in _FUNCTIONS_OF_CMATH.split()},
    int: _int,
    float: _float,
    np.float32: _float32,
    np.int64: _int,
    math.prod: _product,
    pow: _power,
    math.pow: lambda host, arguments, keywords, node: _power(
        host, [_float(host, (each,), {}, node) for each in arguments], keywords, node
    ),
    sum: _sum,
    all: _all_or_any(True),
    any: _all_or_any(False),
    tuple: _tuple,
    list: _list,
    dict: _dict,
    str: _str,
    bool: _bool,
    isinstance: _is_instance,
    len: _length,
    **host_pieces.HANDLERS,
    np.errstate: lambda host, arguments, keywords, node: None,
}
