"""Leaves out the host code of an extension of torch: its kernels run without torch's headers.

What device code takes from those headers is in trifold/include/cuda_for_cpu/torch_names.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trifold.build.cuda_source import DEVICE, Edit, SourceFile

_LAUNCH_BOUNDS = re.compile(r"\bC10_LAUNCH_BOUNDS_[12]\b")
# Nodes of the syntax tree that contain declarations, besides those of #if.
_NESTED = ("namespace_definition", "declaration_list", "linkage_specification")
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


def host_code(files: Iterable[SourceFile]) -> re.Pattern[bytes]:
    """Matches in declarations that are for torch, by the names that torch's types have in any of ``files``."""
    names = {name for file in files for name in _aliases(file)}
    words = b"|".join(sorted(names))
    return re.compile(_HOST_NAMES + (rb"|\b(?:" + words + rb")\b" if words else b""))


def _aliases(file: SourceFile) -> Iterator[bytes]:
    for match in _ALIAS.finditer(file.masked):
        if match[4]:
            yield b"Tensor"
        elif re.search(_HOST_NAMES, match[0]):
            yield match[1] or match[2] or match[3]


def edits(file: SourceFile, of_torch: re.Pattern[bytes]) -> Iterator[Edit]:
    """Removes the host declarations in which ``of_torch`` matches; kernels and device functions are kept."""
    waiting = list(file.root.children)
    while waiting:
        node = waiting.pop()
        if node.type in _NESTED or node.type.startswith(("preproc_if", "preproc_el")):
            waiting += node.children
        elif (
            not node.type.startswith("preproc")
            and DEVICE.search(file.masked, node.start_byte, node.end_byte) is None
            and of_torch.search(file.masked, node.start_byte, node.end_byte)
        ):
            yield Edit(node.start_byte, node.end_byte, "")
