"""A port's sources as compiled by g++: nvcc's own syntax is rewritten in C++."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from trifold.build import device_code, inline_ptx, launch_bounds, shared_arrays
from trifold.build.device_code import Key


@dataclass(frozen=True)
class PortText(Generic[Key]):
    """Rewritten sources.

    Attributes:
        texts: the sources.
        headers: those that they need in addition, by name.
        definitions: the macros that they need.
        includes: headers of trifold that precede them.
    """

    texts: dict[Key, str]
    headers: dict[str, str]
    definitions: tuple[str, ...]
    includes: tuple[str, ...]


def for_gxx(texts: Mapping[Key, str], named: Callable[[Key], str], capability: str) -> PortText[Key]:
    """Inline PTX becomes C++, ``extern __shared__`` arrays are bound to memory, launches beyond ``__launch_bounds__``
    are refused, and device code has ``__CUDA_ARCH__``. All lines keep their numbers.

    Args:
        texts: the files that may include each other.
        named: a file's name as a string literal of C++.
        capability: of the GPU that the device code is for, such as ``"9.0"``.
    """
    translated = {key: inline_ptx.rewrite(text) for key, text in texts.items()}
    bound = {key: shared_arrays.rewrite(text) for key, text in translated.items()}
    limited = {key: launch_bounds.rewrite(text) for key, (text, _) in bound.items()}
    rewritten = device_code.rewrite(limited, named, capability)
    definitions = (shared_arrays.DEFINITION,) if any(outside for _, outside in bound.values()) else ()
    includes = (inline_ptx.HEADER,) if any(map(inline_ptx.needs_header, translated.values())) else ()
    return PortText(rewritten.texts, rewritten.headers, definitions, includes)


def trifold_headers(include: Path) -> dict[Path, str]:
    """trifold's headers in the folder ``include`` that have inline PTX or launch bounds, rewritten for g++, by their
    paths there. All lines keep their numbers."""
    changed = {}
    for path in sorted((include / "trifold").glob("*.cuh")):
        text = path.read_text(encoding="utf-8")
        rewritten = launch_bounds.rewrite(inline_ptx.rewrite(text))
        if rewritten != text:
            changed[path.relative_to(include)] = rewritten
    return changed
