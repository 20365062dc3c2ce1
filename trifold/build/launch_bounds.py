"""``__launch_bounds__(N, …)`` and ``__cluster_dims__(x, y, z)`` for g++: as in CUDA, a launch with more threads per
block, or with other clusters, is refused.

The kernel's body gets a declaration at its beginning, on the same line, before g++ reads it: a constant that the launch
looks up by the kernel (engine/cpu/module.cpp), so that threads execute nothing for it.

Not read: the bounds of a kernel that a macro generates, bounds that only a declaration has, and bounds with the name of
a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trifold.build import cpp_text

LAUNCH_BOUNDS = "__launch_bounds__"
CLUSTER_DIMS = "__cluster_dims__"
_CLUSTER_DIMS_OF_KERNEL = re.compile(rf"\b{CLUSTER_DIMS}\s*\([^()]*(?:\([^()]*\)[^()]*)*\)")
# The extents that cluster_constant() writes.
CLUSTER_CONSTANT = re.compile(rb"\btrifold_cluster_dims = \{([^}]*)\}")

_QUALIFIER = re.compile(r"[^();{}]*\b__\w+__\s*\(")
_IN_ANGLES = re.compile(r"<[^<>]*>")
_DECLARED = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?=[,=]|$)")


def rewrite(text: str) -> str:
    """The source with the constants."""
    if LAUNCH_BOUNDS not in text and CLUSTER_DIMS not in text:
        return text
    code = cpp_text.without_comments(text)
    constants = [(place, constant(bounds)) for place, bounds in kernels(code)]
    constants += [(place, cluster_constant(dims)) for place, dims in kernels(code, CLUSTER_DIMS)]
    parts, end = [], 0
    for place, statement in sorted(constants):
        parts += [text[end:place], statement]
        end = place
    return "".join(parts) + text[end:]


def without_cluster_dims(text: str) -> str:
    """The source with the constants of clusters, and blanks for ``__cluster_dims__`` itself."""
    if CLUSTER_DIMS not in text:
        return text
    code = cpp_text.without_comments(text)
    for place, dims in sorted(kernels(code, CLUSTER_DIMS), reverse=True):
        text = text[:place] + cluster_constant(dims) + text[place:]
    return _CLUSTER_DIMS_OF_KERNEL.sub(lambda match: re.sub(r"\S", " ", match[0]), text)


def kernels(code: str, qualifier: str = LAUNCH_BOUNDS) -> Iterator[tuple[int, str]]:
    """For each kernel with this qualifier, the start of its body, and the contents of the brackets. ``code`` has blanks
    for comments."""
    code = cpp_text.without_directives(code)
    for match in re.finditer(rf"\b{qualifier}\s*\(", code):
        after = _end_of_brackets(code, match.end() - 1)
        parameters = _parameters(code, after)
        end = _end_of_brackets(code, parameters)
        body = _body(code, end)
        bounds = " ".join(code[match.end() : after - 1].split())
        if body and parameters > 0 and not _words(bounds) & _declared(code[parameters + 1 : end - 1]):
            yield body, bounds


def constant(bounds: str) -> str:
    """The declaration for these bounds."""
    return f" [[gnu::used]] static constexpr unsigned trifold_launch_bounds = ::trifold::cpu::launch_bounds({bounds});"


def cluster_constant(dims: str) -> str:
    """The declaration for these extents of a cluster."""
    return f" [[gnu::used]] static constexpr ::trifold::cpu::ClusterDims trifold_cluster_dims = {{{dims}}};"


def _end_of_brackets(code: str, begin: int) -> int:
    """The offset after the bracket that closes the one at ``begin``; the end of the text if none does."""
    depth = 0
    for place in range(max(begin, 0), len(code)):
        depth += (code[place] in "([{") - (code[place] in ")]}")
        if depth == 0:
            return place + 1
    return len(code)


def _parameters(code: str, begin: int) -> int:
    """The bracket that begins a kernel's parameters, after its other qualifiers; -1 if there is none."""
    while other := _QUALIFIER.match(code, begin):
        begin = _end_of_brackets(code, other.end() - 1)
    return code.find("(", begin)


def _body(code: str, begin: int) -> int:
    """The offset after the brace that begins a function's body; 0 if it has none."""
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
