"""Which files a port's library is made of."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from trifold.build import inline_ptx, launch_bounds, shared_arrays

INCLUDE_ROOT = Path(__file__).resolve().parents[1] / "include"
# For g++ only: CUDA's own headers by name (<cooperative_groups.h>, <cuda_fp16.h>, …), which are the dialect.
CPU_INCLUDE_ROOT = INCLUDE_ROOT / "cuda_for_cpu"
# What changes sources for g++.
REWRITERS = tuple(
    Path(__file__).with_name(f"{module}.py")
    for module in ("inline_ptx", "launch_bounds", "ptx_table", "ptx_text", "shared_arrays")
)

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)


def local_sources(binding: Path) -> tuple[Path, ...]:
    """``binding``, every header of trifold, and every file that they include from their own folders, sorted.

    Headers of the system, CUDA and torch are not among them: the version of what they belong to stands for them.
    An ``#include`` inside a comment or an inactive branch counts as well, which at worst rebuilds too often.
    """
    seen: set[Path] = set()
    waiting = [binding.resolve(), *(path.resolve() for path in INCLUDE_ROOT.rglob("*") if path.is_file())]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for match in _INCLUDE.finditer(path.read_bytes()):
            name = (match[1] or match[2]).decode(errors="surrogateescape")
            for folder in (path.parent, binding.parent, INCLUDE_ROOT):
                candidate = folder / name
                if candidate.is_file():
                    waiting.append(candidate.resolve())
                    break
    return tuple(sorted(seen))


def digest(sources: Iterable[Path], facts: Iterable[str]) -> str:
    """SHA-256 of the sources (names and contents) and of all else that decides what comes out of the compiler."""
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


def for_gxx(binding: Path, folder: Path) -> str:
    """The text of ``binding`` as g++ compiles it, in ``folder``.

    Where it or what it includes from its own folder has inline PTX, ``extern __shared__`` arrays or
    ``__launch_bounds__``, changed copies of the headers are written into ``folder``, where the compiler looks first.
    (trifold's own headers have none for g++.)
    """
    root = binding.resolve().parent
    own = [path for path in local_sources(binding) if path.is_relative_to(root)]
    texts = {path: path.read_text(encoding="utf-8") for path in own}
    translated = {path: inline_ptx.rewrite(text) for path, text in texts.items()}
    rewritten = {path: shared_arrays.rewrite(text) for path, text in translated.items()}
    changed = {path: launch_bounds.rewrite(text) for path, (text, _) in rewritten.items()}
    if changed == texts:
        return with_line_directive(binding)
    for path, text in changed.items():
        if path != binding.resolve():
            copy = folder / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(f"#line 1 {quoted(path)}\n{text}", encoding="utf-8")
    define = f"#define {shared_arrays.DEFINITION}\n" if any(outside for _, outside in rewritten.values()) else ""
    include = f"#include <{inline_ptx.HEADER}>\n" if any(map(inline_ptx.needs_header, translated.values())) else ""
    return f"{define}{include}#line 1 {quoted(binding)}\n{changed[binding.resolve()]}"
