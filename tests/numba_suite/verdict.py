"""The tests that are lost under trifold's simulator, and those of them that are Numba's fault."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.numba_suite.baseline import Baseline
from tests.numba_suite.outcomes import SKIPPED, Outcome, Outcomes
from tests.numba_suite.suites import HERE, SUITES, SuiteError

FAULTY = HERE / "faulty.toml"
LIFTED = HERE / "lifted.toml"


@dataclass(frozen=True)
class Fault:
    """Why a test of Numba's is at fault, and the words with which it fails under ours: no other failure is excused."""

    reason: str
    failure: str

    def excuses(self, outcome: Outcome) -> bool:
        return self.failure in outcome.reason


def read_faulty(suite: str, path: Path = FAULTY) -> dict[str, Fault]:
    """The suite's tests that are Numba's fault.

    Raises:
        SuiteError: an entry does not say all that it must.
    """
    faulty: dict[str, Fault] = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("faulty", []):
        if missing := [key for key in ("tests", "reason", "failure") if not entry.get(key)]:
            raise SuiteError(f"{path.name}: an entry lacks {' and '.join(missing)}: {entry}", "name them")
        if suite in entry.get("suites", [one.name for one in SUITES]):
            fault = Fault(" ".join(entry["reason"].split()), entry["failure"])
            faulty |= dict.fromkeys(entry["tests"], fault)
    return faulty


@dataclass(frozen=True)
class Lifted:
    """Reasons for which Numba skips tests in its simulator that do not hold for ours.

    ``exceptions`` are tests that cannot run all the same, each with another reason.
    """

    reasons: frozenset[str] = frozenset()
    exceptions: Mapping[str, str] = field(default_factory=dict)

    def runs(self, name: str, skipped: Outcome) -> bool:
        """Whether a test that Numba skips runs under ours."""
        return skipped.kind == SKIPPED and skipped.reason in self.reasons and name not in self.exceptions


def read_lifted(path: Path = LIFTED) -> Lifted:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    exceptions = {test: entry["reason"] for entry in data.get("except", []) for test in entry["tests"]}
    return Lifted(frozenset(data["reasons"]), exceptions)


NOTHING_LIFTED = Lifted()


@dataclass(frozen=True)
class Verdict:
    """The comparison of one suite's outcomes with the baseline."""

    lost: Mapping[str, Outcome]  # not good under ours, but under Numba's simulator, or skipped there without need
    faulty: Mapping[str, Fault]  # the same, but listed as Numba's fault, with the failure that is listed
    stale: tuple[str, ...]  # listed as Numba's fault, but not lost
    unknown: tuple[str, ...]  # not in the baseline
    gained: tuple[str, ...]  # good under ours, but not under Numba's simulator, or skipped there without need

    @property
    def clean(self) -> bool:
        return not (self.lost or self.stale or self.unknown)


def judge(
    baseline: Baseline,
    outcomes: Outcomes,
    faulty: Mapping[str, Fault],
    lifted: Lifted = NOTHING_LIFTED,
    whole: bool = True,
) -> Verdict:
    """Compares; with ``whole``, a test that the baseline has and ``outcomes`` lacks is lost."""
    missing = Outcome("not run", 0.0, "the test was not found")
    due = [name for name, was in baseline.outcomes.items() if was.good or lifted.runs(name, was)]
    considered = [name for name in due if whole or name in outcomes]
    not_good = {name: outcomes.get(name, missing) for name in considered}
    not_good = {name: outcome for name, outcome in not_good.items() if not outcome.good}
    excused = {name for name, outcome in not_good.items() if name in faulty and faulty[name].excuses(outcome)}
    return Verdict(
        lost={name: outcome for name, outcome in not_good.items() if name not in excused},
        faulty={name: faulty[name] for name in not_good if name in excused},
        stale=tuple(name for name in faulty if name not in not_good and (whole or name in outcomes)),
        unknown=tuple(name for name in outcomes if name not in baseline.outcomes),
        gained=tuple(
            name
            for name, outcome in baseline.outcomes.items()
            if not outcome.good and name in outcomes and outcomes[name].good
        ),
    )
