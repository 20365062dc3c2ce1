"""Findings by place: the kind, the array and the lines of the accesses. Each place is shown once, with a count."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trifold.findings import Finding

_MOST_SHOWN = 50


def place_of(finding: Finding) -> Hashable:
    """A key that is equal for findings of one place, whatever the kernel's instance, the threads and the access
    order."""
    lines = tuple(sorted({(access.file, access.line) for access in finding.accesses}))
    return finding.kind, finding.array, lines, finding.accepted_at or finding.severity


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """The first finding of each place, with the count of all."""
    found: dict[Hashable, Finding] = {}
    for finding in findings:
        key = place_of(finding)
        before = found.get(key)
        found[key] = finding if before is None else replace(before, count=before.count + finding.count)
    return list(found.values())


def words(finding: Finding) -> str:
    """Its paragraph; a warning is marked as one."""
    return f"warning: {finding}" if finding.severity == "warning" else str(finding)


def lines_of(finding: Finding) -> str:
    """The lines of its accesses: "a.py:12 and a.py:14"."""
    lines = dict.fromkeys(f"{Path(access.file).name}:{access.line}" for access in finding.accesses if access.file)
    return " and ".join(lines) or "an unknown line"


def what_and_where(finding: Finding) -> str:
    """Its kind, array, kernel and lines: "race on out in blur at a.py:12"."""
    array = f" on {finding.array}" if finding.array else ""
    return f"{finding.kind}{array} in {finding.kernel} at {lines_of(finding)}"


def accepted(finding: Finding) -> str:
    """A line for an accepted finding: what, where, how often and why."""
    what = what_and_where(finding)
    return f"accepted by {finding.accepted_at}: {what}, {times(finding.count)}: {finding.accepted}"


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def summary(
    findings: Iterable[Finding], allowed: Iterable[Mapping[str, Any]], *, tests: Mapping[int, list[str]] | None = None
) -> list[str]:
    """Paragraphs for a terminal.

    Args:
        findings: one per place, with its count.
        allowed: ``place``, ``kind`` and ``reason`` of the user's acceptances in the files that ran.
        tests: by the index of a finding, the tests that met it.
    """
    found = list(findings)
    parts: list[str] = []
    errors = [(number, finding) for number, finding in enumerate(found) if not finding.accepted]
    for number, finding in errors[:_MOST_SHOWN]:
        met = (tests or {}).get(number, [])
        by = f"\nin {_some(met)}" if met else ""
        parts.append(f"{times(finding.count)}: {words(finding)}{by}\n")
    if len(errors) > _MOST_SHOWN:
        parts.append(f"and {number_of(len(errors) - _MOST_SHOWN, 'more place')}\n")
    parts += [accepted(finding) for finding in found if finding.accepted]
    parts += [f"allowed, but did not occur: {each}" for each in unmet(found, allowed)]
    return parts


def total(findings: Collection[Finding]) -> str:
    """How many: "1 finding", "12 findings at 2 places"."""
    count = sum(finding.count for finding in findings)
    at = f" at {number_of(len(findings), 'place')}" if count > len(findings) else ""
    return f"{number_of(count, 'finding')}{at}"


def unmet(findings: Iterable[Finding], allowed: Iterable[Mapping[str, Any]]) -> list[str]:
    """Acceptances that no finding matched."""
    met = {finding.accepted_at for finding in findings}
    return [f"{each['kind']} at {each['place']} ({each['reason']})" for each in allowed if each["place"] not in met]


def number_of(count: int, what: str) -> str:
    """A number with its noun: "2 places"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _some(tests: list[str]) -> str:
    shown = ", ".join(tests[:3])
    return shown if len(tests) <= 3 else f"{shown} and {number_of(len(tests) - 3, 'more test')}"
