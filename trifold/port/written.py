"""Functions whose text is written for one operator: its own number of arguments, and no loop over them.

Half a microsecond counts here, at each call: ``*args``, a loop over them and a function that picks an output cost a
tenth each.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from keyword import iskeyword
from types import FunctionType
from typing import Any


def written(text: str, title: str, **names: Any) -> FunctionType:
    """The function that ``text`` defines, which uses ``names``; tracebacks and debuggers show its text.

    Args:
        text: of one function.
        title: what the text is shown as the file of; each function has its own.
        names: what the text refers to, beside what is built in.
    """
    file = f"<{title}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    defined: dict[str, Any] = {}
    exec(compile(text, file, "exec"), names, defined)
    (function,) = defined.values()
    assert isinstance(function, FunctionType)
    return function


def parameters(arguments: Sequence[str]) -> list[str]:
    """What the arguments of a schema are called in a text, whose own names begin with an underscore."""
    return [f"argument_{i}" if iskeyword(name) or name[0] == "_" else name for i, name in enumerate(arguments)]


def listed(expressions: Sequence[str]) -> str:
    """As a tuple, or as the only one of them."""
    return expressions[0] if len(expressions) == 1 else f"({', '.join(expressions)})"
