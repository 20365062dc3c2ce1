"""Kernels that hypothesis draws: integer programs, variables of several types, and chains of float operations.

Drawn once, without chance (``derandomize``), and stored with the results: another version of hypothesis would draw
others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.simulator.arithmetic.cases import Case, columns
from tests.simulator.arithmetic.values import FLOATS, INTEGERS

_COUNT = 24
_OPERATORS = ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>")
_COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
_VARIABLES = ("u", "v", "w")


@st.composite
def _integer_expression(draw: Callable[..., Any], names: tuple[str, ...], depth: int = 3) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(names) | st.integers(-9, 300).map(lambda value: f"({value})"))
    form = draw(st.integers(0, 9))
    left, right = (draw(_integer_expression(names, depth - 1)) for _ in range(2))
    if form == 0:
        return f"({draw(st.sampled_from(('-', '~', '+')))}{left})"
    if form == 1:
        return (
            f"np.int64({draw(st.sampled_from(('min', 'max')))}({left}, {right}))"  # uint64 beside int64 gives a float
        )
    if form == 2:
        return f"abs({left})"
    if form == 3:
        return f"np.{draw(st.sampled_from(INTEGERS))}({left})"
    operator = draw(st.sampled_from(_OPERATORS))
    return f"({left} {operator} ({right} & 31))" if operator in ("<<", ">>") else f"({left} {operator} {right})"


def _condition(draw: Callable[..., Any], names: tuple[str, ...]) -> str:
    left, right = (draw(_integer_expression(names, 1)) for _ in range(2))
    return f"{left} {draw(st.sampled_from(_COMPARISONS))} {right}"


def _block(draw: Callable[..., Any], types: dict[str, str], names: tuple[str, ...], depth: int) -> list[str]:
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        form = draw(st.integers(0, 5)) if depth else 0
        if form <= 2:
            name = draw(st.sampled_from(_VARIABLES))
            lines.append(f"{name} = np.{types[name]}({draw(_integer_expression(names))})")
        elif form == 3:
            lines.append(f"if {_condition(draw, names)}:")
            lines += [f"    {line}" for line in _block(draw, types, names, depth - 1)]
            lines.append("else:")
            lines += [f"    {line}" for line in _block(draw, types, names, depth - 1)]
        else:
            loop = f"j{depth}"
            lines.append(f"for {loop} in range({draw(st.integers(1, 4))}):")
            lines += [f"    {line}" for line in _block(draw, types, (*names, loop), depth - 1)]
    return lines


@st.composite
def _integer_program(draw: Callable[..., Any]) -> tuple[tuple[str, ...], list[str]]:
    kinds = tuple(draw(st.sampled_from(INTEGERS)) for _ in range(3))
    types = {name: draw(st.sampled_from(INTEGERS)) for name in _VARIABLES}
    names = ("x", "y", "z", *_VARIABLES)
    lines = [f"{name} = np.{types[name]}({draw(_integer_expression(('x', 'y', 'z'), 2))})" for name in _VARIABLES]
    return kinds, [*lines, *_block(draw, types, names, 2)]


@st.composite
def _mixed_program(draw: Callable[..., Any]) -> tuple[tuple[str, ...], list[str]]:
    """Variables that are assigned values of several types: Numba gives each variable one type where those meet."""
    kinds = tuple(
        draw(st.sampled_from(("float32", "float32", "float32", "float64", "int32", "uint8"))) for _ in range(3)
    )
    operand = st.sampled_from(("x", "y", "z", "u", "v", "u", "v", "1", "2.5", "np.float32(0.1)"))
    start = st.sampled_from(("x", "y", "z", "x / y", "0", "0.0", "np.float32(1)", "np.float32(0.3)", "np.int32(7)"))

    def operation() -> str:
        return f"{draw(operand)} {draw(st.sampled_from('+-/'))} {draw(operand)}"

    def statement(depth: int) -> list[str]:
        name, form = draw(st.sampled_from("uv")), draw(st.integers(0, 6 if depth else 2))
        if form <= 1:
            return [f"{name} = {operation()}"]
        if form == 2:
            return [f"{name} {draw(st.sampled_from('+-/'))}= {draw(operand)}"]
        inner = [f"    {line}" for line in statement(depth - 1)]
        if form == 3:
            return [f"if {draw(st.sampled_from('xyz'))} < 1:", *inner]
        if form == 4:
            return [f"if {draw(st.sampled_from('xyz'))} < 1:", *inner, "else:", f"    {name} = {draw(operand)}"]
        if form == 5:
            return [f"{name} = {draw(operand)} if {draw(st.sampled_from('xyz'))} < 1 else {draw(operand)}"]
        return [f"for j in range({draw(st.integers(1, 3))}):", *inner, *[f"    {line}" for line in statement(0)]]

    lines = [f"u = {draw(start)}", f"v = {draw(start)}"]
    for _ in range(draw(st.integers(2, 4))):
        lines += statement(2)
    return kinds, lines


@st.composite
def _chain(draw: Callable[..., Any], depth: int) -> str:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(("x", "y", "z")))
    operator = draw(st.sampled_from("+-+-*/")) if depth > 1 else draw(st.sampled_from("**+"))
    return f"({draw(_chain(depth - 1))} {operator} {draw(_chain(depth - 1))})"


def drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """The first different examples that hypothesis makes without chance."""
    found: list[Any] = []

    @settings(
        derandomize=True,
        database=None,
        max_examples=4 * count,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Any) -> None:
        if example not in found and len(found) < count:
            found.append(example)

    collect()
    return found


def _of_like_sizes(case: Case) -> None:
    """Floats between -3 and 5 with all their digits, so that sums round."""
    for column in case.inputs:
        if column.dtype.kind == "f":
            digits = column.view(f"u{column.itemsize}") * np.array(0x9E3779B97F4A7C15, "u8").astype(
                f"u{column.itemsize}"
            )
            column[:] = (digits / 2.0 ** (8 * column.itemsize - 3) - 3).astype(column.dtype)


def integer_programs(count: int) -> list[Case]:
    """Programs that must agree bit for bit."""
    made = []
    for number, (kinds, lines) in enumerate(drawn(_integer_program(), count)):
        case = Case(f"integers {number}", columns(f"integers {number}", kinds, _COUNT), list(lines), parameters="xyz")
        for name in _VARIABLES:
            case.add(name, name, True)
        made.append(case)
    return made


def mixed_programs(count: int) -> list[Case]:
    """Programs of sums that must agree bit for bit, whatever the types of their variables became."""
    made = []
    for number, (kinds, lines) in enumerate(drawn(_mixed_program(), count)):
        case = Case(f"mixed {number}", columns(f"mixed {number}", kinds, _COUNT), list(lines), parameters="xyz")
        _of_like_sizes(case)
        case.add("u", "u", False)
        case.add("v", "v", False)
        made.append(case)
    return made


def chains(count: int) -> list[Case]:
    """Single expressions of float operations, in which a compiler may fuse a product with a sum."""
    made = []
    for kind in FLOATS[1:]:
        for depth in (2, 3, 5):
            name = f"chain {kind} {depth}"
            case = Case(name, columns(name, (kind,) * 3, _COUNT), parameters="xyz")
            _of_like_sizes(case)
            for expression in drawn(_chain(depth), count):
                if any(sign in expression for sign in "+-*/"):
                    case.add(expression, expression, False)
            made.append(case)
    return made
