"""``extern __shared__ T name[];`` in sources that g++ compiles.

All such arrays are a block's dynamic shared memory. The line is changed in a copy of the source, before g++ reads it;
line numbers stay. In a function it becomes a reference, bound to that memory. Outside it gets the symbol of one array
that the library has: ``extern_shared`` of ``<trifold/launch.cuh>``. (In a template, g++ forgets the symbol.)
"""

from __future__ import annotations

import re

# launch.cuh defines the array where this is defined.
DEFINITION = "TRIFOLD_EXTERN_SHARED"
_SYMBOL = "trifold_extern_shared"
_REFERENCE = "trifold::host::DynamicShared()"

_DECLARATION = re.compile(
    r"\b(?:extern\b[^;{}\[]*?__shared__|__shared__\b[^;{}\[]*?\bextern)\b(?P<type>[^;{}\[]*?)(?P<name>\w+)\s*\[\s*\]\s*;"
)
_ALIGNMENT = re.compile(r"\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_NAMESPACE = re.compile(r"\bnamespace\b[^;{}()]*$|\bextern\s*\"C(?:\+\+)?\"\s*$")
_SKIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


def rewrite(text: str) -> tuple[str, bool]:
    """The source with its arrays bound to dynamic shared memory, and whether one of them needs DEFINITION."""
    if "__shared__" not in text or "extern" not in text:
        return text, False
    code = _SKIPPED.sub(_blank, text)
    parts, end, outside = [], 0, False
    for declaration in _DECLARATION.finditer(code):
        parts.append(text[end : declaration.start()])
        end = declaration.end()
        whole = text[declaration.start() : end]
        if _inside_a_function(code[: declaration.start()]):
            lines = "\n" * whole.count("\n")
            element = " ".join(_ALIGNMENT.sub("", declaration["type"]).split())
            parts.append(f"{element} (&{declaration['name']})[] = {_REFERENCE};{lines}")
        else:
            outside = True
            parts.append(f'{whole[:-1]} __asm__("{_SYMBOL}");')
    return "".join(parts) + text[end:], outside


def _blank(match: re.Match[str]) -> str:
    """As long as what it stands for, with its line ends; ``extern "C"`` stays."""
    found = match[0]
    return found if found in ('"C"', '"C++"') else re.sub(r"[^\n]", " ", found)


def _inside_a_function(before: str) -> bool:
    """Whether what follows ``before`` is in braces that are no namespace's."""
    open_braces: list[bool] = []
    for brace in re.finditer(r"[{}]", before):
        if brace[0] == "{":
            start = max(before.rfind(mark, 0, brace.start()) for mark in ";{}")
            open_braces.append(_NAMESPACE.search(before[start + 1 : brace.start()]) is None)
        elif open_braces:
            open_braces.pop()
    return any(open_braces)
