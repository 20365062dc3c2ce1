"""Assignments in expressions of launch functions are made before the statement, if nothing can see the difference."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trifold.draft.named_expressions import without_named


def rewritten(text: str) -> str:
    tree = ast.parse(f"def f(x, y):\n{textwrap.indent(text, '    ')}")
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    without_named(function)
    return textwrap.dedent("\n".join(ast.unparse(function).splitlines()[1:]))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("if (n := x.numel()) == 0: return n", "n = x.numel()\nif n == 0:\n    return n"),
        ("if (n := x.numel()) == 0 and y: return n", "n = x.numel()\nif n == 0 and y:\n    return n"),
        ("return (a := (b := y) + 1) * b", "b = y\na = b + 1\nreturn a * b"),
        (
            "while (n := g(n)) > 1: h(n)",
            "while True:\n    n = g(n)\n    if not n > 1:\n        break\n    h(n)",
        ),
        (
            "if x: pass\nelif (n := y): return n",
            "if x:\n    pass\nelse:\n    n = y\n    if n:\n        return n",
        ),
        ("f((n := 2), n)", "n = 2\nf(n, n)"),
    ],
)
def test_assignments_come_before_the_statement(text: str, result: str) -> None:
    assert rewritten(text) == result


@pytest.mark.parametrize(
    "text",
    [
        "if y and (n := x): pass",  # not always evaluated
        "z = (n := 1) if y else 2",
        "z = y < 2 < (n := 3)",
        "z = [a for a in x if (n := a)]",
        "z = n + (n := y)",  # reads the name before
        "z = g(y) + (n := h(y))",  # one of the two may raise
        "while (n := y):\n    y = g(n)\nelse:\n    h(n)",
    ],
)
def test_what_would_change_the_order_stays(text: str) -> None:
    assert rewritten(text) == ast.unparse(ast.parse(text))


names = st.sampled_from(["a", "b", "c"])
expressions = st.recursive(
    names | st.integers(0, 3).map(str),
    lambda inner: st.one_of(
        st.tuples(names, inner).map(lambda each: f"({each[0]} := {each[1]})"),
        st.tuples(inner, st.sampled_from(["+", "*", "-", "<", "and", "or"]), inner).map(
            lambda each: f"({' '.join(each)})"
        ),
        st.tuples(inner, inner, inner).map(lambda each: f"({each[0]} if {each[1]} else {each[2]})"),
    ),
    max_leaves=8,
)


@given(expressions)
def test_the_statement_means_the_same(expression: str) -> None:
    def run(text: str) -> dict[str, object]:
        variables: dict[str, object] = {"a": 1, "b": 5, "c": -2}
        exec(text, variables)
        return {name: variables[name] for name in ("a", "b", "c", "z")}

    text = f"z = {expression}"
    assert run(rewritten(text)) == run(text)
