"""Writes into a record the sources of the commit at which it was measured, read from git."""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.records import ROOT, Record
from trifold.record_sources import Sources


def sources_at(record: Record, commit: str, root: Path = ROOT) -> Sources | None:
    """Return the sources of a record in the tree of ``commit``; None if this clone does not have it."""
    archive = subprocess.run(
        ["git", "-C", str(root), "archive", "--format=tar", commit], capture_output=True, check=False
    )
    if archive.returncode != 0:
        return None
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        return record.subject(Path(folder))


def stamp(record: Record, root: Path = ROOT) -> None:
    """Write the sources of the record's own commit into it: for a record that was written before records listed their
    sources, or whose subject has been redefined.

    Raises:
        SystemExit: it was measured with uncommitted changes, or git does not have the commit.
    """
    path = root / record.path
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    facts = document.get("environment", document)
    found = None if facts.get("dirty") else sources_at(record, str(facts.get("commit")), root)
    if found is None:
        raise SystemExit(f"records.py: {record.name}: its sources are unknown; measure it anew")
    layout = _layout(text)
    facts["sources"] = found
    path.write_text(layout(document), encoding="utf-8")


_AFTER_HEAD = '\n"figures": '  # in the files of trifold bench, which have one line per row


def _layout(text: str) -> Callable[[dict[str, Any]], str]:
    """Return a function that writes a document in the format of ``text``."""

    def of_bench(document: dict[str, Any]) -> str:
        head = json.dumps(document["environment"], indent=1, ensure_ascii=False)
        return f'{{"environment": {head},{text[text.index(_AFTER_HEAD) :]}'

    def plain(document: dict[str, Any], indent: int, ensure_ascii: bool) -> str:
        return json.dumps(document, indent=indent, ensure_ascii=ensure_ascii) + "\n"

    original = json.loads(text)
    for indent, ensure_ascii in itertools.product((1, 2), (True, False)):
        if plain(original, indent, ensure_ascii) == text:
            return partial(plain, indent=indent, ensure_ascii=ensure_ascii)
    return of_bench
