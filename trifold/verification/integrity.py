"""Detects changes of the judge by a spec or a reference, which are Python and run in its process.

They state what is right, and must not change how it is compared. A :class:`Snapshot` from before they were loaded shows
which functions and constants of the verification, and which of torch's comparisons, were replaced since.
"""

from __future__ import annotations

import sys
import time
from types import FunctionType, ModuleType
from typing import Any

import torch

_OURS = (
    *("trifold.verification", "trifold.isolation", "trifold.spec", "trifold.findings", "trifold.machine"),
    *("trifold.compute_sanitizer", "trifold.source_hashes"),
)
_OF_TORCH = (
    "abs",
    "allclose",
    "autograd",
    "empty",
    "equal",
    "finfo",
    "isfinite",
    "isinf",
    "isnan",
    "maximum",
    "where",
)
_OF_TENSORS = ("abs", "all", "any", "clamp", "clone", "double", "max", "view", "__eq__", "__ne__", "__sub__", "__le__")
_OF_CLOCKS = ("time", "monotonic", "perf_counter")


class Snapshot:
    """The functions and classes as they are now."""

    def __init__(self) -> None:
        self._known = _all_of_them()

    def changed(self) -> list[str]:
        """The names of the functions, classes and constants that have changed since."""
        now = _all_of_them()
        return sorted(name for name, value in self._known.items() if now.get(name) != value)


def _all_of_them() -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and name.startswith(_OURS):
            _add(found, name, vars(module), name)
    for owner, path, names in (
        (torch, "torch", _OF_TORCH),
        (torch.Tensor, "torch.Tensor", _OF_TENSORS),
        (torch.autograd, "torch.autograd", ("grad", "gradcheck", "gradgradcheck")),
        (time, "time", _OF_CLOCKS),
    ):
        for name in names:
            found[f"{path}.{name}"] = _identity(getattr(owner, name))
    return found


def _add(found: dict[str, tuple[int, ...]], prefix: str, members: Any, module: str) -> None:
    for name, value in list(members.items()):
        if isinstance(value, FunctionType | staticmethod | classmethod | property):
            found[f"{prefix}.{name}"] = _identity(value)
        elif name.strip("_").isupper():  # a constant: the table of checks, a tolerance
            found[f"{prefix}.{name}"] = (id(value), hash(repr(value)))
        elif isinstance(value, type) and value.__module__ == module and not name.startswith("__"):
            _add(found, f"{prefix}.{name}", vars(value), module)


def _identity(value: Any) -> tuple[int, ...]:
    """Identifies a function and its code, which can be replaced in place."""
    function = getattr(value, "__func__", value)
    if isinstance(function, FunctionType):
        return id(function), id(function.__code__), id(function.__defaults__)
    return (id(value),)
