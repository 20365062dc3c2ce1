"""The description of a kernel for a drafting process: its text, the types of its arguments, and the values of its
names.

The process imports nothing of the user's. A function is sent as its text; a module or an object of the user's as the
attributes that are used; Numba's CUDA objects, which are the simulator's here, by name.
"""

from __future__ import annotations

import ast
import builtins
import enum
import hashlib
import inspect
import os
import pickle
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core import types

from trifold.simulator.signatures import signature_of

# Modules that a drafting process imports itself.
_SHARED = frozenset({"builtins", "math", "cmath", "operator", "numpy", "numba", "trifold"})
_PLAIN = (bool, int, float, complex, str, type(None), np.generic, np.dtype, types.Type)


@dataclass(frozen=True)
class Meaning:
    """The value of a name.

    ``kind``: "plain" (``value`` is a pickle), "module" (its name), "cuda" (a dotted name in numba.cuda), "function"
    (the number of a :class:`FunctionText`), "member" (of an enumeration: its name, its own, its value, and whether it
    is an integer), "object" (``value`` has the meaning of each attribute), "tuple" (of each
    part), or "opaque" (a name to speak of it).
    """

    kind: str
    value: Any
    text: str = ""  # distinguishes values, since pickles of equal values may differ


@dataclass(frozen=True)
class FunctionText:
    """A function of the kernel: ``lines`` as in its file, from ``first_line`` on; ``source`` is its location."""

    name: str
    path: str
    first_line: int
    lines: tuple[str, ...]
    meanings: dict[str, Meaning]
    defaults: tuple[Meaning, ...] = ()  # of the last parameters
    signature: tuple[tuple[types.Type, ...], types.Type | None] | None = None  # an explicit one


@dataclass
class Request:
    """A kernel, the first of ``functions``, and Numba's types of its arguments."""

    functions: list[FunctionText] = field(default_factory=list)
    argument_types: tuple[types.Type, ...] = ()

    def digest(self, drafter: str) -> str:
        key = (drafter, self.functions, tuple(map(_type_text, self.argument_types)))
        return hashlib.sha256(repr(key).encode()).hexdigest()[:24]


class NoTextError(Exception):
    """A function's text cannot be read."""


def request_for(function: FunctionType, argument_types: Sequence[types.Type]) -> Request:
    """The request for a kernel's draft.

    Raises:
        NoTextError: its text, or that of a function that it calls, is not available.
    """
    request = Request(argument_types=tuple(argument_types))
    _Describing(request).function(function)
    return request


def path_of(file: str) -> str:
    """The file of a function as named in compiled code: relative to the root, since g++ runs in another folder."""
    return os.path.abspath(file) if os.path.isfile(file) else file


def _type_text(kind: types.Type) -> str:
    return f"{kind} {getattr(kind, 'aligned', True)} {getattr(kind, 'mutable', True)}"


class _Describing:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._numbers: dict[FunctionType, int] = {}

    def function(self, function: FunctionType) -> int:
        if function in self._numbers:
            return self._numbers[function]
        number = self._numbers[function] = len(self._numbers)
        try:
            lines, first = inspect.getsourcelines(function)
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError) as error:
            raise NoTextError(f"the text of {function.__name__} is not available ({error})") from None
        self._request.functions.append(_PENDING)
        path = path_of(inspect.getsourcefile(function) or function.__code__.co_filename)
        meanings = {name: self._meaning(value, paths) for name, value, paths in _names(function, tree)}
        defaults = tuple(self._meaning(value, ()) for value in function.__defaults__ or ())
        self._request.functions[number] = FunctionText(
            function.__name__, path, first, tuple(lines), meanings, defaults, signature_of(function)
        )
        return number

    def _meaning(self, value: Any, paths: Iterable[tuple[str, ...]]) -> Meaning:
        if type(value).__name__ == "FakeCUDAKernel":
            return Meaning("function", self.function(value.fn))
        if (name := _cuda_name(value)) is not None:
            return Meaning("cuda", name)
        if isinstance(value, ModuleType) and _top(value.__name__) in _SHARED:
            return Meaning("module", value.__name__)
        if isinstance(value, enum.Enum):
            member = type(value).__name__, value.name, value.value, isinstance(value, int)
            return Meaning("member", member) if isinstance(value.value, _PLAIN) else Meaning("opaque", value.name)
        if isinstance(value, _PLAIN) or (isinstance(value, type) and _top(value.__module__) in _SHARED):
            return Meaning("plain", pickle.dumps(value), repr(value))
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return Meaning("plain", pickle.dumps(np.ascontiguousarray(value)))
        if isinstance(value, tuple):
            return Meaning("tuple", tuple(self._meaning(each, ()) for each in value))
        if callable(value) and _top(getattr(value, "__module__", None) or "") in _SHARED:
            try:
                return Meaning("plain", pickle.dumps(value))  # by its name; repr() may contain an address
            except (pickle.PicklingError, AttributeError, TypeError):
                return Meaning("opaque", getattr(value, "__name__", type(value).__name__))
        return self._object(value, paths)

    def _object(self, value: Any, paths: Iterable[tuple[str, ...]]) -> Meaning:
        """A module or an object of the user's whose attributes are used."""
        attributes: dict[str, list[tuple[str, ...]]] = {}
        for path in paths:
            if path:
                attributes.setdefault(path[0], []).append(path[1:])
        if not attributes:
            return Meaning("opaque", getattr(value, "__name__", type(value).__name__))
        missing = object()
        found = {name: (getattr(value, name, missing), rest) for name, rest in attributes.items()}
        return Meaning("object", {n: self._meaning(v, rest) for n, (v, rest) in found.items() if v is not missing})


_PENDING = FunctionText("", "", 0, (), {})


def _top(module: str) -> str:
    return module.partition(".")[0]


def _names(function: FunctionType, tree: ast.AST) -> Iterable[tuple[str, Any, list[tuple[str, ...]]]]:
    """The names outside a function that its text uses: the name, its value, and the attributes used of it."""
    paths: dict[str, list[tuple[str, ...]]] = {}
    for node in ast.walk(tree):
        path: list[str] = []
        inner = node
        while isinstance(inner, ast.Attribute):
            path.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            paths.setdefault(inner.id, []).append(tuple(path))
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for name in sorted(paths):
        if name in cells:
            try:
                yield name, cells[name].cell_contents, paths[name]
            except ValueError:  # not yet assigned
                continue
        elif name in function.__globals__ and function.__globals__[name] is not getattr(builtins, name, None):
            yield name, function.__globals__[name], paths[name]


def _cuda_name(value: Any) -> str | None:
    """The dotted name in numba.cuda of one of the simulator's objects; None if it is not numba.cuda's."""
    cuda = sys.modules["numba.cuda"]
    if value is cuda:
        return ""
    if isinstance(value, (*_PLAIN, tuple, np.ndarray)):
        return None
    for name, own in vars(cuda).items():
        if own is value and not name.startswith("__"):
            return name
    for space in ("atomic", "shared", "local", "const", "libdevice", "fp16", "cg"):
        holder = getattr(cuda, space, None)
        for name in dir(holder):
            if not name.startswith("__") and getattr(holder, name, None) is value:
                return f"{space}.{name}"
    return None
