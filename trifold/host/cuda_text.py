"""Ordinary CUDA text as g++ can read it: what only nvcc's grammar has is written in C++, each line staying where it is.

    kernel<<<grid, block>>>(x, n)       a launch by trifold/host/configuration.h
    extern __shared__ float tile[];     the launch's dynamic shared memory
    #include <cuda_runtime.h>           nothing: runtime_api.h is included in front of every program

What the CPU has no counterpart for (inline PTX, textures, clusters, …) is refused with its line.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tree_sitter import Language, Node, Parser

from trifold.build import diagnostics
from trifold.build.sources import INCLUDE_ROOT
from trifold.errors import BuildError


class UnsupportedCuda(BuildError):
    """The text uses something of CUDA that the build for the CPU does not have."""


# Headers of which runtime_api.h has what the CPU has; it is included in front of every program.
_KNOWN_HEADERS = re.compile(
    r"(cuda|cuda_runtime|cuda_runtime_api|device_launch_parameters|device_functions|device_atomic_functions|"
    r"driver_types|vector_types|vector_functions|math_constants|sm_\d\d_\w+|cuda_fp16|cuda_bf16|cooperative_groups|"
    r"crt/.+)(\.h|\.hpp|\.cuh)"
)
_TORCH_HEADER = re.compile(r"(torch|ATen|c10|pybind11)/.+")
_LIBRARY_HEADER = re.compile(
    r"((curand|cublas|cudnn|cufft|cusparse|cusolver|nvrtc|nccl|npp|nvml|mma|cuda_pipeline|cudaProfiler|cuda_profiler)\w*"
    r"\.h|(cub|thrust|cuda|cutlass|cute|nvtx3|cooperative_groups)/.+)"
)

_REFUSED_WORDS = (
    (
        "textures and surfaces",
        re.compile(rb"\btexture\s*<|\bcuda(?:Texture|Surface)Object_t\b|\b(?:tex|surf)[123]D\w*"),
    ),
    ("thread block clusters", re.compile(rb"\b__cluster_dims__\b|\bcluster_group\b|\bthis_cluster\b")),
    ("tensor-core fragments (wmma)", re.compile(rb"\bwmma\s*::")),
    ("asynchronous copies", re.compile(rb"\b__pipeline_\w+|\bcuda\s*::\s*(?:barrier|pipeline|memcpy_async)\b")),
    ("grid-wide synchronisation", re.compile(rb"\bgrid_group\b|\bthis_grid\s*\(|\bcudaLaunchCooperativeKernel\b")),
)

_EXTERN_SHARED = re.compile(
    rb"\b(?:extern\s+__shared__|__shared__\s+extern)\s+(?P<type>[^;={}]*?)\b(?P<name>\w+)\s*\[\s*\]"
    rb"(?P<inner>(?:\s*\[[^\];]*\])*)\s*;"
)
_ALIGNMENT = re.compile(rb"\b(?:__align__|alignas)\s*\([^()]*(?:\([^()]*\))?[^()]*\)|__attribute__\s*\(\(.*?\)\)")
_DEVICE = re.compile(rb"\b__(?:global|device)__\b")
_OF_TORCH = re.compile(rb"\b(?:torch|at|c10|pybind11|py)\s*::|\bPYBIND11_MODULE\b|\bTORCH_LIBRARY\w*|\bAT_DISPATCH_\w+")
_API_NAME = re.compile(r"\bcuda[A-Z]\w*")
_WORD = re.compile(rb"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Kernel:
    """A ``__global__`` function as its text has it: ``parameters`` are their names, "" where one has none."""

    name: str
    parameters: tuple[str, ...]
    template: bool


@dataclass(frozen=True)
class Source:
    """One file: the text for g++, and its kernels."""

    path: Path
    text: str
    kernels: tuple[Kernel, ...]


@dataclass(frozen=True)
class Edit:
    """Bytes [start, end) become ``text``; the newlines that they held follow it."""

    start: int
    end: int
    text: str


def read_program(path: Path, folders: tuple[Path, ...] = (), *, drop_torch: bool = False) -> dict[Path, Source]:
    """``path`` and all files that it includes from its own folder and from ``folders``, rewritten; ``path`` first.

    An ``#include`` of one of them names a file beside the others: see :func:`file_name`.

    Args:
        path: the program.
        folders: where ``#include`` looks beside the including file's own folder.
        drop_torch: leave out what is written for torch: its headers, and the host functions that use them.

    Raises:
        UnsupportedCuda: the text has what the CPU build has not, or a launch that cannot be read.
        OSError: a file cannot be read.
    """
    files: dict[Path, _File] = {}
    waiting = [path.resolve()]
    while waiting:
        current = waiting.pop()
        if current in files:
            continue
        files[current] = _File(current, folders)
        waiting += files[current].includes.values()
    kernels = {kernel.name: kernel for file in reversed(files.values()) for kernel in file.kernels}
    defined = {name for file in files.values() for name in file.defined}
    return {current: file.rewritten(kernels, defined, drop_torch) for current, file in files.items()}


def file_name(path: Path) -> str:
    """The name under which a rewritten file lies in the build's folder; different for different files."""
    return re.sub(r"[^\w.]", "_", str(path))


@functools.cache
def _parser() -> Parser:
    import tree_sitter_cuda

    return Parser(Language(tree_sitter_cuda.language()))


class _File:
    """One file of the program, parsed."""

    def __init__(self, path: Path, folders: tuple[Path, ...]) -> None:
        self.path = path
        self.content = path.read_bytes()
        self.root = _parser().parse(self.content).root_node
        self.nodes = list(_walk(self.root))
        self.masked = _without_comments_and_strings(self.content, self.nodes)
        self.functions = [node for node in self.nodes if node.type == "function_definition"]
        self.kernels = tuple(self._kernels())
        self.defined = set(self._defined())
        self.includes = dict(self._includes(folders))

    def line(self, offset: int) -> int:
        return self.content.count(b"\n", 0, offset) + 1

    def refuse(self, offset: int, problem: str, remedy: str) -> UnsupportedCuda:
        return UnsupportedCuda(f"{diagnostics.shown(self.path)}:{self.line(offset)}: {problem}", remedy)

    def is_device(self, function: Node) -> bool:
        body = function.child_by_field_name("body")
        head_end = body.start_byte if body is not None else function.end_byte
        return _DEVICE.search(self.masked, function.start_byte, head_end) is not None

    def _kernels(self) -> Iterator[Kernel]:
        for function in self.functions:
            declarator = function.child_by_field_name("declarator")
            while declarator is not None and declarator.type != "function_declarator":
                declarator = declarator.child_by_field_name("declarator")
            head = self.masked[function.start_byte : declarator.start_byte] if declarator is not None else b""
            if declarator is None or b"__global__" not in head:
                continue
            name = declarator.child_by_field_name("declarator")
            parameters = declarator.child_by_field_name("parameters")
            if name is not None and parameters is not None:
                inside = self.masked[parameters.start_byte + 1 : parameters.end_byte - 1]
                text = self.content[name.start_byte : name.end_byte].decode(errors="replace")
                template = function.parent is not None and function.parent.type == "template_declaration"
                yield Kernel(text, tuple(map(_parameter_name, _split(inside))), template)

    def _defined(self) -> Iterator[str]:
        for node in self.nodes:
            if node.type in ("function_declarator", "preproc_def", "preproc_function_def"):
                name = node.child_by_field_name("declarator") or node.child_by_field_name("name")
                if name is not None:
                    yield self.content[name.start_byte : name.end_byte].decode(errors="replace")

    def _includes(self, folders: tuple[Path, ...]) -> Iterator[tuple[Node, Path]]:
        for node, name, quoted in self._included():
            for folder in ((self.path.parent,) if quoted else ()) + folders:
                found = folder / name
                if found.is_file() and not found.resolve().is_relative_to(INCLUDE_ROOT):
                    yield node, found.resolve()
                    break

    def _included(self) -> Iterator[tuple[Node, str, bool]]:
        for node in self.nodes:
            path = node.child_by_field_name("path") if node.type == "preproc_include" else None
            if path is not None:
                text = self.content[path.start_byte : path.end_byte].decode(errors="replace")
                yield node, text.strip('<>"'), text.startswith('"')

    def rewritten(self, kernels: dict[str, Kernel], defined: set[str], drop_torch: bool) -> Source:
        torch_edits = self._torch_edits() if drop_torch else []
        dropped = [(edit.start, edit.end) for edit in torch_edits]
        self._refuse_words(dropped)
        self._refuse_in_device_code()
        self._refuse_unknown_functions(defined, dropped)
        edits = [*torch_edits, *self._include_edits(drop_torch)]
        edits += [*self._launch_edits(kernels), *self._shared_edits()]
        self._refuse_unread_launches(dropped, edits)
        return Source(self.path, _apply(self.content, edits), self.kernels)

    def _include_edits(self, drop_torch: bool) -> Iterator[Edit]:
        for node, name, _ in self._included():
            end = node.start_byte + len(self.content[node.start_byte : node.end_byte].rstrip())
            if node in self.includes:
                yield Edit(node.start_byte, end, f'#include "{file_name(self.includes[node])}"')
            elif name in _own_headers():
                yield Edit(node.start_byte, end, f"#include <{_own_headers()[name]}>")
            elif _KNOWN_HEADERS.fullmatch(name) or (drop_torch and _TORCH_HEADER.fullmatch(name)):
                yield Edit(node.start_byte, end, "")
            elif _TORCH_HEADER.fullmatch(name):
                raise self.refuse(
                    node.start_byte,
                    f"<{name}>: a program that uses torch cannot be run by itself on the CPU",
                    "run its kernels with trifold.host.RawKernel, or make it an op and run `trifold verify`",
                )
            elif _LIBRARY_HEADER.fullmatch(name):
                raise self.refuse(
                    node.start_byte,
                    f"<{name}> is not there on the CPU",
                    "write out what the kernel needs of it, or (random numbers) use <trifold/philox.cuh>",
                )

    def _torch_edits(self) -> list[Edit]:
        """What is host code for torch goes; its kernels stay."""
        return [
            Edit(node.start_byte, node.end_byte, "")
            for node in self._at_top()
            if not (node.type == "function_definition" and self.is_device(node))
            and not node.type.startswith("preproc")
            and _DEVICE.search(self.masked, node.start_byte, node.end_byte) is None
            and _OF_TORCH.search(self.masked, node.start_byte, node.end_byte)
        ]

    def _at_top(self) -> Iterator[Node]:
        waiting = list(self.root.children)
        while waiting:
            node = waiting.pop()
            if node.type in ("namespace_definition", "declaration_list", "linkage_specification"):
                waiting += node.children
            else:
                yield node

    def _refuse_words(self, dropped: list[tuple[int, int]]) -> None:
        for what, words in _REFUSED_WORDS:
            for match in words.finditer(self.masked):
                if not _inside(match.start(), dropped):
                    raise self.refuse(match.start(), f"{what} do not run on the CPU", "leave them to the GPU's build")

    def _refuse_in_device_code(self) -> None:
        for function in filter(self.is_device, self.functions):
            for node in _walk(function):
                if node.type == "gnu_asm_expression":
                    raise self.refuse(
                        node.start_byte, "inline PTX does not run on the CPU", "write it with CUDA's functions"
                    )
                if node.type == "new_expression" or self._calls(node) in (b"malloc", b"free"):
                    raise self.refuse(
                        node.start_byte, "a kernel's own heap is not there on the CPU", "allocate with cudaMalloc"
                    )
                if node.type == "kernel_call_syntax":
                    raise self.refuse(
                        node.start_byte,
                        "a kernel that launches a kernel (dynamic parallelism) does not run on the CPU",
                        "launch it from host code",
                    )

    def _calls(self, node: Node) -> bytes:
        callee = node.child_by_field_name("function") if node.type == "call_expression" else None
        return b"" if callee is None else self.content[callee.start_byte : callee.end_byte]

    def _refuse_unknown_functions(self, defined: set[str], dropped: list[tuple[int, int]]) -> None:
        for node in self.nodes:
            callee = node.child_by_field_name("function") if node.type == "call_expression" else None
            if callee is None or callee.type not in ("identifier", "template_function"):
                continue
            match = _API_NAME.match(self.content[callee.start_byte : callee.end_byte].decode(errors="replace"))
            if match is None or match[0] in defined | _api_names() or _inside(callee.start_byte, dropped):
                continue
            raise self.refuse(
                callee.start_byte, f"{match[0]} is not there on the CPU", "leave it out, or ask for it in an issue"
            )

    def _launch_edits(self, kernels: dict[str, Kernel]) -> Iterator[Edit]:
        yield from _launches(self.content, self.nodes, kernels, 0)
        for node in self.nodes:
            if node.type != "preproc_arg" or b"<<<" not in self.content[node.start_byte : node.end_byte]:
                continue
            before = b"void f() {"
            wrapped = before + self.content[node.start_byte : node.end_byte] + b";}"
            inner = list(_walk(_parser().parse(wrapped).root_node))
            yield from _launches(wrapped, inner, kernels, node.start_byte - len(before))

    def _refuse_unread_launches(self, dropped: list[tuple[int, int]], edits: list[Edit]) -> None:
        read = [(edit.start, edit.end) for edit in edits]
        for match in re.finditer(rb"<<<", self.masked):
            if not _inside(match.start(), dropped) and not _inside(match.start(), read):
                raise self.refuse(
                    match.start(),
                    "this launch cannot be read",
                    "write it as a statement of its own: kernel<<<grid, block>>>(arguments);",
                )

    def _shared_edits(self) -> Iterator[Edit]:
        for match in _EXTERN_SHARED.finditer(self.masked):
            element = _ALIGNMENT.sub(b" ", match["type"]) + match["inner"]
            memory = f"::trifold::dynamic_shared<{' '.join(element.decode().split())}>()"
            name = match["name"].decode()
            if any(function.start_byte <= match.start() < function.end_byte for function in self.functions):
                yield Edit(match.start(), match.end(), f"auto* const {name} = {memory};")
                continue
            yield Edit(match.start(), match.end(), "")
            yield from self._uses(name, match.end(), f"({memory})")

    def _uses(self, name: str, begin: int, memory: str) -> Iterator[Edit]:
        """A name of the whole file's in each function that gives it to nothing of its own."""
        word = name.encode()
        for function in self.functions:
            if function.start_byte < begin or not self.is_device(function):
                continue
            uses = [
                node
                for node in _walk(function)
                if node.type == "identifier" and self.content[node.start_byte : node.end_byte] == word
            ]
            if not any(_declares(node) for node in uses):
                yield from (Edit(node.start_byte, node.end_byte, memory) for node in uses)


def _declares(node: Node) -> bool:
    return node.parent is not None and "declarator" in node.parent.type


def _launches(content: bytes, nodes: list[Node], kernels: dict[str, Kernel], shift: int) -> Iterator[Edit]:
    """The edits of all launches among ``nodes`` of ``content``, which stands ``shift`` bytes behind."""
    for node in nodes:
        syntax = next((child for child in node.children if child.type == "kernel_call_syntax"), None)
        callee, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if syntax is None or callee is None or arguments is None or node.type != "call_expression":
            continue
        text = " ".join(content[callee.start_byte : callee.end_byte].decode(errors="replace").split())
        base = re.sub(r"<.*", "", text, flags=re.DOTALL).rpartition("::")[2]
        names = ",".join(kernels[base].parameters) if base in kernels else ""
        opening, closing = syntax.children[0], syntax.children[-1]
        begin = f"::trifold::host::Configuration({_literal(text)}, {_literal(names)}, "
        yield Edit(callee.start_byte + shift, opening.end_byte + shift, begin)
        call = f").launch([=](const auto&... trifold_values) {{ {text}(trifold_values...); }}"
        given = [child for child in arguments.children if child.is_named and child.type != "comment"]
        yield Edit(closing.start_byte + shift, arguments.start_byte + 1 + shift, call + (", " if given else ""))
        for argument in given:
            if content[argument.start_byte : argument.end_byte] == b"NULL":  # an integer, to a template
                yield Edit(argument.start_byte + shift, argument.end_byte + shift, "nullptr")


def _literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _walk(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += reversed(current.children)


def _without_comments_and_strings(content: bytes, nodes: list[Node]) -> bytes:
    masked = bytearray(content)
    for node in nodes:
        if node.type in ("comment", "string_literal", "raw_string_literal", "char_literal"):
            blank = re.sub(rb"[^\n]", b" ", content[node.start_byte : node.end_byte])
            masked[node.start_byte : node.end_byte] = blank
    return bytes(masked)


def _split(parameters: bytes) -> list[bytes]:
    """At the commas that stand in no bracket."""
    parts, depth = [b""], 0
    for i in range(len(parameters)):
        c = parameters[i : i + 1]
        depth += (c in b"<([{") - (c in b">)]}")
        if c == b"," and depth == 0:
            parts.append(b"")
        else:
            parts[-1] += c
    return parts if parameters.strip() else []


def _parameter_name(declaration: bytes) -> str:
    words = _WORD.findall(declaration.partition(b"=")[0].partition(b"[")[0])
    return words[-1].decode() if len(words) > 1 else ""


def _inside(offset: int, ranges: list[tuple[int, int]]) -> bool:
    return any(start <= offset < end for start, end in ranges)


def _apply(content: bytes, edits: list[Edit]) -> str:
    parts, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < at:
            continue  # inside what is left out
        lines = content.count(b"\n", edit.start, edit.end)
        parts += [content[at : edit.start], edit.text.encode(), b"\n" * lines]
        at = edit.end
    return b"".join([*parts, content[at:]]).decode(errors="surrogateescape")


@functools.cache
def _own_headers() -> dict[str, Path]:
    """CUDA's headers of which trifold has one of the same name: where that lies among its includes."""
    headers = sorted((INCLUDE_ROOT / "trifold" / "host").rglob("*.*"))
    return {
        header.name: header.relative_to(INCLUDE_ROOT)
        for header in headers
        if _KNOWN_HEADERS.fullmatch(header.name) or _LIBRARY_HEADER.fullmatch(header.name)
    }


@functools.cache
def _api_names() -> frozenset[str]:
    """CUDA's functions that runtime_api.h and the dialect have."""
    headers = (INCLUDE_ROOT / "trifold").rglob("*.*h")
    return frozenset(name for header in headers for name in _API_NAME.findall(header.read_text(encoding="utf-8")))
