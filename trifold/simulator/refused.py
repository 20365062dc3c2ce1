"""Reports code that the simulator runs but Numba's CUDA target does not compile, at its line, with a remedy.

A refusal is a warning: the launch continues. Code that only numba's own target refuses, and numba-cuda compiles, is a
lint.
"""

from __future__ import annotations

import ast
import builtins
import importlib.metadata
import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from trifold import _simulator
from trifold.acceptance import Acceptance
from trifold.findings import Access, Finding, Severity

Resolve = Callable[[ast.expr], Any]

_NUMPY = (
    *("abs", "add", "cbrt", "ceil", "clip", "copysign", "dot", "exp", "exp2", "expm1", "fabs", "floor", "floor_divide"),
    *("fmod", "ldexp", "log1p", "logaddexp", "mod", "multiply", "ndim", "negative", "nextafter", "positive", "power"),
    *("reciprocal", "remainder", "rint", "sign", "signbit", "sqrt", "square", "subtract", "trunc", "where"),
)
_MATH = ("cbrt", "comb", "dist", "factorial", "fsum", "gcd", "isclose", "isqrt", "lcm", "perm", "prod", "ulp")
_BUILTINS = ("all", "any", "bin", "chr", "dict", "filter", "frozenset", "hash", "hex", "list", "map", "reversed", "set")
_INSTEAD = {
    "numpy.where": "write a if c else b",
    "numpy.clip": "write min(max(x, low), high)",
    "numpy.abs": "write abs(x)",
    "builtins.reversed": "write a range with a negative step",
}
# By identity: NumPy's functions compare as arrays do.
_FUNCTIONS: dict[int, str] = {
    id(getattr(module, name)): f"{module.__name__}.{name}"
    for module, names in ((np, _NUMPY), (math, _MATH), (builtins, (*_BUILTINS, "sorted")))
    for name in names
    if hasattr(module, name)
}
_SYNTAX: dict[type[ast.AST], tuple[str, str]] = {
    ast.Dict: ("a dict", "use an array or a tuple"),
    ast.Set: ("a set", "use a tuple, or compare with each"),
    ast.ListComp: ("a list", "use cuda.local.array"),
    ast.SetComp: ("a set", "use an array"),
    ast.DictComp: ("a dict", "use an array"),
    ast.GeneratorExp: ("a generator", "write a loop"),
    ast.JoinedStr: ("an f-string", "pass the parts to print one by one"),
    ast.Try: ("try", "check before, and return or assign a status"),
    ast.With: ("with", "write what it does"),
    ast.Import: ("an import", "import at the top of the module"),
    ast.ImportFrom: ("an import", "import at the top of the module"),
}


@dataclass(frozen=True)
class Refusal:
    """One place that does not compile.

    Attributes:
        what: the code, and why it does not compile.
        remedy: code that does.
        own_target: only numba's own target refuses it; numba-cuda does not.
    """

    line: int
    what: str
    remedy: str
    own_target: bool = False


def refusals(node: ast.AST, resolve: Resolve, device_function: Callable[[Any], Any]) -> list[Refusal]:
    """Refusals in a kernel or a device function that its source alone shows."""
    reader = _Reader(node, resolve, device_function)
    body = node.body if isinstance(node, ast.FunctionDef) else [node]  # not its decorators and annotations
    return [found for part in body for inner in ast.walk(part) for found in reader.read(inner)]


def of_tuple(node: ast.expr, kinds: Iterable[Any]) -> Refusal:
    """A loop over a tuple of several types."""
    return Refusal(
        node.lineno,
        f"iterates over a tuple of several types ({', '.join(map(str, kinds))})",
        "convert all to one type, as in (np.int64(a), np.int64(b)), or write out what is done with each",
    )


def of_element(node: ast.expr, kinds: Iterable[Any]) -> Refusal:
    """An element of a tuple of several types, by a variable."""
    return Refusal(
        node.lineno,
        f"indexes a tuple of several types ({', '.join(map(str, kinds))}) by a variable",
        "convert all to one type, or index by a constant",
    )


def findings(kernel: str, function: FunctionType, found: Iterable[Refusal]) -> Iterator[Finding]:
    """The report on these places of a function."""
    file, name = function.__code__.co_filename, function.__qualname__
    for each in found:
        if each.own_target and _has_numba_cuda():
            continue
        target = "numba's own CUDA target (numba-cuda's does)" if each.own_target else "Numba's CUDA target"
        message = (
            f"{name} at {inspect.getsourcefile(function) or file}:{each.line} {each.what}: it runs here, but {target} "
            f"does not compile it: {each.remedy}"
        )
        severity: Severity = "lint" if each.own_target else "warning"
        access = Access((0, 0, 0), (0, 0, 0), None, "", file, each.line, name)
        yield Finding("does not compile", severity, kernel, "", "", (), message, (access,), None)


def accepted_by(finding: Finding, acceptances: Iterable[Acceptance]) -> Acceptance | None:
    """The first that accepts it."""
    place = finding.accesses[0]
    for each in acceptances:
        line = each.line in (0, place.line)
        fields = ((each.kernel, finding.kernel), (each.file, place.file))
        if each.kind == finding.kind and line and all(not p or fnmatchcase(value, p) for p, value in fields):
            return each
    return None


@cache
def _has_numba_cuda() -> bool:
    try:
        importlib.metadata.version("numba-cuda")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


class _Reader:
    def __init__(self, node: ast.AST, resolve: Resolve, device_function: Callable[[Any], Any]) -> None:
        self._resolve = resolve
        self._device_function = device_function
        self._iterated = {inner.iter for inner in ast.walk(node) if isinstance(inner, ast.For)}
        self._assigned = {inner.value for inner in ast.walk(node) if isinstance(inner, ast.Assign | ast.AnnAssign)}
        self._values = dict(_values(node))

    def read(self, node: ast.AST) -> Iterator[Refusal]:
        """Refusals of this node itself, not of its parts."""
        if (known := _SYNTAX.get(type(node))) is not None:
            yield Refusal(_line(node), f"has {known[0]}", known[1])
        elif isinstance(node, ast.List) and isinstance(node.ctx, ast.Load) and node not in self._iterated:
            yield Refusal(node.lineno, "has a list", "use a tuple, or cuda.local.array")
        elif isinstance(node, ast.NamedExpr) and node not in self._assigned:
            yield Refusal(
                node.lineno,
                f"assigns {node.target.id} by := within an expression",
                f"assign {node.target.id} in a statement of its own before it",
            )
        elif isinstance(node, ast.Starred) and isinstance(node.ctx, ast.Store):
            yield Refusal(node.lineno, "unpacks with *", "name each part, or index the tuple")
        elif isinstance(node, ast.Call):
            yield from self._call(node)

    def _call(self, node: ast.Call) -> Iterator[Refusal]:
        callee = self._resolve(node.func)
        if (name := _FUNCTIONS.get(id(callee))) is not None:
            instead = _INSTEAD.get(name, "use math's function, an operator or a loop")
            yield Refusal(node.lineno, f"calls {name}", instead)
        elif callee is min or callee is max:
            instead = "write a if a < b else b, or install numba-cuda"
            yield Refusal(node.lineno, f"calls {callee.__name__}", instead, own_target=True)
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "array":
            space = self._resolve(node.func.value)
            if space is _simulator.shared or space is _simulator.local:
                yield from self._array(node)
        elif (function := self._device_function(callee)) is not None:
            given = len(node.args) + len(node.keywords)
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            if node.keywords or (not starred and given < function.__code__.co_argcount):
                what = f"calls {function.__name__} with arguments by keyword or left out"
                yield Refusal(node.lineno, what, "pass all by position, or install numba-cuda", own_target=True)

    def _array(self, node: ast.Call) -> Iterator[Refusal]:
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        shape = node.args[0] if node.args else given.get("shape")
        dtype = node.args[1] if len(node.args) > 1 else given.get("dtype")
        array = ast.unparse(node.func)
        if shape is not None and not self._is_shape(shape):
            yield Refusal(
                node.lineno,
                f"gives {array} the shape {ast.unparse(shape)}, which is not a constant to Numba",
                "write a literal, or compute it outside the kernel and name it there: an int, or a tuple of ints",
            )
        kind = None if dtype is None else self._resolve(dtype)
        if kind is int or kind is float:
            name = kind.__name__
            yield Refusal(node.lineno, f"gives {array} the dtype {name}", f"name NumPy's or Numba's: np.{name}64")

    def _is_shape(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Tuple):
            return all(map(self._is_extent, node.elts))
        if isinstance(node, ast.Name) and (known := self._constant(node)) is not None:
            return known
        return self._is_extent(node)

    def _is_extent(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name) and (known := self._constant(node)) is not None:
            return known
        if isinstance(node, ast.BinOp):  # of literals: CPython computes it
            return self._is_literal(node)
        return self._is_literal(node) or isinstance(node, ast.Starred)

    @staticmethod
    def _is_literal(node: ast.expr) -> bool:
        folded = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.operator, ast.unaryop, ast.expr_context)
        constants = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
        return all(isinstance(part, folded) for part in ast.walk(node)) and all(type(v) is int for v in constants)

    def _constant(self, node: ast.Name) -> bool | None:
        """Whether a name is a constant to Numba; None if unknown."""
        if node.id in self._values:
            values = self._values[node.id]
            return any(value is not None and self._is_shape(value) for value in values)
        value = self._resolve(node)
        if isinstance(value, tuple):
            return all(type(extent) is int for extent in value)
        if type(value) is int:
            return True
        return False if isinstance(value, int | float | np.generic | np.ndarray | list) else None


def _values(function: ast.AST) -> Iterator[tuple[str, list[ast.expr | None]]]:
    """The expressions assigned to each local name: None if not assigned by an expression."""
    found: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _pair(target, node.value, found)
        elif isinstance(node, ast.arg):
            found.setdefault(node.arg, []).append(None)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, []).append(None)
    yield from found.items()


def _pair(target: ast.expr, value: ast.expr, found: dict[str, list[ast.expr | None]]) -> None:
    if isinstance(target, ast.Name):
        found.setdefault(target.id, []).append(value)
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for part, its in zip(target.elts, value.elts, strict=True):
            _pair(part, its, found)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
