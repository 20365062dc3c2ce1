"""CUDA features that the CPU build lacks: each becomes an error of g++ at its own line.

An error, and not an exception here, since text that the preprocessor skips, such as under ``#ifndef TRIFOLD_CPU``, may
contain anything.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from tree_sitter import Node

from trifold.build.cuda_source import Edit, Kernel, SourceFile, walk
from trifold.build.sources import INCLUDE_ROOT
from trifold.build.unsupported import FEATURES

TORCH_HEADER = re.compile(r"(torch|ATen|c10|pybind11|THC|TH)/.+")
_LIBRARY_HEADER = re.compile(
    r"((curand|cublas|cudnn|cufft|cusparse|cusolver|nvrtc|nccl|npp|nvml|nvjpeg|nvJitLink|nvfatbin|nvPTXCompiler|cupti|"
    r"nvToolsExt|cudaProfiler|cuda_profiler|cuda_fp[46]|cuda_occupancy|cuda_awbarrier|cuda_pipeline|cudart_platform|"
    r"cuda_device_runtime_api|cuda(GL|EGL|VDPAU|D3D)|cuda_(gl|egl|vdpau|d3d\d*)_interop)\w*"
    r"\.(h|hpp)|(cub|thrust|cuda|cutlass|cute|nv|nvtx3|cooperative_groups)/.+)"
)
_HINTS = {
    "curand": "<curand_kernel.h> has what the CPU has of cuRAND",
    "thrust/": "docs/cuda-programs.md says what the CPU has of Thrust; write the rest as a kernel",
    "cuda_fp": "put floats of less than 8 bits in #ifndef TRIFOLD_CPU, with another way for the CPU in #else",
    "nv/target": "#ifdef __CUDA_ARCH__ tells device code from host code",
    "cublas": "for the CPU, write a kernel or a loop of the host",
}

_API_NAME = re.compile(r"\bcuda[A-Z]\w*")
_CALLED = re.compile(r"\s*(?P<spaces>(?:(?:\w+\s*)?::\s*)*)(?P<name>\w+)\s*(?:<.*>)?\s*", re.DOTALL)
# Callables passed to algorithms of the standard library, which may have a kernel's name.
_ITERATORS = re.compile(rb"\bc?r?(?:begin|end)\s*\(|\b(?:back_)?inserter\s*\(")


def refusals(file: SourceFile, defined: set[str]) -> Iterator[Edit]:
    """The errors of one file, except for its headers; ``defined`` are the names that the program defines."""
    for feature in filter(lambda feature: feature.in_text, FEATURES):
        for match in re.finditer(feature.pattern.pattern.encode(), file.masked):
            yield _before(match.start(), str(feature))
    for function in filter(file.is_device, file.functions):
        yield from _in_device_code(file, function)
    for node in file.nodes:
        name = _API_NAME.match(file.calls(node))
        if name is not None and name[0] not in defined | _api_names():
            yield _before(node.start_byte, f"{name[0]} is not there on the CPU")


def refused_header(name: str, *, torch: bool) -> str:
    """The replacement of an ``#include`` of a header that the CPU lacks; "" if it has it. ``torch``: refuses torch's
    too."""
    if _LIBRARY_HEADER.fullmatch(name):
        hint = next((f": {hint}" for library, hint in _HINTS.items() if name.startswith(library)), "")
        return f'#pragma GCC error "<{name}> is not there on the CPU{hint}"'
    if TORCH_HEADER.fullmatch(name) and not torch:
        return f'#pragma GCC error "<{name}>: run the kernels of an extension of torch with trifold.cpu.RawKernel"'
    return ""


def unread_launches(file: SourceFile, read: list[Edit]) -> Iterator[Edit]:
    """The launches that could not be rewritten."""
    for match in re.finditer(rb"<<<", file.masked):
        if not any(edit.start <= match.start() < edit.end for edit in read):
            yield _before(match.start(), "this launch cannot be read: write kernel<<<grid, block>>>(arguments)")


def calls_without_launch(file: SourceFile, kernels: dict[str, Kernel], others: set[str]) -> Iterator[Edit]:
    """Calls of kernels as ordinary functions, which g++ would accept.

    A name may mean something other than the kernel: ``others`` are names that the program also declares otherwise
    outside of functions. A function's own variables, members of objects, and names in other namespaces are ignored too.
    """
    for content, nodes, shift in file.bodies():
        for node in nodes:
            callee = node.child_by_field_name("function") if node.type == "call_expression" else None
            if callee is None or any(child.type == "kernel_call_syntax" for child in node.children):
                continue
            text = content[callee.start_byte : callee.end_byte].decode(errors="replace")
            name = _CALLED.fullmatch(text)
            kernel = kernels.get(name["name"]) if name is not None else None
            if name is None or kernel is None or kernel.name in others:
                continue
            spaces = tuple(part.strip() for part in name["spaces"].split("::") if part.strip())
            if spaces != kernel.namespaces[len(kernel.namespaces) - len(spaces) :]:
                continue
            arguments = content[callee.end_byte : node.end_byte]
            function = file.function_around(callee.start_byte + shift)
            if _ITERATORS.search(arguments) or (function is not None and kernel.name in file.declared_in(function)):
                continue
            what = f"the kernel {kernel.name} is called without <<<grid, block>>>, like a function"
            if function is not None and file.is_device(function):
                what += ": what device code calls is a __device__ function"
            else:
                what += f": write {kernel.name}<<<grid, block>>>(arguments)"
            yield _before(callee.start_byte + shift, what)


def _in_device_code(file: SourceFile, function: Node) -> Iterator[Edit]:
    for node in walk(function):
        if node.type == "kernel_call_syntax" and node.parent is not None:
            what = "a kernel that launches a kernel (dynamic parallelism) does not run on the CPU"
            yield _before(node.parent.start_byte, what)


def _before(offset: int, what: str) -> Edit:
    return Edit(offset, offset, f"{_error(what)} ")


def _error(what: str) -> str:
    return f'_Pragma("GCC error \\"{what}\\"")'


@functools.cache
def _api_names() -> frozenset[str]:
    """The CUDA functions provided by runtime_api.h and the dialect's headers."""
    headers = (INCLUDE_ROOT / "trifold").rglob("*.*h")
    return frozenset(name for header in headers for name in _API_NAME.findall(header.read_text(encoding="utf-8")))
