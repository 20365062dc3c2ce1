"""A wrong implementation as data: replacements in the files of a right one, and the row that must reject it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trifold.build.sources import INCLUDE_ROOT, own_sources
from trifold.python_imports import shared_modules
from trifold.workspace import Workspace

GALLERY = Workspace.at(Path(__file__).parents[2])

#: One of the op's five files, or a header as ports include it: ``"rows/row_stream.cuh"``, ``"trifold/cluster.cuh"``.
File = str


@dataclass(frozen=True)
class Edit:
    """A replacement in one file of the op, or in a header that it includes.

    Attributes:
        file: ``"prototype"``, ``"header"``, ``"binding"``, ``"port"``, ``"spec"``, ``"rows/<name>.cuh"`` or
            ``"trifold/<name>.cuh"``.
        old: must occur exactly ``count`` times.
        new: replaces it.
    """

    file: File
    old: str
    new: str
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A wrong implementation.

    Attributes:
        name: of the mistake.
        why: the reason why people make it.
        op: of the gallery.
        edits: turn the op into the wrong one.
        row: the check that must fail.
        implementation: the one for which it must fail.
        device: the one on which it must fail.
        message: words that the failure must contain.
        examples: calls to draw; a mistake that few inputs show needs more of them.
        missed: why the verification does not reject it; empty if it does.
    """

    name: str
    why: str
    op: str
    edits: tuple[Edit, ...]
    row: str
    implementation: Literal["prototype", "port"]
    device: Literal["cpu", "cuda"] = "cpu"
    message: str = ""
    examples: int = 10  # the fixed calls show most of these mistakes; a good op passes with any number
    missed: str = ""

    def __str__(self) -> str:
        return f"{self.op} {self.implementation}: {self.name}"

    def write(self, root: Path) -> Workspace:
        """A workspace in ``root`` that contains only the wrong op."""
        return edited_copy(self.op, self.edits, root)


def edited_copy(op: str, edits: tuple[Edit, ...], root: Path) -> Workspace:
    """A workspace in ``root`` with the gallery's five files of ``op``, after the replacements. An edited header of
    trifold is put next to the binding, whose folder is first on the include path."""
    workspace = copy_of_gallery(op, root)
    files = workspace.files(op)
    for edit in edits:
        path: Path = files.binding.parent / edit.file if "/" in edit.file else getattr(files, edit.file)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            shutil.copyfile(INCLUDE_ROOT / edit.file, path)
        text = path.read_text(encoding="utf-8")
        found = text.count(edit.old)
        assert found == edit.count, f"{op}: {edit.old!r} occurs {found} times in {edit.file}, not {edit.count}"
        path.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    return workspace


def copy_of_gallery(op: str, root: Path) -> Workspace:
    """A workspace in ``root`` with the gallery's five files of ``op``, and what these include and import from there."""
    files = GALLERY.op(op)
    shared = (module for path in (files.prototype, files.port, files.spec) for module in shared_modules(path))
    for path in dict.fromkeys((*files, *own_sources(files.binding), *shared)):
        target = root / path.relative_to(GALLERY.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return Workspace.at(root)


def edits(file: File, *replacements: tuple[str, str]) -> tuple[Edit, ...]:
    """Replacements in one file, each of a text that occurs once."""
    return tuple(Edit(file, old, new) for old, new in replacements)


#: The elements of two operands named x and y, as pointers.
POINTERS = ("trifold::data<T>(x)", "trifold::data<T>(y)")


def gallery_launch(op: str, out: str, *inputs: str) -> str:
    """C++ with which the gallery's binding of ``op`` launches its kernels."""
    return f"trifold::launch_elementwise<{op}_kernel<T>, {op}_vector_kernel<T>, T>({out}, {', '.join(inputs)});"


def launch_plain(kernel: str, out: str, *inputs: str, blocks: str = "", stream: str = "trifold::Stream{}") -> str:
    """C++ that launches ``kernel`` on pointers, without the layouts that ``trifold::launch_elementwise`` handles.

    Args:
        kernel: a kernel template of one type.
        out: the name of the output tensor.
        inputs: expressions of pointers.
        blocks: the number of blocks; default: enough for one thread per element.
        stream: of the launch.
    """
    blocks = blocks or f"({out}.numel() + 255) / 256"
    return (
        f"trifold::launch<{kernel}<T>>({stream}, dim3(static_cast<unsigned>({blocks})), 256, 0, "
        f"{', '.join(inputs)}, trifold::mutable_data<T>({out}), {out}.numel());"
    )
