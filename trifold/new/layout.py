"""Breaks long lines of generated files as ruff and clang-format do."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 120


def python_list(before: str, items: Sequence[str], after: str, indent: int = 0) -> str:
    """``before`` + the items with commas + ``after``: on one line, on a line of their own, or a line for each.

    Args:
        before: ends with the opening bracket; may begin with its indentation.
        after: begins with the closing bracket.
        indent: the template's indentation before it, in spaces.
    """
    margin = " " * (indent or len(before) - len(before.lstrip()))
    line = f"{before}{', '.join(items)}{after}"
    broken = any("\n" in item for item in items)
    if not items or (not broken and indent + len(line) <= WIDTH):
        return line
    inner = f"{margin}    {', '.join(items)}"
    if not broken and len(inner) <= WIDTH:
        return f"{before}\n{inner}\n{margin}{after}"
    each = "".join(f"{margin}    {item},\n" for item in items)
    return f"{before}\n{each}{margin}{after}"


def define(name: str, arguments: Sequence[str], returns: str, fake: str) -> str:
    """``op.define(...)``; a schema that is too long for a line is two strings or more."""
    pieces, line = [], f"{name}("
    for position, argument in enumerate(arguments):
        text = argument + (f") -> {returns}" if position == len(arguments) - 1 else ", ")
        if len(line) + len(text) > WIDTH - 8 - len('"",'):
            pieces.append(line)
            line = ""
        line += text
    quoted = [f'"{piece}"' for piece in (*pieces, line)]
    return python_list("    op.define(", ["\n        ".join(quoted), fake], ")")


def cpp_list(before: str, items: Sequence[str], after: str) -> str:
    """``before`` + the items with commas + ``after``: as many per line as fit, aligned below the first one."""
    lines = [before]
    margin = " " * len(before)
    for position, item in enumerate(items):
        text = item + (after if position == len(items) - 1 else ",")
        space = "" if lines[-1] in (before, margin) else " "
        if len(lines[-1]) + len(space) + len(text) > WIDTH and lines[-1] != margin and lines[-1] != before:
            lines.append(margin)
            space = ""
        lines[-1] += space + text
    return "\n".join(lines)
