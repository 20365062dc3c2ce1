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
    last = len(arguments) - 1
    ends = (f") -> {returns}" if position == last else ", " for position in range(len(arguments)))
    parts = [f"{name}(", *(argument + end for argument, end in zip(arguments, ends, strict=True))]
    literal = "\n        ".join(f'"{each}"' for each in in_lines(parts, WIDTH - 8 - len('"",')))
    return python_list("    op.define(", [literal, fake], ")")


def in_lines(parts: Sequence[str], width: int) -> list[str]:
    """The parts of a text joined to lines, each with as many parts as fit into this width."""
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return lines


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
