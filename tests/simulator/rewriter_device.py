"""A device for the tests of the rewriter: its functions return or yield their arguments instead of computing."""

from __future__ import annotations

import ast
import inspect
import math
import types
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from trifold.simulator.rewriter import Builder, Operation, Program, Runtime


def barrier() -> Any:
    raise AssertionError("called, not yielded")


def shuffle(*operands: Any, **more: Any) -> Any:
    raise AssertionError("called, not yielded")


class Jitted:
    """The result of :func:`jit`, as of @cuda.jit."""

    def __init__(self, fn: Any) -> None:
        self.fn: types.FunctionType = fn

    def __call__(self, *arguments: Any) -> Any:
        raise AssertionError("called as an object")


def jit(fn: Callable[..., Any]) -> Jitted:
    return Jitted(fn)


def product(a: Any, b: Any) -> Any:
    return ("product", a, b)


def quotient(a: Any, b: Any) -> Any:
    return ("quotient", a, b)


def total(a: Any, b: Any) -> Any:
    return a + b if not isinstance(a, tuple) else ("sum", a, b)


def device_sqrt(x: Any) -> Any:
    return ("sqrt", x)


class Index:
    x = 5


index = Index()
lane = object()
api: Any = types.SimpleNamespace(barrier=barrier, shuffle=shuffle, index=index, lane=lane)


class Vocabulary:
    grid_sync = Operation("sync", 9)

    def operation(self, value: Any) -> Operation | None:
        if value is barrier:
            return Operation("barrier", None)
        return Operation("shuffle", 1, (("mask", ...), ("value", ...), ("lane", 0))) if value is shuffle else None

    def is_namespace(self, value: Any) -> bool:
        return value is api

    def is_atomic(self, value: Any) -> bool:
        return False

    def is_device_array(self, value: Any) -> bool:
        return False

    def is_question(self, value: Any) -> bool:
        return value is lane

    def device_function(self, value: Any) -> types.FunctionType | None:
        return value.fn if isinstance(value, Jitted) else None

    def called(self, value: Any) -> Any | None:
        return device_sqrt if value is math.sqrt else None

    def value(self, value: Any) -> Any | None:
        return value if value is index else None

    def literal(self, value: int) -> Any | None:
        return ("long", value) if value >= 2**31 else None


class Returned:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __iter__(self) -> Returned:
        return self

    def __next__(self) -> Any:
        raise StopIteration(self.value)


def dynamic(callee: Any) -> Any:
    if isinstance(callee, Jitted):
        return program(callee).function
    return {math.sqrt: device_sqrt}.get(callee, callee)


conversions = {np.float32: lambda value: ("float32", value)}


def runtime(site: Callable[[int], int]) -> Runtime:
    arithmetic: dict[type[ast.AST], Any] = {ast.Mult: product, ast.Div: quotient, ast.Add: total}
    awaited = lambda result: result if isinstance(result, types.GeneratorType) else Returned(result)  # noqa: E731
    return Runtime(arithmetic, (index,), dynamic, awaited, conversions, site, poll=7)


builder = Builder(
    vocabulary=Vocabulary(),
    runtime=runtime,
    site=lambda file, line, function: line,
    might_wait=lambda function: "barrier" in function.__code__.co_names,
    as_generator=lambda function: function,
)


def program(kernel: Any) -> Program:
    return builder.build(kernel.fn if isinstance(kernel, Jitted) else kernel)


def run(kernel: Any, *arguments: Any, replies: dict[Any, Any] | None = None) -> tuple[Any, list[Any]]:
    """Return the result of the rewritten kernel, and its requests, each of which is answered from ``replies``."""
    made = program(kernel)
    result = made.function(*arguments)
    if not made.waits:
        return result, []
    assert isinstance(result, Generator)
    requests: list[Any] = []
    reply = None
    while True:
        try:
            request = result.send(reply)
        except StopIteration as end:
            return end.value, requests
        requests.append(request)
        reply = (replies or {}).get(request)


def line_of(kernel: Any, marker: str) -> int:
    function = kernel.fn if isinstance(kernel, Jitted) else kernel
    lines, first = inspect.getsourcelines(function)
    return next(first + i for i, line in enumerate(lines) if marker in line)
