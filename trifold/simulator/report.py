"""The report: a JSON file with all findings of a program and of the processes that it starts.

The file is whole after every finding, so that a crash loses none.

    {"trifold": "0.1.0", "launches": 12, "findings": [{"kind": "race", …, "replay": "replay: --seed 0"}, …]}
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from pathlib import Path
from typing import Any

from trifold import findings
from trifold.findings import Finding

_report: _Report | None = None


def start(path: Path | None) -> None:
    """From now on, what is found goes to this file too; None: to none."""
    global _report
    if _report is not None and _report.path == path:
        return
    if _report is not None:
        _report.close()
    _report = None if path is None else _Report(path)


def begin_anew(path: Path) -> None:
    """Empty the file of an earlier run.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, {"trifold": _version(), "launches": 0, "findings": []})


class _Report:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._counted = 0  # launches that the file knows of
        findings.listen(self._add)
        atexit.register(self.close)

    def close(self) -> None:
        atexit.unregister(self.close)
        findings.stop_listening(self._add)
        if _launches() != self._counted:
            self._merge([])

    def _add(self, finding: Finding) -> None:
        self._merge([finding.to_json()])

    def _merge(self, found: list[dict[str, Any]]) -> None:
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{self.path}.lock"):
            content = _read(self.path)
            content["findings"] += found
            started = _launches()
            content["launches"] += started - self._counted
            self._counted = started
            _write(self.path, content)


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        content = {}
    return {"trifold": _version(), "launches": 0, "findings": []} | content


def _write(path: Path, content: dict[str, Any]) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text(json.dumps(content, indent=1) + "\n")
    scratch.replace(path)


def _launches() -> int:
    launch = sys.modules.get("trifold.simulator.launch")
    return launch.launches() if launch is not None else 0


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("trifold")
    except PackageNotFoundError:  # run from its folder
        return ""
