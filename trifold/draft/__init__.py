"""Drafting: a small compiler that writes the C++ port of an op from its prototype.

source      a kernel's text, its comments and the values of its global names
builder     Python's syntax tree → the typed tree (tree), in static single assignment form; targets and loops are parts
            of it, folding is what it knows before any thread runs
infer       types, as Numba's CUDA typing context (oracle) says; operations is the one table of what is known,
            with those of libdevice, ufuncs and vectors; records are structs
ranges      the range of each integer; conditions are what `while` and `if` say of it
variables   which variable of C++ holds which assignments
functions, statements, parts, tuples, expressions, arithmetic, arrays      the typed tree → the C++ tree (cpp);
            compound writes x += y
overlap     which pointers get __restrict__
printer     the C++ tree → text
host, host_*    a launch function → its part of the binding; binding has those of all of an op's
wiring      a launch function's schema, its fake (fakes) and its gradient → ports/OP.py
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
    """Import on first use, so that the command line starts without Numba."""
    if name not in _HOMES:
        raise AttributeError(f"module 'trifold.draft' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"trifold.draft.{_HOMES[name]}"), name)
