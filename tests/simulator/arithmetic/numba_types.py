"""Prints, as JSON, the types that Numba's CUDA target gives to operators and functions of each type of number.

It is run in a separate process: where Numba's simulator is on, its compiler's CUDA part cannot be imported.
"""

from __future__ import annotations

import itertools
import json
import math
import operator
from typing import Any

import numba.cuda
import numpy as np
from numba.core import types as numba_types
from numba.cuda.target import CUDATypingContext

KINDS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
OPERATORS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "lshift",
    "rshift",
    "and_",
    "or_",
    "xor",
    "lt",
    "eq",
)
BUILTINS = {
    "divmod": divmod,
    "min": min,
    "max": max,
    "abs": abs,
    "round": round,
    "int": int,
    "float": float,
    "bool": bool,
}
UNARY = ("neg", "pos", "invert")


def functions() -> dict[str, Any]:
    """By name, what kernels call on one or two numbers."""
    named: dict[str, Any] = {f"operator.{name}": getattr(operator, name) for name in (*OPERATORS, *UNARY)}
    named |= {f"builtins.{name}": function for name, function in BUILTINS.items()}
    named |= {f"math.{name}": function for name, function in vars(math).items() if callable(function)}
    return named | {f"numpy.{name}": f for name, f in vars(np).items() if isinstance(f, np.ufunc)}


def main() -> None:
    context = CUDATypingContext()
    context.refresh()
    types = getattr(numba.cuda, "types", None)
    if not hasattr(types, "float16"):  # numba-cuda has its own types
        types = numba_types
    by_name = {kind: getattr(types, "boolean" if kind == "bool" else kind) for kind in KINDS}
    table: dict[str, str] = {}
    for name, function in functions().items():
        for count in (1, 2):
            for kinds in itertools.product(KINDS, repeat=count):
                try:
                    signature = context.resolve_function_type(function, tuple(by_name[kind] for kind in kinds), {})
                except Exception:  # refused, in one of many ways
                    continue
                if signature is not None:
                    table[" ".join((name, *kinds))] = str(signature.return_type)
    for first, second in itertools.product(KINDS, repeat=2):
        table[f"unified {first} {second}"] = str(context.unify_types(by_name[first], by_name[second]))
    print(json.dumps(table))


if __name__ == "__main__":
    main()
