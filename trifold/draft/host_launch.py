"""The launch of a kernel by a launch function."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import math
from typing import Any

from trifold import prototype
from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.host import Host, Launch
from trifold.draft.host_cpp import call, infix, scalar_of, text_of
from trifold.draft.refusal import DraftError

_MOST_INSTANCES = 32  # of a kernel: four floating types of two tensors, and two types of indices


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
        check: cpp.Stmt = cpp.Run(call("trifold::check_same_device", op, *named))
        for name in pair:
            if not arguments[name].present:
                check = cpp.If(call(f"{text_of(arguments[name].expr)}.has_value"), [check], [])
        host.into.append(check)


def _expression_of(argument: v.Tensor | v.Tensors) -> cpp.Expr:
    """A tensor; of a list, that of an iteration."""
    if isinstance(argument, v.Tensors):
        assert argument.element is not None
        return argument.element.expr
    return argument.expr if argument.present else call(f"{text_of(argument.expr)}.value")


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


HANDLERS: dict[Any, Any] = {
    prototype.output: _output,
    prototype.launch: _launch,
    prototype.launch_elementwise: _launch_elementwise,
}
