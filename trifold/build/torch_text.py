"""Leaves out the host code of an extension of torch: its kernels run without torch's headers.

What device code takes from those headers is in trifold/include/cuda_for_cpu/torch_names.h.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from trifold.build.cuda_source import DEVICE, Edit, SourceFile

_LAUNCH_BOUNDS = re.compile(r"\bC10_LAUNCH_BOUNDS_[12]\b")
# Nodes of the syntax tree that contain declarations, besides those of #if.
_NESTED = ("namespace_definition", "declaration_list", "linkage_specification")
# Those that declare a type.
_TYPES = (
    "using_declaration",
    "class_specifier",
    "struct_specifier",
    "union_specifier",
    "enum_specifier",
    "alias_declaration",
    "type_definition",
)
_NAMES = ("identifier", "type_identifier")
# Names for host code alone.
_HOST_NAMES = (
    rb"\b(?:torch|at|c10|pybind11|py)\s*::(?!\s*(?:Half|BFloat16|opmath_type|OpMathType|acc_type|ceil_div|"
    rb"(?:Generic)?(?:Packed)?TensorAccessor(?:32|64)?|(?:Default|Restrict)PtrTraits)\b)|"
    rb"\bPYBIND11_MODULE\b|\b(?:TORCH|AT|C10_CUDA)_[A-Z]\w*"
)
_ALL_OF_TORCH = re.compile(rb"\busing\s+namespace\s+(?:at|torch)\s*;")  # then Tensor is torch's


def with_launch_bounds(text: str) -> str:
    """CUDA's own ``__launch_bounds__`` for torch's macros, without moving what follows."""
    return _LAUNCH_BOUNDS.sub("  __launch_bounds__", text)


@dataclass(frozen=True)
class HostCode:
    """What host code for torch mentions, in a program.

    Attributes:
        types: matches torch's names, and those of types that are themselves for torch.
        everything: also the names of functions, variables and macros that are; a field of a class may have one, too.
    """

    types: re.Pattern[bytes]
    everything: re.Pattern[bytes]

    @classmethod
    def of(cls, files: Collection[SourceFile]) -> HostCode:
        kernels = {kernel.name.encode() for file in files for kernel in file.kernels}
        types = {b"Tensor"} if any(_ALL_OF_TORCH.search(file.masked) for file in files) else set()
        others: set[bytes] = set()
        while True:
            found = cls(_pattern(types), _pattern(types | others))
            before = len(types) + len(others)
            for file in files:
                for node in found.mentions(file):
                    (types if _is_type(node) else others).update(_declared(file, node) - kernels)
            if len(types) + len(others) == before:
                return found

    def edits(self, file: SourceFile) -> Iterator[Edit]:
        """Removes the host code for torch; kernels and device functions are kept."""
        for node in self._declarations(file):
            yield Edit(node.start_byte, node.end_byte, "")

    def mentions(self, file: SourceFile) -> Iterator[Node]:
        """The host code for torch, and the macros for it."""
        yield from self._declarations(file)
        for node in file.nodes:
            if node.type in ("preproc_def", "preproc_function_def") and self._is_in(file, node):
                yield node

    def _declarations(self, file: SourceFile) -> Iterator[Node]:
        waiting = list(file.root.children)
        while waiting:
            node = waiting.pop()
            if node.type in _NESTED or node.type.startswith(("preproc_if", "preproc_el")):
                waiting += node.children
            elif not node.type.startswith("preproc") and self._is_in(file, node):
                yield node

    def _is_in(self, file: SourceFile, node: Node) -> bool:
        if DEVICE.search(file.masked, node.start_byte, node.end_byte) is not None:
            return False
        pattern = self.types if _is_type(node) else self.everything
        return pattern.search(file.masked, node.start_byte, node.end_byte) is not None


def _pattern(names: set[bytes]) -> re.Pattern[bytes]:
    words = b"|".join(sorted(names))
    return re.compile(_HOST_NAMES + (rb"|\b(?:" + words + rb")\b" if words else b""))


def _is_type(node: Node) -> bool:
    inner = node.named_children[-1] if node.type == "template_declaration" else node
    return inner.type in _TYPES


def _declared(file: SourceFile, node: Node) -> set[bytes]:
    """The name of a function, a class, a type, a variable or a macro that a node declares; none if it has another."""
    if node.type in ("template_declaration", "using_declaration"):  # using at::Tensor;
        node = node.named_children[-1]
    name = node.child_by_field_name("name")
    declarator = node.child_by_field_name("declarator")
    while name is None and declarator is not None:
        if declarator.type in _NAMES:
            name = declarator
        declarator = declarator.child_by_field_name("declarator")
    return {file.masked[name.start_byte : name.end_byte]} if name is not None and name.type in _NAMES else set()
