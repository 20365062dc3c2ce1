"""The files that a port's library is made of."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from trifold.build import (
    cpp_text,
    device_code,
    inline_ptx,
    launch_bounds,
    port_text,
    ptx_table,
    ptx_text,
    shared_arrays,
)

INCLUDE_ROOT = Path(__file__).resolve().parents[1] / "include"
# For g++ only: replacements of CUDA's own headers (<cooperative_groups.h>, <cuda_fp16.h>, …) by the dialect.
CPU_INCLUDE_ROOT = INCLUDE_ROOT / "cuda_for_cpu"
# The modules that rewrite sources for g++.
REWRITERS = tuple(
    Path(str(module.__file__))
    for module in (
        cpp_text,
        device_code,
        inline_ptx,
        launch_bounds,
        port_text,
        ptx_table,
        ptx_text,
        shared_arrays,
    )
)

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ASKS = re.compile(r"(?<!bool )\bgpu_paths\b")  # except in its own definition
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)


def local_sources(binding: Path) -> tuple[Path, ...]:
    """``binding``, every header of trifold, and every file that they include from their own folders, sorted.

    Headers of the system, CUDA and torch are not included: their versions represent them. An ``#include`` in a comment
    or an inactive branch counts as well, which at worst rebuilds too often.
    """
    return _with_included(binding, (path for path in INCLUDE_ROOT.rglob("*") if path.is_file()))


def included_sources(binding: Path) -> tuple[Path, ...]:
    """``binding`` and the files that it includes, of trifold or from their own folders, as :func:`local_sources`."""
    return _with_included(binding)


def _with_included(binding: Path, others: Iterable[Path] = ()) -> tuple[Path, ...]:
    """``binding``, the others, and every file that they include, sorted."""
    seen: set[Path] = set()
    waiting = [binding.resolve(), *others]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in _names_included(path.read_bytes()):
            for folder in (path.parent, binding.parent, INCLUDE_ROOT):
                candidate = folder / name
                if candidate.is_file():
                    waiting.append(candidate.resolve())
                    break
    return tuple(sorted(seen))


@functools.lru_cache(maxsize=1024)  # builds ask for the same headers of trifold again and again
def _names_included(content: bytes) -> tuple[str, ...]:
    matches = _INCLUDE.finditer(content)
    return tuple((match[1] or match[2]).decode(errors="surrogateescape") for match in matches)


def own_sources(binding: Path) -> tuple[Path, ...]:
    """:func:`included_sources` without the headers of trifold, and without copies of these in the binding's folder."""
    root = binding.resolve().parent
    headers = {INCLUDE_ROOT, *(root / path.name for path in INCLUDE_ROOT.iterdir() if path.is_dir())}
    return tuple(path for path in included_sources(binding) if not any(path.is_relative_to(h) for h in headers))


def chooses_paths(binding: Path) -> bool:
    """Whether the port may choose other kernels on a GPU than on the CPU: whether a file that it includes uses
    ``trifold::gpu_paths``."""
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in included_sources(binding))
    return any(_ASKS.search(_COMMENT.sub("", text)) for text in texts)


def digest(sources: Iterable[Path], facts: Iterable[str]) -> str:
    """SHA-256 of the sources (names and contents) and of all else that determines the compiler's output."""
    state = hashlib.sha256()
    for path in sources:
        content = path.read_bytes()
        state.update(f"{path.name}\0{len(content)}\0".encode(errors="surrogateescape"))
        state.update(content)
    for fact in facts:
        state.update(f"{fact}\0".encode(errors="surrogateescape"))
    return state.hexdigest()


def quoted(path: Path) -> str:
    """``path`` as a C++ string literal."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def with_line_directive(binding: Path) -> str:
    """The text of ``binding``, such that a compiler reports the user's own file and line."""
    return f"#line 1 {quoted(binding)}\n{binding.read_text(encoding='utf-8')}"


def capability_for(binding: Path, capability: str) -> str:
    """``capability`` if the CPU build of the port depends on it, else ""."""
    return capability if any(device_code.ARCH in text for text in _own_texts(binding).values()) else ""


def for_gxx(binding: Path, folder: Path, capability: str) -> str:
    """The text of ``binding`` for g++, in ``folder``; ``capability`` is that of the GPU.

    If it, a file that it includes from its own folder, or a header of trifold needs rewriting
    (:mod:`trifold.build.port_text`), rewritten copies of the headers are written into ``folder``, where the compiler
    looks first.
    """
    root, texts = binding.resolve().parent, _own_texts(binding)
    for header, text in port_text.trifold_headers(INCLUDE_ROOT).items():
        if root / header not in texts:
            _write_copy(folder / header, INCLUDE_ROOT / header, text)
    made = port_text.for_gxx(texts, quoted, capability)
    if made.texts == texts:
        return with_line_directive(binding)
    for name, text in made.headers.items():
        (folder / name).write_text(text, encoding="utf-8")
    for path, text in made.texts.items():
        if path != binding.resolve():
            _write_copy(folder / path.relative_to(root), path, text)
    define = "".join(f"#define {name}\n" for name in made.definitions)
    include = "".join(f"#include <{name}>\n" for name in made.includes)
    return f"{define}{include}#line 1 {quoted(binding)}\n{made.texts[binding.resolve()]}"


def _write_copy(copy: Path, path: Path, text: str) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(f"#line 1 {quoted(path)}\n{text}", encoding="utf-8")


def _own_texts(binding: Path) -> dict[Path, str]:
    root = binding.resolve().parent
    return {path: path.read_text(encoding="utf-8") for path in local_sources(binding) if path.is_relative_to(root)}
