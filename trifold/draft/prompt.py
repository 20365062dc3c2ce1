"""``trifold draft --prompt``: everything that the author of a port, or a model, must read, as one text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tree_sitter import Node

from trifold.build.cuda_source import parse, walk
from trifold.build.sources import INCLUDE_ROOT
from trifold.new.family import Family
from trifold.new.render import op_texts
from trifold.workspace import Workspace

# Headers that ports use, in the order of their use.
_HEADERS = ("binding.h", "launch.cuh", "cuda.cuh", "vector.cuh", "reduce.cuh", "rows.h")
_WORKED: tuple[Family, ...] = ("elementwise", "rows")  # small ones
_QUALIFIERS = re.compile(r"__forceinline__ |\binline ")

_TASK = """\
Write the port of the op {op} for trifold, a toolkit for CUDA kernels of PyTorch ops: two files in C++20,
cuda_src/{op}.cuh with the kernels, and cuda_src/{op}.cu with the functions that check arguments, allocate results and
launch. They do what the prototype below does, which is in Python with Numba. Answer with the two files, each in a block
of its own that begins with its path.

- The same functions as in the prototype, registered under the same names by TRIFOLD_LIBRARY, with the C++ types of the
  schema: const Tensor&, const std::optional<Tensor>&, int64_t, double, bool; several results are a std::tuple.
- The same checks and messages, before the first launch. No launch where there is no element: a grid cannot be empty.
- Half types (__half, __nv_bfloat16) are loaded as they are, computed in float, and rounded once where they are stored:
  trifold::compute_t<T> is the type to compute in, T(x) rounds.
- 64-bit indices where a tensor may have 2^31 elements. Tensors may have any strides and storage offset.
- Launch with trifold::launch and its kind alone, on device.stream(). No synchronisation, no allocation but by the
  functions below, and of torch its stable ABI alone. The text compiles with nvcc, and with g++ for the CPU.
- No race and no read of memory that was not written: shared memory needs its barriers. Sums in a fixed order.
- It is judged by: trifold verify {op} --json report.json
"""


def prompt(op: str, workspace: Workspace, port: str) -> str:
    """The text.

    Args:
        op: of the workspace; its prototype must be there.
        port: the text of ports/OP.py, which has the schema.
    """
    files, headers = workspace.files(op), INCLUDE_ROOT / "trifold"
    parts = [
        _TASK.format(op=op),
        _file(f"prototypes/{op}.py", files.prototype.read_text(encoding="utf-8")),
        _file(f"ports/{op}.py", port),
        "# What the headers declare\n\nAll names are in the namespace trifold, but for macros.\n",
        *(_file(f"<trifold/{name}>", "\n".join(declarations(headers / name)).strip()) for name in _HEADERS),
        "# Ops as they look when they are done\n",
        *(_file(str(path), text) for family in _WORKED for path, text in _worked(family)),
    ]
    return "\n".join(parts)


def _file(name: str, text: str) -> str:
    return f"## {name}\n\n```{'python' if name.endswith('.py') else 'cpp'}\n{text.rstrip()}\n```\n"


def _worked(family: Family) -> Iterator[tuple[Path, str]]:
    """Prototype, header and binding of an op as ``trifold new`` writes it."""
    files = Workspace(Path()).files(f"some_{family}")
    texts = op_texts(files, family, None)
    for path in (files.prototype, files.header, files.binding):
        yield path, texts[path]


def declarations(header: Path) -> Iterator[str]:
    """The declarations for a GPU in a header that have a comment, their own or that of the lines above, and checks,
    whose names are explanation enough. Function bodies are omitted."""
    content = header.read_bytes()
    last_row = -1
    for node in _in_namespace(parse(content)):
        comments = _comments_above(node)
        is_check = b"void check_" in (node.text or b"").partition(b"(")[0]
        if comments or is_check or node.start_point.row == last_row + 1:
            yield "\n".join([*(["", *comments] if comments else []), _without_bodies(node, content)])
            last_row = node.end_point.row


def _in_namespace(root: Node) -> Iterator[Node]:
    """Declarations directly in the namespace, not in a nested one, and macros."""
    for node in root.children:
        if node.type == "namespace_definition":
            name = node.child_by_field_name("name")
            if name is not None and name.text == b"trifold":
                yield from _in_namespace(node)
        elif node.type in ("declaration_list", "linkage_specification"):
            yield from _in_namespace(node)
        elif node.type in ("preproc_if", "preproc_ifdef"):
            yield from _in_namespace(node)  # #else is the last child; it is for another target
        elif node.type in (
            "function_definition", "template_declaration", "class_specifier", "struct_specifier", "declaration",
            "alias_declaration", "preproc_def", "preproc_function_def",
        ):  # fmt: skip
            yield node


def _comments_above(node: Node) -> list[str]:
    found: list[str] = []
    line, before = node.start_point.row, node.prev_sibling
    while before is not None and before.type == "comment" and before.end_point.row == line - 1:
        found.append((before.text or b"").decode())
        line, before = before.start_point.row, before.prev_sibling
    return found[::-1]


def _without_bodies(node: Node, content: bytes) -> str:
    """The text with each function body replaced by a semicolon."""
    text, at = b"", node.start_byte
    for inner in walk(node):
        if inner.type in ("compound_statement", "field_initializer_list") and inner.start_byte >= at:
            parent = inner.parent
            if parent is not None and parent.type == "function_definition":
                text += content[at : inner.start_byte].rstrip() + (b";" if inner.type == "compound_statement" else b"")
                at = inner.end_byte
    text += content[at : node.end_byte]
    return _QUALIFIERS.sub("", text.decode())
