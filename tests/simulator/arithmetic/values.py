"""Operands: the edges of each type, and numbers drawn from a fixed sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
KINDS = ("bool", *INTEGERS, *FLOATS)

_REAL_EDGES = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 7.0, -7.0, 0.1, -0.3, 1e-3, 123.456, -100.25, 65504.0),
    *(65519.0, 65520.0, 2.0**24 + 2, -(2.0**31), 2.0**31 - 1, 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e10, -1e19),
    *(3e38, -3e38, 1e-40, 1.2e-38, 6e-8, 1e308, 5e-324, math.inf, -math.inf, math.nan),
)


def random(seed: int) -> Iterator[int]:
    """64-bit numbers that stay the same on every platform and version (SplitMix64, Steele, Lea, Flood 2014)."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        yield mixed ^ mixed >> 31


def edges(kind: str) -> list[Any]:
    """Values of this type at which its arithmetic changes its course."""
    if kind == "bool":
        return [False, True]
    if kind in FLOATS:
        with np.errstate(over="ignore"):
            return [float(np.dtype(kind).type(value)) for value in _REAL_EDGES]
    info = np.iinfo(kind)
    candidates = (0, 1, -1, 2, -2, 3, 7, -7, 10, 31, 63, 64, -64, 100, info.max, info.max - 1, info.min, info.min + 1)
    return sorted({value for value in (*candidates, info.max // 3, info.min // 3) if info.min <= value <= info.max})


def draw(kind: str, source: Iterator[int]) -> Any:
    """An edge or, as often, a number with a random magnitude."""
    options = edges(kind)
    bits = next(source)
    if kind == "bool" or bits % 2:
        return options[bits // 2 % len(options)]
    if kind in FLOATS:
        exponent = (bits >> 32) % 40 - 20
        value = math.ldexp((next(source) % 2**53) / 2**52 - 1, exponent)
        with np.errstate(over="ignore"):
            return float(np.dtype(kind).type(value))
    width = np.iinfo(kind).bits
    magnitude = next(source) >> 64 - width >> (bits >> 8) % width
    return int(np.array(magnitude % 2**width, f"uint{width}").astype(kind))


def column(kind: str, count: int, seed: int) -> np.ndarray[Any, Any]:
    """``count`` operands of a type."""
    source = random(seed)
    return np.array([draw(kind, source) for _ in range(count)], kind)
