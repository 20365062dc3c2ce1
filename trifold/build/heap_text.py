"""A kernel's own heap: ``malloc``, ``free``, ``new`` and ``delete`` of device code become the dialect's (heap.h)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from trifold.build.cuda_source import Edit, SourceFile, walk

_CPU = "::trifold::cpu::"
_CALLS = {name: f"{_CPU}heap_{name.removeprefix('::')}" for name in ("malloc", "free", "::malloc", "::free")}

# What precedes the body of a lambda of the device. (The parser does not know all forms of them.)
_LAMBDA_HEAD = re.compile(rb"\]\s*(?:__\w+__\s*)*__device__[^{};]*$")
_LONGEST_HEAD = 1000


def heap_edits(file: SourceFile, defined: set[str]) -> Iterator[Edit]:
    """The edits of one file; ``defined`` are the names that the program defines, which mean its own functions."""
    seen = set()  # a function may be within another one
    for code in _device_code(file):
        for node in walk(code):
            if node.start_byte in seen:
                continue
            edits = list(_of_node(file, node, defined))
            if edits:
                seen.add(node.start_byte)
                yield from edits


def _device_code(file: SourceFile) -> Iterator[Node]:
    yield from filter(file.is_device, file.functions)
    for node in file.nodes:
        if node.type == "compound_statement":
            head = file.masked[max(0, node.start_byte - _LONGEST_HEAD) : node.start_byte]
            if _LAMBDA_HEAD.search(head):
                yield node


def _of_node(file: SourceFile, node: Node, defined: set[str]) -> Iterator[Edit]:
    name = file.calls(node)
    callee = node.child_by_field_name("function")
    if callee is not None and name in _CALLS and name not in defined:
        yield Edit(callee.start_byte, callee.end_byte, _CALLS[name])
    elif node.type == "new_expression" and node.child_by_field_name("placement") is None:
        keyword = next(child for child in node.children if child.type == "new")
        yield Edit(keyword.end_byte, keyword.end_byte, f" ({_CPU}on_heap())")
    elif node.type == "delete_expression":
        operand = node.children[-1]
        kind = "_array" if any(child.type == "[" for child in node.children) else ""
        yield Edit(node.start_byte, operand.start_byte, f"{_CPU}heap_delete{kind}(")
        yield Edit(operand.end_byte, operand.end_byte, ")")
