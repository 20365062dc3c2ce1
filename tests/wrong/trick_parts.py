"""Edits that several tricks share: kernels that write zeros, and the texts in the files that are edited."""

from __future__ import annotations

from tests.wrong.entry import Edit, edits

ADD_OUT = "    out = elementwise_output(x, y)\n"
ADD_END = "    return out\n"
STEP = ("y[i] = 1 if x[i] > 0.5 else 0", "y[i] = 0")
SIGMOID_FORMULA = "y[i] = (e if v < 0 else ONE) / (ONE + e)"
ADD_FORMULA, ADD_NOTHING = "out[i] = x[i] + y[i]", "out[i] = 0"


def add(before: str = "", *, top: str = "", imports: str = "", end: str = ADD_END) -> tuple[Edit, ...]:
    """add whose kernel writes zeros, with lines of Python in the launch function.

    Args:
        before: code before the output is allocated.
        top: code before the first function.
        imports: before the others.
        end: replaces the return statement.
    """
    return edits(
        "prototype",
        (ADD_FORMULA, ADD_NOTHING),
        (ADD_OUT, ADD_OUT + before),
        (ADD_END, end),
        ("from numba import cuda\n", f"{imports}from numba import cuda\n"),
        ("def reference(", f"{top}def reference("),
    )
