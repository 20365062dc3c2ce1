"""``extern __shared__ T name[];`` and ``__shared__ alignas(N) T name;`` in sources for g++.

All arrays of the first kind are a block's dynamic shared memory. The line is changed in a copy of the source, before
g++ reads it, without changing line numbers. In a function it becomes a reference bound to that memory. Outside of
functions it gets the symbol of one array of the library: ``extern_shared`` of ``<trifold/launch.cuh>``. (In a template,
g++ drops the symbol.)

An ``alignas`` between a declaration's specifiers, which nvcc accepts, is moved before them.
"""

from __future__ import annotations

import re

from trifold.build import cpp_text

# launch.cuh defines the array if this is defined.
DEFINITION = "TRIFOLD_EXTERN_SHARED"
_SYMBOL = "trifold_extern_shared"
_REFERENCE = "::trifold::cpu::DynamicShared()"

_ARRAY = re.compile(
    r"\b(?P<name>\w+)\s*\[\s*\](?P<inner>(?:\s*\[[^\];]*\])*)\s*(?:__attribute__\s*\(\(.*?\)\)\s*)?;", re.DOTALL
)
_ALIGNMENT = re.compile(r"\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_ALIGNED = re.compile(
    r"(?P<specifiers>\b(?:(?:static|const|volatile)\s+)*__shared__\s+(?:(?:const|volatile)\s+)*)"
    r"(?P<alignment>alignas\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))"
)
_SPECIFIERS = re.compile(r"\b(?:extern|__shared__)\b")
_NAMESPACE = re.compile(r"\bnamespace\b[^;{}()]*$|\bextern\s*\"C(?:\+\+)?\"\s*$")


def rewrite(text: str) -> tuple[str, bool]:
    """The source with its arrays bound to dynamic shared memory, and whether one of them needs DEFINITION."""
    if "__shared__" not in text:
        return text, False
    text = _with_alignments_in_front(text)
    if "extern" not in text:
        return text, False
    code = cpp_text.without_directives(cpp_text.without_comments(text))
    parts, end, outside = [], 0, False
    for array in _ARRAY.finditer(code):
        begin = max(code.rfind(mark, end, array.start()) for mark in ";{}") + 1 or end
        head = code[begin : array.start()]
        if set(_SPECIFIERS.findall(head)) != {"extern", "__shared__"}:
            continue
        begin += len(head) - len(head.lstrip())
        parts.append(text[end:begin])
        end = array.end()
        if _inside_a_function(code[:begin]):
            lines = "\n" * text.count("\n", begin, end)
            element = " ".join(_SPECIFIERS.sub("", _ALIGNMENT.sub("", head)).split())
            inner = "".join(array["inner"].split())
            parts.append(f"{element} (&{array['name']})[]{inner} = {_REFERENCE};{lines}")
        else:
            outside = True
            at = array.end("inner")
            parts.append(f'{text[begin:at]} __asm__("{_SYMBOL}"){text[at:end]}')
    return "".join(parts) + text[end:], outside


def _with_alignments_in_front(text: str) -> str:
    code = cpp_text.without_comments(text)
    parts, end = [], 0
    for declared in _ALIGNED.finditer(code):
        specifiers, alignment = (text[slice(*declared.span(group))] for group in ("specifiers", "alignment"))
        parts += [text[end : declared.start()], alignment, " ", specifiers]
        end = declared.end()
    return "".join([*parts, text[end:]])


def _inside_a_function(before: str) -> bool:
    """Whether the text after ``before`` is in braces other than a namespace's."""
    open_braces: list[bool] = []
    for brace in re.finditer(r"[{}]", before):
        if brace[0] == "{":
            start = max(before.rfind(mark, 0, brace.start()) for mark in ";{}")
            open_braces.append(_NAMESPACE.search(before[start + 1 : brace.start()]) is None)
        elif open_braces:
            open_braces.pop()
    return any(open_braces)
