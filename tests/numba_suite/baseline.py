"""The tests that pass under Numba's own simulator, recorded for each suite in baselines/<suite>-<version>.json."""

from __future__ import annotations

import json
import platform
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tests.numba_suite.outcomes import Outcome, Outcomes
from tests.numba_suite.suites import HERE, Suite, SuiteError

FOLDER = HERE / "baselines"


@dataclass(frozen=True)
class Baseline:
    """Outcomes under Numba's simulator, and where they were measured."""

    source: str
    outcomes: Mapping[str, Outcome]

    @property
    def good(self) -> list[str]:
        return [name for name, outcome in self.outcomes.items() if outcome.good]


def environment() -> dict[str, str]:
    return {"python": platform.python_version(), "numpy": version("numpy")}


def path_of(suite: Suite) -> Path:
    return FOLDER / f"{suite.name}-{suite.version()}.json"


def write(suite: Suite, outcomes: Outcomes) -> Path:
    """Records ``outcomes``; failures without their tracebacks, which hold addresses and paths."""
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, outcome in sorted(outcomes.items()):
        group = f"skipped: {outcome.reason}" if outcome.kind == "skipped" else outcome.kind
        owner, _, method = name.rpartition(".")
        groups[group][owner].append(method)
    first = sorted(groups, key=lambda group: (group.startswith("skipped"), group))
    tests = {group: {owner: " ".join(names) for owner, names in groups[group].items()} for group in first}
    text = json.dumps({"suite": suite.name, "version": suite.version(), **environment(), "tests": tests}, indent=1)
    path_of(suite).write_text(text + "\n", encoding="utf-8")
    return path_of(suite)


def read(suite: Suite) -> Baseline:
    """The recorded outcomes; raises SuiteError where this version has none."""
    path = path_of(suite)
    if not path.exists():
        known = ", ".join(sorted(one.stem for one in FOLDER.glob("*.json"))) or "none"
        raise SuiteError(
            f"there is no record of {suite.name} {suite.version()} under Numba's simulator (recorded: {known})",
            f"python -m tests.numba_suite {suite.name} --record",
        )
    data = json.loads(path.read_text(encoding="utf-8"))
    outcomes: Outcomes = {}
    for group, owners in data["tests"].items():
        kind, _, reason = group.partition(": ")
        for owner, names in owners.items():
            for name in names.split(" "):
                outcomes[f"{owner}.{name}" if owner else name] = Outcome(kind, 0.0, reason)
    return Baseline(f"recorded with Python {data['python']} and NumPy {data['numpy']}", outcomes)


def best(first: Outcomes, again: Outcomes) -> Outcomes:
    """Each test's better end: one that passes now and then under Numba's simulator must always pass under ours."""
    return first | {name: outcome for name, outcome in again.items() if outcome.good}
