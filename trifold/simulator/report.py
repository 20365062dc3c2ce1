"""The report: a JSON file with all findings of a program and of its child processes, each place once.

The file is complete after every finding, so that a crash loses none.

    {"trifold": "0.1.0", "launches": 12,
     "findings": [{"kind": "race", …, "count": 3, "replay": "replay: --seed 0", "tests": ["test_a.py::test_x"]}, …],
     "allowed": [{"place": "a.py:12", "kind": "race", "reason": "all write the same value"}, …]}

``tests`` are pytest's tests that met it; ``allowed`` lists what the user accepts in the code that ran
(:mod:`trifold.acceptance`).
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trifold import findings
from trifold.acceptance import Acceptance
from trifold.errors import TrifoldError
from trifold.findings import Finding
from trifold.places import place_of
from trifold.whole_files import write_whole

_report: _Report | None = None


class ReportError(TrifoldError):
    """The report's file cannot be written."""


def start(path: Path | None) -> None:
    """Write later findings to this file too; None: to no file."""
    global _report
    if _report is not None and _report.path == path:
        return
    if _report is not None:
        _report.close()
    _report = None if path is None else _Report(path)


def note_allowed(acceptances: list[Acceptance]) -> None:
    """Note kernels that run from now on and in which these findings are accepted."""
    if _report is not None and acceptances:
        _report.allow([{"place": each.place, "kind": each.kind, "reason": each.reason} for each in acceptances])


def read(path: Path) -> dict[str, Any]:
    """The content of a report; an empty one if the file is missing."""
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        content = {}
    return _empty() | content


def findings_of(content: dict[str, Any]) -> tuple[list[Finding], dict[int, list[str]]]:
    """The findings in a report's content and, by their index, the tests that met them."""
    entries = content["findings"]
    tests = {number: list(entry.get("tests", [])) for number, entry in enumerate(entries)}
    return [findings.from_json({k: v for k, v in entry.items() if k != "tests"}) for entry in entries], tests


def begin_anew(path: Path) -> None:
    """Empty the file of an earlier run.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(_empty(), indent=1) + "\n")


class Summary:
    """A report for the summary at the end, for this process and its child processes.

    Args:
        path: where to keep it; None: nowhere.

    Raises:
        ReportError: it cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._folder = None if path is not None else tempfile.TemporaryDirectory(prefix="trifold-")
        self.path = path.absolute() if path is not None else Path(self._folder.name if self._folder else "", "report")
        try:
            begin_anew(self.path)
        except OSError as error:
            raise ReportError(f"the report cannot be written: {error}", "name another file with --report") from None

    def end(self) -> dict[str, Any]:
        """The content; ends writing."""
        start(None)
        content = read(self.path)
        if self._folder is not None:
            self._folder.cleanup()
        return content


class _Report:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._counted = 0  # launches already in the file
        findings.listen(self._add)
        atexit.register(self.close)

    def close(self) -> None:
        atexit.unregister(self.close)
        findings.stop_listening(self._add)
        if _launches() != self._counted:
            self._change(lambda content: None)

    def allow(self, allowed: list[dict[str, str]]) -> None:
        def add(content: dict[str, Any]) -> None:
            content["allowed"] += [each for each in allowed if each not in content["allowed"]]

        self._change(add)

    def _add(self, finding: Finding) -> None:
        key = place_of(finding)
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]

        def add(content: dict[str, Any]) -> None:
            known, _ = findings_of(content)
            entries = content["findings"]
            number = next((i for i, other in enumerate(known) if place_of(other) == key), len(entries))
            if number == len(entries):
                entries.append({**finding.to_json(), "tests": []})
            else:
                entries[number]["count"] += finding.count
            if test and test not in entries[number]["tests"]:
                entries[number]["tests"].append(test)

        self._change(add)

    def _change(self, change: Callable[[dict[str, Any]], object]) -> None:
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{self.path}.lock"):
            content = read(self.path)
            change(content)
            started = _launches()
            content["launches"] += started - self._counted
            self._counted = started
            write_whole(self.path, json.dumps(content, indent=1) + "\n")


def _empty() -> dict[str, Any]:
    return {"trifold": _version(), "launches": 0, "findings": [], "allowed": []}


def _launches() -> int:
    launch = sys.modules.get("trifold.simulator.launch")
    return launch.launches() if launch is not None else 0


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("trifold")
    except PackageNotFoundError:  # run from its folder
        return ""
