"""Kernels that hypothesis draws: integer programs, variables of several types, and chains of float operations.

Drawn once, without chance (``derandomize``), and stored with the results: another version of hypothesis would draw
others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
        return f"{draw(st.sampled_from(('min', 'max')))}({left}, {right})"
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
    """Variables that are assigned values of several types: Numba gives each variable one type for all of them."""
    kinds = tuple(draw(st.sampled_from((*INTEGERS, "float32", "float64"))) for _ in range(3))
    operand = st.sampled_from(("x", "y", "z", "u", "v", "1", "2.5", "0", "np.float32(0.1)", "np.int8(3)"))
    start = st.sampled_from(("x", "y", "z", "0", "0.0", "np.float32(1)", "np.int32(7)"))

    def sum_of() -> str:
        return f"{draw(operand)} {draw(st.sampled_from('+-'))} {draw(operand)}"

    lines = [f"u = {draw(start)}", f"v = {draw(start)}"]
    for _ in range(draw(st.integers(1, 3))):
        name, form = draw(st.sampled_from("uv")), draw(st.integers(0, 3))
        if form == 0:
            lines.append(f"{name} = {sum_of()}")
        elif form == 1:
            lines += [f"if {draw(st.sampled_from('xyz'))} < 3:", f"    {name} = {draw(operand)}"]
        elif form == 2:
            lines += [f"for j in range({draw(st.integers(1, 3))}):", f"    {name} = {name} + {draw(operand)}"]
        else:
            lines.append(f"{name} += {draw(operand)}")
    return kinds, lines


@st.composite
def _chain(draw: Callable[..., Any], depth: int) -> str:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(("x", "y", "z")))
    operator = draw(st.sampled_from("+-***+/")) if depth > 1 else draw(st.sampled_from("*+*"))
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
            for column in case.inputs:  # of like sizes, so that sums round
                column[:] = (column.view(f"i{column.itemsize}") % 2**20 / 2**17 - 3).astype(kind)
            for expression in drawn(_chain(depth), count):
                if any(sign in expression for sign in "+-*/"):
                    case.add(expression, expression, False)
            made.append(case)
    return made
