"""The jittered build: inserts pauses of random length around all synchronisation between threads.

    __syncthreads();                 (void(Pauses(…)), __syncthreads());
    old = atomicAdd(count, 1);       old = (void(Pauses(…)), atomicAdd(count, 1));
    asm volatile("cp.async …");      { Pauses pauses(…); asm volatile("cp.async …"); }
    __global__ void kernel(…) {      __global__ void kernel(…) { begin(…);

A ``Pauses`` (trifold/jitter.cuh) pauses when it is constructed and at the end of the whole expression or block. Headers
of trifold and of the op are changed in the same way, as copies in the build's folder, without moving lines.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from tree_sitter import Node

from trifold.build import cuda_source, sources
from trifold.build.cuda_source import Edit, SourceFile

HEADER = sources.INCLUDE_ROOT / "trifold" / "jitter.cuh"
# The files that determine the text besides the sources.
REWRITERS = (Path(__file__), Path(cuda_source.__file__))

# CUDA's functions, and methods of cooperative groups, of pipelines, and of atomics and barriers of libcu++. Not
# shuffles and votes, which exchange only registers, and which are numerous.
_CALL = re.compile(
    r"__sync\w+|__threadfence\w*|__pipeline_\w+|atomic[A-Z_]\w*|"
    r"cudaGridDependencySynchronize|cudaTriggerProgrammaticLaunchCompletion|"
    r"memcpy_async|wait_prior|producer_\w+|consumer_\w+|fetch_\w+|exchange|compare_exchange_\w+|"
    r"sync|(?:barrier_|try_)?(?:arrive|wait)|wait_parity|arrive_(?:and_wait|and_drop|tx)"
)
_PTX_CALL = re.compile(r"(?:.*::)?ptx::(?!get_sreg)\w+(?:<.*)?", re.DOTALL)  # cuda::ptx, an instruction each
# PTX instructions that wait, let others continue, order memory, copy asynchronously, or are atomic.
_INSTRUCTION = re.compile(
    r"\b(?:bar|barrier|mbarrier|fence|membar|elect|cp|red|atom|multimem|griddepcontrol|discard|tcgen05|clusterlaunchcontrol)\.|"
    r"\bst\.(?:async|bulk)\b|\b(?:ld|st)\.(?:volatile|relaxed|acquire|release|mmio)\b|\bwgmma\.(?:fence|commit|wait)\w*"
)


def for_nvcc(binding: Path, folder: Path) -> str:
    """The text of ``binding`` with pauses. Copies of its headers with pauses are written into ``folder``, where the
    compiler looks first; of two with one name, the one in the binding's folder."""
    binding = binding.resolve()
    included = sources.included_sources(binding)
    for root in (sources.INCLUDE_ROOT, binding.parent):
        for path in included:
            if path not in (binding, HEADER) and path.is_relative_to(root) and path.suffix in (".cuh", ".h"):
                copy = folder / path.relative_to(root)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(_with_include(path), encoding="utf-8", errors="surrogateescape")
    return _with_include(binding)


def _with_include(path: Path) -> str:
    return f"#include <trifold/{HEADER.name}>\n#line 1 {sources.quoted(path)}\n{rewrite(path)}"


def rewrite(path: Path) -> str:
    """The text of a file of CUDA C++ with pauses.

    Not read: calls that a macro assembles from parts that are not calls themselves.
    """
    file = SourceFile(path, ())
    return file.apply([*_calls(file), *_instructions(file), *_kernels(file)])


def _calls(file: SourceFile) -> Iterator[Edit]:
    for content, nodes, shift in file.bodies():
        for node in nodes:
            callee = node.child_by_field_name("function") if node.type == "call_expression" else None
            if callee is None:
                continue
            text = content[callee.start_byte : callee.end_byte].decode(errors="replace")
            name = re.split(r"::|\.|->", re.sub(r"<.*", "", text, flags=re.DOTALL))[-1].strip()
            if _CALL.fullmatch(name) or _PTX_CALL.fullmatch(text):
                begin, end = node.start_byte + shift, node.end_byte + shift
                yield Edit(begin, begin, f"(void(::trifold::jitter::Pauses({_place(file, begin)})), ")
                yield Edit(end, end, ")")


def _instructions(file: SourceFile) -> Iterator[Edit]:
    for node in file.nodes:
        statement = node.parent
        if node.type != "gnu_asm_expression" or statement is None or statement.type != "expression_statement":
            continue
        if _INSTRUCTION.search(file.text(node)):
            pauses = f"::trifold::jitter::Pauses trifold_pauses({_place(file, node.start_byte)});"
            yield Edit(statement.start_byte, statement.start_byte, f"{{ {pauses} ")
            yield Edit(statement.end_byte, statement.end_byte, " }")


def _kernels(file: SourceFile) -> Iterator[Edit]:
    """Blocks begin at different times, and so do threads."""
    for function in file.functions:
        body: Node | None = function.child_by_field_name("body")
        if body is not None and b"__global__" in file.masked[function.start_byte : body.start_byte]:
            begin = body.start_byte + 1
            yield Edit(begin, begin, f" ::trifold::jitter::begin({_place(file, begin)});")


def _place(file: SourceFile, byte: int) -> str:
    """A number that is unlikely to belong to another place."""
    return f"{zlib.crc32(f'{file.path.name}:{byte}'.encode())}u"
