"""Kernels that call functions: math, cuda.libdevice, cuda.fp16 and NumPy's ufuncs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.simulator.arithmetic.cases import Case, columns
from tests.simulator.arithmetic.values import random
from trifold import _simulator

_AT_ONCE = 10  # functions of one kernel: compiling takes longer than in proportion
_COUNT = {"math": 120, "libdevice": 28, "fp16": 40, "fma": 60}  # operands of each function
_SPECIAL = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan),
    *(1e-42, 2.0, 3.0, -3.0, 100.0, -100.5, 1e30, 20.0),
)
_LETTERS = {"e": "float16", "f": "float32", "d": "float64", "h": "int16", "i": "int32", "l": "int64"}
_ORDERS = ("jn", "jnf", "yn", "ynf")  # of Bessel functions: small


def _spread(kind: str, seed: int, count: int) -> np.ndarray[Any, Any]:
    """Arguments of functions: some special, some in (-1, 1), some of all sizes up to where most functions end."""
    source = random(seed)
    fractions = [next(source) / 2**63 - 1 for _ in range(count - len(_SPECIAL))]
    values = [
        math.ldexp(value, next(source) % 24 - 16) if place % 2 else value for place, value in enumerate(fractions)
    ]
    with np.errstate(over="ignore"):
        return np.array([*_SPECIAL, *values], kind)


def _chunked(name: str, kinds: str, calls: list[tuple[str, str, str]]) -> Iterator[Case]:
    """``calls``: label, expression, results' letters; ``kinds``: the parameters' letters."""
    for number, start in enumerate(range(0, len(calls), _AT_ONCE)):
        count = _COUNT[name.partition(" ")[0]]
        inputs = columns(name, [_LETTERS[letter] for letter in kinds], count)
        for place, letter in enumerate(kinds):
            if letter in "efd":
                inputs[place] = np.roll(_spread(_LETTERS[letter], place + 1, count), 7 * place)
        case = Case(f"{name} {number}", inputs, parameters="xyz")
        for label, expression, results in calls[start : start + _AT_ONCE]:
            if len(results) == 1:
                case.add(label, expression, results in "hilb")
                continue
            case.body.append(f"p = {expression}")
            for place, letter in enumerate(results):
                case.add(f"{label}[{place}]", f"p[{place}]", letter in "hilb")
        yield case


def _math(kind: str) -> Iterator[Case]:
    value = {"f": _simulator.float32, "d": float, "i": _simulator.int32, "e": _simulator.float16}[kind](1)
    one: list[tuple[str, str, str]] = []
    two: list[tuple[str, str, str]] = []
    for name, function in _simulator.functions.items():
        module, _, member = name.partition(".")
        if module != "math" or (kind in "ie" and member in ("modf", "frexp")):
            continue
        for arguments, calls in (((value,), one), ((value, value), two)):
            try:
                result = function(*arguments)
            except TypeError:
                continue
            letters = "fi" if member == "frexp" else "ff" if member == "modf" else "b" if result is True else "f"
            letters = "b" if isinstance(result, bool) else letters
            calls.append((name, f"{name}({', '.join('xy'[: len(arguments)])})", letters))
    two = [call for call in two if call[0] != "math.ldexp"]
    yield from _chunked(f"math {kind}", kind, one)
    if kind != "e":
        yield from _chunked(f"math {kind}{kind}", kind * 2, two)
    if kind in "fd":
        calls = [("math.ldexp", "math.ldexp(x, y % 300)", "f"), ("math.pow", "math.pow(x, np.int32(y % 40 - 20))", "f")]
        yield from _chunked(f"math {kind}i", kind + "i", calls)


def _libdevice(signatures: dict[str, str]) -> Iterator[Case]:
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for name, signature in signatures.items():
        results, _, arguments = signature.partition(":")
        names = "xyz"[: len(arguments)]
        passed = ", ".join(names)
        if name in _ORDERS:
            passed = "x % 6, y"
        elif arguments.endswith("i") and name in ("ldexp", "ldexpf", "scalbn", "scalbnf", "powi", "powif"):
            passed = "x, y % 60 - 30"
        groups.setdefault(arguments, []).append((f"libdevice.{name}", f"libdevice.{name}({passed})", results))
    for arguments, calls in groups.items():
        yield from _chunked(f"libdevice {arguments}", arguments, calls)


def _signatures(module: str) -> dict[str, str]:
    rows = {
        name.partition(".")[2]: function for name, function in _simulator.functions.items() if name.startswith(module)
    }
    return {name: str(function.signature) for name, function in rows.items()}


def _half() -> Iterator[Case]:
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for name, signature in _signatures("fp16.").items():
        results, _, arguments = signature.partition(":")
        passed = ", ".join("xyz"[: len(arguments)])
        groups.setdefault(arguments, []).append((f"fp16.{name}", f"cuda.fp16.{name}({passed})", results))
    for arguments, calls in groups.items():
        yield from _chunked(f"fp16 {arguments}", arguments, calls)


def calls() -> Iterator[Case]:
    """Cases whose results must agree within the functions' own errors."""
    for kind in "fdie":
        yield from _math(kind)
    yield from _libdevice(_signatures("libdevice."))
    yield from _half()
    for kind, cast in (("f", "float32"), ("d", "float64")):
        case = Case(
            f"fma {kind}",
            [np.roll(_spread(cast, place, _COUNT["fma"]), 5 * place) for place in (1, 2, 3)],
            parameters="xyz",
        )
        case.add("cuda.fma", "cuda.fma(x, y, z)", False)
        case.add("cuda.cbrt", "cuda.cbrt(x)", False)
        case.add("cuda.selp", "cuda.selp(x < y, y, z)", False)
        yield case
