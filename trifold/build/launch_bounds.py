"""``__launch_bounds__(N, …)`` in sources that g++ compiles: CUDA refuses a launch of more threads a block, so does g++.

The kernel's body gets a statement at its beginning, on the same line, before g++ reads it; a constant that the launch
looks up by the kernel (engine/host/module.cpp), so that threads do nothing for it.

Not read: the bounds of a kernel that a macro spells, bounds that only a declaration has, and bounds that have the name
of a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trifold.build import cpp_text

_BOUNDS = re.compile(r"\b__launch_bounds__\s*\(")
_IN_ANGLES = re.compile(r"<[^<>]*>")
_DECLARED = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?=[,=]|$)")


def rewrite(text: str) -> str:
    """The source with the constants."""
    if "__launch_bounds__" not in text:
        return text
    parts, end = [], 0
    for place, bounds in kernels(cpp_text.without_comments(text)):
        parts += [text[end:place], constant(bounds)]
        end = place
    return "".join(parts) + text[end:]


def kernels(code: str) -> Iterator[tuple[int, str]]:
    """Where the body of each kernel with bounds begins, and what its bounds are. ``code`` has blanks for comments."""
    code = cpp_text.without_directives(code)
    for match in _BOUNDS.finditer(code):
        after = _end_of_brackets(code, match.end() - 1)
        parameters = code.find("(", after)
        behind = _end_of_brackets(code, parameters)
        body = _body(code, behind)
        bounds = " ".join(code[match.end() : after - 1].split())
        if body and parameters > 0 and not _words(bounds) & _declared(code[parameters + 1 : behind - 1]):
            yield body, bounds


def constant(bounds: str) -> str:
    """The statement for these bounds."""
    return f" [[gnu::used]] static constexpr unsigned trifold_launch_bounds = ::trifold::host::launch_bounds({bounds});"


def _end_of_brackets(code: str, begin: int) -> int:
    """Past the bracket that closes the one at ``begin``; the end of the text: none does."""
    depth = 0
    for place in range(max(begin, 0), len(code)):
        depth += (code[place] in "([{") - (code[place] in ")]}")
        if depth == 0:
            return place + 1
    return len(code)


def _body(code: str, begin: int) -> int:
    """Past the brace that begins a function's body; 0: it has none."""
    place = begin
    while place < len(code):
        if code[place] in "{;":
            return place + 1 if code[place] == "{" else 0
        place = _end_of_brackets(code, place) if code[place] in "([" else place + 1
    return 0


def _words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


def _declared(parameters: str) -> set[str]:
    """The names of parameters."""
    while (shorter := _IN_ANGLES.sub("", parameters)) != parameters:
        parameters = shorter
    return set(_DECLARED.findall(parameters.strip()))
