"""Leaves out the host code of an extension of torch: its kernels run without torch's headers.

What device code takes from those headers is in trifold/include/cuda_for_cpu/torch_names.h.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from tree_sitter import Node

from trifold.build.cuda_source import DEVICE, Edit, SourceFile

_LAUNCH_BOUNDS = re.compile(r"\bC10_LAUNCH_BOUNDS_[12]\b")
# Nodes of the syntax tree that contain declarations, besides those of #if.
_NESTED = ("namespace_definition", "declaration_list", "linkage_specification")
_NAMES = ("identifier", "type_identifier")
# Names for host code alone.
_HOST_NAMES = (
    rb"\b(?:torch|at|c10|pybind11|py)\s*::(?!\s*(?:Half|BFloat16|opmath_type|OpMathType|acc_type|ceil_div)\b)|"
    rb"\bPYBIND11_MODULE\b|\b(?:TORCH|AT|C10_CUDA)_[A-Z]\w*"
)
# Other names for them: using at::Tensor; using T = at::Tensor; typedef at::Tensor T; using namespace torch;
_ALIAS = re.compile(
    rb"\busing\s+(?:at|c10|torch)\s*::\s*(\w+)\s*;|\busing\s+(\w+)\s*=\s*(?:at|c10|torch)\s*::\s*\w+\s*;|"
    rb"\btypedef\s+(?:at|c10|torch)\s*::\s*\w+\s+(\w+)\s*;|\busing\s+namespace\s+(at|torch)\s*;"
)


def with_launch_bounds(text: str) -> str:
    """CUDA's own ``__launch_bounds__`` for torch's macros, without moving what follows."""
    return _LAUNCH_BOUNDS.sub("  __launch_bounds__", text)


def host_code(files: Collection[SourceFile]) -> re.Pattern[bytes]:
    """Matches in declarations that are for torch, by the names that torch's types have in any of ``files``, and by
    those of the functions, classes, types and macros that are themselves for torch."""
    kernels = {kernel.name.encode() for file in files for kernel in file.kernels}
    names = {name for file in files for name in _aliases(file)}
    while True:
        words = b"|".join(sorted(names))
        pattern = re.compile(_HOST_NAMES + (rb"|\b(?:" + words + rb")\b" if words else b""))
        left_out = {name for file in files for node in _mentions(file, pattern) for name in _declared(file, node)}
        if left_out <= names | kernels:
            return pattern
        names |= left_out - kernels


def _aliases(file: SourceFile) -> Iterator[bytes]:
    for match in _ALIAS.finditer(file.masked):
        if match[4]:
            yield b"Tensor"
        elif re.search(_HOST_NAMES, match[0]):
            yield match[1] or match[2] or match[3]


def _declared(file: SourceFile, node: Node) -> Iterator[bytes]:
    """The name of a function, a class, a type, a variable or a macro that a node declares."""
    if node.type == "template_declaration":
        node = node.named_children[-1]
    name = node.child_by_field_name("name")
    declarator = node.child_by_field_name("declarator")
    while name is None and declarator is not None:
        if declarator.type in _NAMES:
            name = declarator
        declarator = declarator.child_by_field_name("declarator")
    if name is not None and name.type in _NAMES:
        yield file.masked[name.start_byte : name.end_byte]


def edits(file: SourceFile, of_torch: re.Pattern[bytes]) -> Iterator[Edit]:
    """Removes the host declarations in which ``of_torch`` matches; kernels and device functions are kept."""
    for node in _host_code(file, of_torch):
        yield Edit(node.start_byte, node.end_byte, "")


def _mentions(file: SourceFile, of_torch: re.Pattern[bytes]) -> Iterator[Node]:
    """The host code for torch, and the macros for it."""
    yield from _host_code(file, of_torch)
    for node in file.nodes:
        if (
            node.type in ("preproc_def", "preproc_function_def")
            and not _is_device(file, node)
            and of_torch.search(file.masked, node.start_byte, node.end_byte)
        ):
            yield node


def _is_device(file: SourceFile, node: Node) -> bool:
    return DEVICE.search(file.masked, node.start_byte, node.end_byte) is not None


def _host_code(file: SourceFile, of_torch: re.Pattern[bytes]) -> Iterator[Node]:
    waiting = list(file.root.children)
    while waiting:
        node = waiting.pop()
        if node.type in _NESTED or node.type.startswith(("preproc_if", "preproc_el")):
            waiting += node.children
        elif (
            not node.type.startswith("preproc")
            and not _is_device(file, node)
            and of_torch.search(file.masked, node.start_byte, node.end_byte)
        ):
            yield node
