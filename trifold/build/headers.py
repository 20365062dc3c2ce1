"""The headers of trifold that C++ sources include."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from trifold.build import inline_ptx
from trifold.build.sources import CPU_INCLUDE_ROOT, INCLUDE_ROOT

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)


def headers_of(sources: Iterable[Path], include: Path = INCLUDE_ROOT) -> dict[str, Path]:
    """The headers of trifold that ``sources`` include, and those that these include, by their paths in ``include``.

    For the CPU, inline PTX in ``sources`` includes a header, too.
    """
    found: dict[str, Path] = {}
    waiting = list(sources)
    translated = (inline_ptx.rewrite(_text(source)) for source in waiting)
    names = [inline_ptx.HEADER] if any(map(inline_ptx.needs_header, translated)) else []
    while waiting or names:
        names += included(waiting.pop()) if waiting else []
        while names:
            name = names.pop()
            for root in (include, include / CPU_INCLUDE_ROOT.name):
                path = root / name
                key = str(path.relative_to(include))
                if path.is_file() and key not in found:
                    found[key] = path
                    waiting.append(path)
    return dict(sorted(found.items()))


def included(source: Path) -> list[str]:
    """The names that the file includes, as written."""
    return [match[1] or match[2] for match in _INCLUDE.finditer(_text(source))]


def _text(source: Path) -> str:
    return source.read_text(encoding="utf-8", errors="surrogateescape")
