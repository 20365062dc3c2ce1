"""Drafting: the C++ port of an op, written from its prototype. A small compiler.

source      a kernel's text, its comments and what its names stand for
builder     Python's syntax tree → the typed tree (tree), in static single assignment form; targets and loops are parts
            of it, folding is what it knows before any thread runs
infer       types, as Numba's CUDA typing context (oracle) says; operations is the one table of what is known,
            with those of libdevice, ufuncs and vectors; records are structs
ranges      the range of each integer
variables   which variable of C++ holds which assignments
functions, statements, parts, tuples, expressions, arithmetic, arrays      the typed tree → the C++ tree (cpp)
printer     the C++ tree → text
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trifold.draft.functions import Parameter
    from trifold.draft.kernel import DraftedKernel, draft_kernel
    from trifold.draft.refusal import DraftError

__all__ = ["DraftError", "DraftedKernel", "Parameter", "draft_kernel"]

_HOMES = {"DraftError": "refusal", "DraftedKernel": "kernel", "Parameter": "functions", "draft_kernel": "kernel"}


def __getattr__(name: str) -> Any:
    """Imported when asked for: the command line starts without Numba."""
    if name not in _HOMES:
        raise AttributeError(f"module 'trifold.draft' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"trifold.draft.{_HOMES[name]}"), name)
