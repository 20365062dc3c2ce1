"""Kernels of single operations: every operator, cast and function on every type.

A kernel has a thread for each operand. What it computes goes to a row of ``f`` (floats, as float64) or of ``i``
(integers, as int64), so that every result is recorded exactly.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.simulator.arithmetic.values import FLOATS, INTEGERS, KINDS, column
from trifold import _simulator

_BINARY = {
    "add": "x + y",
    "sub": "x - y",
    "mul": "x * y",
    "truediv": "x / y",
    "floordiv": "x // y",
    "mod": "x % y",
    "lshift": "x << y",
    "rshift": "x >> y",
    "and": "x & y",
    "or": "x | y",
    "xor": "x ^ y",
    "lt": "x < y",
    "le": "x <= y",
    "eq": "x == y",
    "ne": "x != y",
    "min": "min(x, y)",
    "max": "max(x, y)",
    "divmod 0": "divmod(x, y)[0]",
    "divmod 1": "divmod(x, y)[1]",
}
_INTEGERS_ONLY = ("lshift", "rshift", "and", "or", "xor")
_LITERALS = (
    "x + 1",
    "3 - x",
    "x * 2.5",
    "x / 3",
    "1 / x",
    "x // 3",
    "-7 // x",
    "x % 7",
    "x % -2.5",
    "x ** 2",
    "x ** 3",
)
_LITERALS_OF_INTEGERS = ("x << 3", "x >> 2", "x & 255", "x | 1", "x ^ -1", "~x")
_UNARY = ("-x", "+x", "not x", "abs(x)", "round(x)", "int(x)", "float(x)", "bool(x)", "round(x, 2)")
_REFUSED = (("bool", "float(x)"), ("float16", "bool(x)"))  # by Numba; the second by its code generator


@dataclass
class Case:
    """A kernel and its operands.

    Attributes:
        inputs: columns, one element for each thread.
        labels: what each row of results holds, in the order of the statements.
        letters: for each label ``f`` or ``i``: which array its row is in.
    """

    name: str
    inputs: list[np.ndarray[Any, Any]]
    body: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    letters: str = ""
    parameters: str = "xy"

    def add(self, label: str, expression: str, integer: bool) -> None:
        letter = "i" if integer else "f"
        self.body.append(f"{letter}[{self.letters.count(letter)}, t] = {expression}")
        self.labels.append(label)
        self.letters += letter

    @property
    def source(self) -> str:
        names = self.parameters[: len(self.inputs)]
        lines = [f"def kernel({', '.join(name + 's' for name in names)}, f, i):", "    t = cuda.grid(1)"]
        lines.append(f"    if t < {len(self.inputs[0])}:")
        lines.extend(f"        {name} = {name}s[t]" for name in names)
        return "\n".join([*lines, *(f"        {line}" for line in self.body), ""])


def seed_of(name: str) -> int:
    """The same for a name on every platform."""
    return zlib.crc32(name.encode())


def columns(name: str, kinds: Sequence[str], count: int) -> list[np.ndarray[Any, Any]]:
    return [column(kind, count, seed_of(f"{name} {place} {kind}")) for place, kind in enumerate(kinds)]


def _is_integer(value: Any) -> bool:
    return not isinstance(value, float | _simulator.float32 | _simulator.float16)


def _pairs() -> Iterator[Case]:
    for left in KINDS:
        for right in KINDS:
            name = f"{left} {right}"
            case = Case(name, columns(name, (left, right), 20))
            floats = left in FLOATS or right in FLOATS
            x, y = (_CASTS[kind](1) for kind in (left, right))
            for label, expression in _BINARY.items():
                if floats and label in _INTEGERS_ONLY:
                    continue
                if label in ("min", "max") and (left == "bool") != (right == "bool"):
                    continue  # numba-cuda refuses it
                case.add(label, expression, _is_integer(evaluate(expression, {"x": x, "y": y})))
            yield case


def _powers() -> Iterator[Case]:
    """Exponents that Numba's loop handles: it raises for the lowest integer, and a GPU's thread then just ends."""
    for left in KINDS:
        for right in KINDS:
            name = f"pow {left} {right}"
            inputs = columns(name, (left, right), 12)
            if right not in ("bool", *FLOATS):
                inputs[1] = (inputs[1] % np.dtype(right).type(23)).astype(right)
                if right.startswith("int"):
                    inputs[1] -= np.dtype(right).type(5)
            case = Case(name, inputs)
            x, y = (_CASTS[kind](1) for kind in (left, right))
            case.add("pow", "x ** y", _is_integer(_NAMES["pow"](x, y)))
            yield case


def _unaries() -> Iterator[Case]:
    for kind in KINDS:
        case = Case(f"unary {kind}", columns(f"unary {kind}", (kind,), 40))
        one = _CASTS[kind](1)
        expressions = [*_UNARY, *_LITERALS, *(_LITERALS_OF_INTEGERS if kind not in FLOATS else ())]
        for expression in expressions:
            if (kind, expression) in _REFUSED:
                continue
            case.add(expression, expression, _is_integer(evaluate(expression, {"x": one})))
        for cast in KINDS[1:]:
            case.add(cast, f"np.{cast}(x)", cast not in FLOATS)
        if kind in INTEGERS:
            for name in ("popc", "clz", "brev"):
                case.add(name, f"cuda.{name}(x)", True)
        if kind in ("int32", "uint32", "int64", "uint64"):
            case.add("ffs", "cuda.ffs(x)", True)
        yield case


def _stores() -> Iterator[Case]:
    """A value of each type, stored in an element of each other: Numba converts it."""
    for kind in KINDS:
        case = Case(f"store {kind}", columns(f"store {kind}", (kind,), 24))
        for target in KINDS[kind == "float16" :]:  # numba-cuda cannot compile float16 to bool
            case.body.append(f"s{target} = cuda.local.array(1, np.{target if target != 'bool' else 'bool_'})")
            case.body.append(f"s{target}[0] = x")
            case.add(target, f"s{target}[0]", target not in FLOATS)
        yield case


def _atomics() -> Iterator[Case]:
    """Atomic operations one after the other on a thread's own element: what each returned, and what it left."""
    for kind in ("int32", "uint32", "int64", "uint64", "float32", "float64"):
        name = f"atomic {kind}"
        case = Case(name, columns(name, (kind,) * 3, 32), parameters="xyz")
        operations = ["add", "sub", "max", "min", "nanmax", "nanmin"]
        operations += ["and_", "or_", "xor", "exch"] if kind not in FLOATS else []
        operations += ["inc", "dec"] if kind.startswith("uint") else []
        for place, operation in enumerate(operations):
            operand = "yz"[place % 2]
            case.add(f"{operation} old", f"cuda.atomic.{operation}(xs, t, {operand})", kind not in FLOATS)
            case.add(f"{operation} new", "xs[t]", kind not in FLOATS)
        if kind not in FLOATS:
            for label, old in (("cas hit", "xs[t]"), ("cas miss", "xs[t] + 1")):
                case.add(f"{label} old", f"cuda.atomic.cas(xs, t, {old}, y)", True)
                case.add(f"{label} new", "xs[t]", True)
        yield case


_CASTS: dict[str, Any] = {kind: getattr(_simulator, "boolean" if kind == "bool" else kind) for kind in KINDS}
_NAMES = {name: getattr(_simulator, name) for name in ("min", "max", "divmod", "abs", "round", "int", "float", "pow")}
_NAMES["bool"] = _simulator.boolean


def evaluate(expression: str, names: dict[str, Any]) -> Any:
    """An expression's value by the classes' own operators, of operands for which Python's do not raise."""
    return eval(expression, {**_NAMES, **names})


def single_operations() -> Iterator[Case]:
    """Cases whose results must agree bit for bit, but for powers of floats."""
    yield from _pairs()
    yield from _powers()
    yield from _unaries()
    yield from _stores()
    yield from _atomics()
