"""Functions whose text is generated for one operator, with its own number of arguments and no loop over them.

Each call counts in tenths of a microsecond: ``*args``, a loop over them and a function that picks an output cost one
each.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from keyword import iskeyword
from types import FunctionType
from typing import Any


def written(text: str, title: str, **names: Any) -> FunctionType:
    """The function defined by ``text``, which uses ``names``; tracebacks and debuggers show its text.

    Args:
        text: of one function.
        title: the file name under which the text is shown; unique for each function.
        names: the objects that the text refers to, besides built-in ones.
    """
    file = f"<{title}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    defined: dict[str, Any] = {}
    exec(compile(text, file, "exec"), names, defined)
    (function,) = defined.values()
    assert isinstance(function, FunctionType)
    return function


def parameters(arguments: Sequence[str]) -> list[str]:
    """The names of a schema's arguments in a text, whose own names begin with an underscore."""
    return [f"argument_{i}" if iskeyword(name) or name[0] == "_" else name for i, name in enumerate(arguments)]


def listed(expressions: Sequence[str]) -> str:
    """As a tuple, or as the only one of them."""
    return expressions[0] if len(expressions) == 1 else f"({', '.join(expressions)})"
