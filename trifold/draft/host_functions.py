"""The functions that a launch function may call: those of :mod:`trifold.prototype`, and a few of Python and torch."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numba import types

from trifold import prototype
from trifold.draft import cpp, host_pieces
from trifold.draft import host_values as v
from trifold.draft.host import Host, Launch
from trifold.draft.host_conditions import call, infix, scalar_of, text_of, whole_shape
from trifold.draft.host_powers import as_float
from trifold.draft.host_tensors import count_of, full_of, new_empty, new_like, of_dtype, ones_of, sizes_given, zeros_of
from trifold.draft.printer import expression
from trifold.draft.refusal import DraftError
from trifold.draft.tree import Interval

Handler = Callable[[Host, Any, dict[str, Any], ast.Call], Any]

_MOST_INSTANCES = 32  # of a kernel: four floating types of two tensors, and two types of indices


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
    host.set_dtypes(x, v.FLOATING)
    for _, y in others:
        y.known, y.choices = x.dtypes, ()
        x.take_shape_of(y)


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


def _output(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    return _output_of(arguments[0])


def _output_of(value: Any) -> Any:
    if isinstance(value, v.Either):
        return v.Either(value.test, _output_of(value.chosen), _output_of(value.otherwise))
    return v.Output(value)


def _launch(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> None:
    kernel, grid, *given = arguments
    passed = [_as_now(host.with_known_range(each)) if isinstance(each, v.Number) else each for each in given]
    block = keywords.get("block", v.THREADS_PER_BLOCK)
    given_extents = [host.series(e, node) if isinstance(e, (tuple, v.Shape)) else (e,) for e in (grid, block)]
    extents = [tuple(_not_empty(host, _as_now(v.number(n))) for n in each) for each in given_extents]
    number = next((n for n, each in enumerate(arguments) if isinstance(each, v.Either)), None)
    if number is not None:
        one_of = arguments[number]
        holds = host.holds.get(text_of(one_of.test.expr))
        if holds is not None:
            known = one_of.chosen if holds else one_of.otherwise
            _launch(host, (*arguments[:number], known, *arguments[number + 1 :]), keywords, node)
            return
        into = host.into
        bodies: list[list[cpp.Stmt]] = []
        for each in (one_of.chosen, one_of.otherwise):
            body: list[cpp.Stmt] = []
            host.into = body
            _launch(host, (*arguments[:number], each, *arguments[number + 1 :]), keywords, node)
            bodies.append(body)
        host.into = into
        into.append(cpp.If(one_of.test.expr, bodies[0], bodies[1]))
        return
    _require_key(host, passed, node)
    free, of_key = _free(host, kernel, passed, node)
    if free or of_key:
        passed = _for_each_combination(host, passed, list(free.values()), of_key)
    over = tuple((name, tensor.choices) for name, tensor in free.items())
    extents[0] = _in_variables(host, extents[0])
    shared = _as_now(v.number(keywords.get("shared", 0)))
    key_array = _parameter_of(host.key, kernel, given) if free else ""
    place, dtypes = host.place(node), (tuple(free.values()), over, key_array)
    tensors = {n: each.expr for n, one in enumerate(passed) if (each := _tensor(one)) is not None}
    one = Launch(kernel, extents[0], extents[1], shared, passed, place, tensors, host.possible, *dtypes)
    _check_devices(host, passed)
    host.launches.append(one)
    host.into.append(one)


def _require_key(host: Host, passed: list[Any], node: ast.Call) -> None:
    """The dtype of a list's tensors is known where a loop has them."""
    of_key = [
        each
        for each in host.arguments.values()
        if isinstance(each, v.Tensors) and each.element is host.key and host.key
    ]
    tensors = [tensor for each in passed if (tensor := _tensor(each)) is not None]
    if any(not each.looped for each in of_key) and any(len({*(each.dtypes or ())}) > 1 for each in tensors):
        name = of_key[0].expr.text
        raise DraftError(
            host.place(node),
            f"the dtype that decides which kernel this is, is that of a tensor of {name}, in a loop over {name}",
            f"launch it in a loop over {name} and the other lists: for ... in zip({name}, ...)",
        )


def _check_devices(host: Host, passed: list[Any]) -> None:
    """What a kernel is launched with must be on one device: a GPU's kernel cannot read the host's memory."""
    launched = [tensor for each in passed if (tensor := _tensor(each)) is not None]
    keep = host.into is host.body
    arguments = host.arguments | host.of_lists
    for pair in host.one_device.unknown(arguments, launched, host.key, keep=keep):
        named = (part for name in pair for part in (_expression_of(arguments[name]), host.message_part(name)))
        op = host.message_part(host.function.__name__)
        host.into.append(cpp.Run(call("trifold::check_same_device", op, *named)))


def _expression_of(argument: v.Tensor | v.Tensors) -> cpp.Expr:
    """A tensor; of a list, that of an iteration."""
    if isinstance(argument, v.Tensors):
        assert argument.element is not None
        return argument.element.expr
    return argument.expr


def _as_now(number: v.Number) -> v.Number:
    """A number with the range that it has at a launch: a later check may narrow it."""
    return dataclasses.replace(number)


def _not_empty(host: Host, extent: v.Number) -> v.Number:
    """An extent of a grid, which is positive if a condition around the launch says so."""
    if not host.holds.get(text_of(infix(">", extent, v.number(0), v.BOOL).expr)):
        return extent
    least, most = extent.interval or v.SIZE
    return dataclasses.replace(extent, interval=(max(least, 1), most))


def _free(host: Host, kernel: Any, passed: list[Any], node: ast.Call) -> tuple[dict[str, v.Tensor], list[v.Tensor]]:
    """The tensors whose checks allow several dtypes, whatever the key's is, by the kernel's parameter; and those that
    must have the key's dtype, which the binding checks, since there would otherwise be too many kernels."""
    free: dict[str, v.Tensor] = {}
    for name, argument in zip(inspect.signature(kernel.py_func).parameters, passed, strict=False):
        tensor = _tensor(argument)
        if tensor is not None and tensor.root.choices and tensor.root not in free.values():
            free[name] = tensor.root
    of_key: list[v.Tensor] = []
    if _kernels_for(host, free) > _MOST_INSTANCES:
        of_key = [each for each in free.values() if each.choices == host.key_dtypes]
        free = {name: each for name, each in free.items() if each not in of_key}
    if _kernels_for(host, free) > _MOST_INSTANCES:
        raise DraftError(
            host.place(node),
            f"{_kernels_for(host, free)} combinations of dtypes of {', '.join(free)}",
            "check that some of them are of one dtype, or of that of another tensor",
        )
    for each in of_key:
        assert host.key is not None
        words = f"{host.function.__name__}: {text_of(each.expr)} must have the dtype of {text_of(host.key.expr)}"
        same = cpp.Infix("==", scalar_of(each), scalar_of(host.key), type=v.BOOL)
        check = cpp.Run(call("trifold::check", same, host.message_part(words)))
        if check not in host.body:
            host.into.append(check)
    return free, of_key


def _in_variables(host: Host, grid: tuple[v.Number, ...]) -> tuple[v.Number, ...]:
    """Whether the grid is computed, and would be written twice: in the launch, and in the test for an empty grid."""
    row = all(each.interval == (1, 1) for each in grid[1:])
    names = ["blocks" if row else f"blocks_{letter}" for letter in "xyz"]
    computed = [isinstance(each.expr, cpp.Infix | cpp.Ternary) or _is_rounded_up(each.expr) for each in grid]
    return tuple(
        host.named(each, name, host.into) if wanted else each
        for each, name, wanted in zip(grid, names, computed, strict=False)
    )


def _is_rounded_up(expr: cpp.Expr) -> bool:
    return isinstance(expr, cpp.CallTo) and expr.function in (
        "trifold::ceil_div",
        "std::min<int64_t>",
        "std::max<int64_t>",
    )


def _parameter_of(key: v.Tensor | None, kernel: Any, passed: list[Any]) -> str:
    names = inspect.signature(kernel.py_func).parameters
    tensors = [_tensor(each) for each in passed]
    return next((name for name, x in zip(names, tensors, strict=False) if x is not None and x.root is key), "key")


def _kernels_for(host: Host, free: dict[str, v.Tensor]) -> int:
    return math.prod((len(host.key_dtypes), *(len(each.choices) for each in free.values())))


def _for_each_combination(host: Host, passed: list[Any], free: list[v.Tensor], of_key: list[v.Tensor]) -> list[Any]:
    """The arguments, with the dtypes of each tensor for each dtype of the key and of the free tensors."""
    columns: list[list[v.Dtypes | None]] = []
    for each in of_key:
        each.known = host.key_dtypes
    tensors = [_tensor(each) for each in passed]
    for combination in itertools.product(*(each.choices for each in free)):
        for each, dtype in zip(free, combination, strict=True):
            each.known = (dtype,) * len(host.key_dtypes)
        columns.append([None if tensor is None else tensor.dtypes for tensor in tensors])
    for each in (*free, *of_key):
        each.known = None
    made: list[Any] = []
    for argument, tensor, *dtypes in zip(passed, tensors, *columns, strict=True):
        known = [each for each in dtypes if each is not None]
        if tensor is not None and len(known) == len(columns):
            whole = [each if len(each) > 1 else each * len(host.key_dtypes) for each in known]
            in_turn = tuple(each[n] for n in range(len(host.key_dtypes)) for each in whole)
            tensor = dataclasses.replace(tensor, known=in_turn, like=None, choices=(), one_of=(tensor,))
            argument = v.Output(tensor) if isinstance(argument, v.Output) else tensor
        made.append(argument)
    return made


def _tensor(argument: Any) -> v.Tensor | None:
    given = argument.tensor if isinstance(argument, v.Output) else argument
    return given if isinstance(given, v.Tensor) else None


def _launch_elementwise(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> None:
    kernel, n, *passed = arguments
    blocks = host.named(host._ceil(n, v.THREADS_PER_BLOCK), "blocks", host.into)
    _launch(host, (kernel, blocks, *passed), {}, node)


def _threads_for(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    columns = arguments[0] if arguments else keywords["columns"]
    if not isinstance(columns, v.Number):
        return prototype.threads_for(columns)
    interval = (prototype.threads_for(1), prototype.threads_for(2**62))
    return v.Number(cpp.CallTo("trifold::threads_for", (columns.expr,), type=v.INT, interval=interval), v.INT, interval)


def _empty(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> v.Tensor:
    device = keywords.pop("device", None)
    dtype = keywords.get("dtype")
    if not isinstance(device, v.DeviceOf) or dtype is None:
        raise DraftError(host.place(node), "torch.empty needs a device and a dtype", "use x.new_empty(...)")
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
    result, *others = arguments[0]
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
    if isinstance(value, v.Sizes | v.Tensors):
        return host.length(value)
    raise DraftError(
        host.place(node), "this length is not known while drafting", "write x.numel(), x.dim() or x.shape[0]"
    )


def _limits_of(host: Host, arguments: Any, keywords: dict[str, Any], node: ast.Call) -> Any:
    """``torch.finfo(dtype)``."""
    (dtype,) = arguments
    if isinstance(dtype, torch.dtype):
        return torch.finfo(dtype)
    return v.FloatLimits(dtype, host.scalar(dtype, node))


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
    prototype.output: _output,
    prototype.launch: _launch,
    prototype.launch_elementwise: _launch_elementwise,
    prototype.threads_for: _threads_for,
    torch.empty: _empty,
    torch.empty_like: _empty_like,
    torch.full: full_of(_empty),
    torch.full_like: full_of(_empty_like),
    torch.ones: ones_of(_empty),
    torch.ones_like: ones_of(_empty_like),
    torch.zeros: zeros_of(_empty),
    torch.zeros_like: zeros_of(_empty_like),
    torch.finfo: _limits_of,
    divmod: _divmod,
    abs: _abs,
    min: _least("min"),
    max: _least("max"),
    math.isfinite: _is_finite,
    math.ceil: _whole_number("ceil"),
    math.floor: _whole_number("floor"),
    **{function: _of_a_number(function) for function in (math.sqrt, math.exp, math.log, math.log2, math.fabs)},
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
    str: _str,
    bool: _bool,
    len: _length,
    **host_pieces.HANDLERS,
    np.errstate: lambda host, arguments, keywords, node: None,
}
