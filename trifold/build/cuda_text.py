"""Rewrites ordinary CUDA text for g++: nvcc's own syntax becomes C++, without moving any line.

    kernel<<<grid, block>>>(x, n)       a launch by trifold/cpu/configuration.h
    extern __shared__ float tile[];     the launch's dynamic shared memory, by trifold/build/shared_arrays.py
    __launch_bounds__(256)              a statement in the kernel, as __cluster_dims__(2)
    cudaLaunchKernelExC(…, (void*)f, …) the kernel's own type, which has its parameters
    #include <cuda_runtime.h>           nothing: runtime_api.h is included in front of every program
    asm("add.u32 %0, %1, 4;" : …)       a function for each instruction of PTX: inline_ptx.py

Features without a counterpart on the CPU (textures, …) become errors at their lines: cuda_refusals.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tree_sitter import Node

from trifold.build import inline_ptx, launch_bounds, shared_arrays, torch_text
from trifold.build.cuda_refusals import (
    TORCH_HEADER,
    calls_without_launch,
    refusals,
    refused_header,
    unread_launches,
)
from trifold.build.cuda_source import Edit, Kernel, SourceFile
from trifold.build.heap_text import heap_edits
from trifold.build.sources import INCLUDE_ROOT

# Headers whose CPU part is in runtime_api.h, which is included before every program.
_KNOWN_HEADER = re.compile(
    r"(cuda|cuda_runtime|cuda_runtime_api|device_launch_parameters|device_functions|device_atomic_functions|"
    r"vector_types|vector_functions|math_constants|sm_\d\d_\w+|cuda_fp16|cuda_bf16|cooperative_groups|"
    r"device_types|driver_functions|host_defines|host_config|channel_descriptor|(texture|surface)_types|"
    r"(texture|surface)_indirect_functions|(math|common|device_double)_functions|cuda_stdint|crt/.+)(\.h|\.hpp|\.cuh)"
)
# Folders of CUDA's headers of which trifold replaces some: those that exist here.
_CPU_HEADERS = "cuda_for_cpu"
# Functions of the runtime API with a kernel argument, and its position.
_LAUNCHING = {"cudaLaunchKernel": 0, "cudaLaunchCooperativeKernel": 0, "cudaLaunchKernelExC": 1}
_AS_POINTER = re.compile(
    r"(?:\(\s*(?:const\s+)?void\s*(?:const\s*)?\*\s*\)|\w+_cast\s*<\s*(?:const\s+)?void\s*(?:const\s*)?\*\s*>\s*)"
    r"\s*(?P<kernel>.+)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Source:
    """One file: the text for g++, its kernels, and whether it has ``extern __shared__`` arrays outside of functions."""

    path: Path
    text: str
    kernels: tuple[Kernel, ...]
    shared_outside: bool


def read_program(path: Path, folders: tuple[Path, ...] = (), *, drop_torch: bool = False) -> dict[Path, Source]:
    """``path`` and all files that it includes from its own folder and from ``folders``, rewritten; ``path`` first.

    An ``#include`` of one of them names a file in the same folder: see :func:`file_name`.

    Args:
        path: the program.
        folders: where ``#include`` looks after the including file's own folder.
        drop_torch: omit what is written for torch: its headers, and the host functions that use them.

    Raises:
        OSError: a file cannot be read.
    """
    files: dict[Path, SourceFile] = {}
    waiting = [path.resolve()]
    while waiting:
        current = waiting.pop()
        if current not in files:
            files[current] = SourceFile(current, folders, _readable)
            waiting += files[current].includes.values()
    every = [kernel for file in reversed(files.values()) for kernel in file.kernels]
    forms = Counter(kernel.name for kernel in every)
    declared = set().union(*(file.kernels_declared for file in files.values()))
    forms.update(name for name, count in declared - {(kernel.name, len(kernel.parameters)) for kernel in every})
    kernels = {kernel.name: replace(kernel, overloaded=forms[kernel.name] > 1) for kernel in every}
    of_torch = torch_text.HostCode.of(files.values()) if drop_torch else None
    defined = {name for file in files.values() for name in file.defined}
    others = {name for file in files.values() for name in file.declared_outside}
    sources = {}
    for current, file in files.items():
        edits = [*_edits(file, kernels, defined, of_torch), *calls_without_launch(file, kernels, others)]
        text, outside = shared_arrays.rewrite(file.apply(edits))
        sources[current] = Source(current, text, file.kernels, outside)
    return sources


def file_name(path: Path) -> str:
    """The name of a rewritten file in the build's folder; different for different files."""
    return re.sub(r"[^\w.]", "_", str(path))


def _readable(content: bytes) -> bytes:
    """Without what the parser does not know: PTX, ``__cluster_dims__``, and torch's names for ``__launch_bounds__``."""
    text = torch_text.with_launch_bounds(content.decode(errors="surrogateescape"))
    return launch_bounds.without_cluster_dims(inline_ptx.rewrite(text)).encode(errors="surrogateescape")


def _edits(
    file: SourceFile, kernels: dict[str, Kernel], defined: set[str], of_torch: torch_text.HostCode | None
) -> list[Edit]:
    """``of_torch``: the host code that is left out; None: none is."""
    launches = list(_launch_edits(file, kernels))
    return [
        *(of_torch.edits(file) if of_torch is not None else ()),
        *_include_edits(file, of_torch is not None),
        *refusals(file, defined),
        *heap_edits(file, defined),
        *unread_launches(file, launches),
        *launches,
        *_untyped_kernel_edits(file),
        *_bounds_edits(file, by_name=of_torch is not None),
    ]


def _include_edits(file: SourceFile, drop_torch: bool) -> Iterator[Edit]:
    for node, name, _ in file.included():
        end = node.start_byte + len(file.content[node.start_byte : node.end_byte].rstrip())
        if node in file.includes:
            yield Edit(node.start_byte, end, f'#include "{file_name(file.includes[node])}"')
        elif (INCLUDE_ROOT / _CPU_HEADERS / name).is_file():
            yield Edit(node.start_byte, end, f"#include <{_CPU_HEADERS}/{name}>")
        elif refused := refused_header(name, torch=drop_torch):
            yield Edit(node.start_byte, end, refused)
        elif TORCH_HEADER.fullmatch(name):
            yield Edit(node.start_byte, end, f"#include <{_CPU_HEADERS}/torch_names.h>")
        elif _KNOWN_HEADER.fullmatch(name):
            yield Edit(node.start_byte, end, "")


def _launch_edits(file: SourceFile, kernels: dict[str, Kernel]) -> Iterator[Edit]:
    for content, nodes, shift in file.bodies():
        if b"<<<" in content:
            yield from _launches(content, nodes, kernels, shift)


def _launches(content: bytes, nodes: list[Node], kernels: dict[str, Kernel], shift: int) -> Iterator[Edit]:
    """The edits of all launches among ``nodes`` of ``content``, which begins at offset ``shift``."""
    for node in nodes:
        syntax = next((child for child in node.children if child.type == "kernel_call_syntax"), None)
        callee, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if syntax is None or callee is None or arguments is None or node.type != "call_expression":
            continue
        written = content[callee.start_byte : callee.end_byte].replace(b"\\\n", b" ").decode(errors="replace")
        text = " ".join(written.split())
        base = re.sub(r"<.*", "", text, flags=re.DOTALL).rpartition("::")[2]
        kernel = kernels.get(base, Kernel("", ()))
        opening, closing = syntax.children[0], syntax.children[-1]
        begin = f"::trifold::cpu::Configuration({_literal(text)}, {_literal(','.join(kernel.parameters))}, "
        yield Edit(callee.start_byte + shift, opening.end_byte + shift, begin)
        shaped = f".clusters({{{kernel.cluster}}})" if kernel.cluster else ""
        given = [child for child in arguments.children if child.is_named and child.type != "comment"]
        if _is_one_function(kernel, callee, len(given)):
            call = f"){shaped}.launch_function({text}"
        else:
            call = f"){shaped}.launch([=](const auto&... trifold_values) {{ {text}(trifold_values...); }}"
        yield Edit(closing.start_byte + shift, arguments.start_byte + 1 + shift, call + (", " if given else ""))
        for argument in given:
            if content[argument.start_byte : argument.end_byte] == b"NULL":  # an integer, for a template
                yield Edit(argument.start_byte + shift, argument.end_byte + shift, "nullptr")
        for argument, is_reference in zip(given, kernel.references, strict=False):
            if is_reference:
                yield Edit(argument.start_byte + shift, argument.start_byte + shift, "::trifold::cpu::by_reference(")
                yield Edit(argument.end_byte + shift, argument.end_byte + shift, ")")


def _is_one_function(kernel: Kernel, callee: Node, arguments: int) -> bool:
    """Whether the type of the launched function says to what its arguments are converted: it is not overloaded, all its
    template arguments are in the text, and no default argument is missing, nor is one a reference."""
    name: Node | None = callee
    while name is not None and name.type == "qualified_identifier":
        name = name.child_by_field_name("name")
    written = name.child_by_field_name("arguments") if name is not None else None
    template_arguments = [node for node in written.named_children if node.type != "comment"] if written else []
    return (
        kernel.name != ""
        and not kernel.overloaded
        and len(kernel.parameters) == arguments
        and not any(kernel.references)
        and len(kernel.template) == len(template_arguments)
        and not any("..." in parameter for parameter in kernel.template)
    )


def _untyped_kernel_edits(file: SourceFile) -> Iterator[Edit]:
    """Kernels that are passed as ``void*``: the functions that launch them read their parameters off their types."""
    for node in filter(None, map(file.given_to_graph, file.nodes)):
        if cast := _AS_POINTER.fullmatch(file.text(node)):
            yield Edit(node.start_byte, node.end_byte, cast["kernel"])
    for node in file.nodes:
        name, arguments = file.calls(node), node.child_by_field_name("arguments")
        if name not in _LAUNCHING or arguments is None:
            continue
        given = [child for child in arguments.children if child.is_named and child.type != "comment"]
        at = _LAUNCHING[name]
        cast = _AS_POINTER.fullmatch(file.text(given[at])) if at < len(given) else None
        if cast is not None:
            yield Edit(given[at].start_byte, given[at].end_byte, cast["kernel"])


def _literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _bounds_edits(file: SourceFile, *, by_name: bool) -> Iterator[Edit]:
    """Compares the blocks of launches with the kernel's bounds. A launch by ``<<<…>>>`` does not know the kernel
    instance: there, each thread compares. (Such builds are always checked ones.)"""
    for place, bounds in launch_bounds.kernels(file.masked.decode("latin-1")):
        compare = " ::trifold::cpu::require_launch_bounds(trifold_launch_bounds);"
        yield Edit(place, place, launch_bounds.constant(bounds) + ("" if by_name else compare))
