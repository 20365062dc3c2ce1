"""Which tests are lost under trifold's simulator, and which of those are Numba's fault."""

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


def read_faulty(suite: str, path: Path = FAULTY) -> dict[str, str]:
    """The suite's tests that assert a fault of Numba's, with the fault."""
    faulty: dict[str, str] = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("faulty", []):
        test, reason = entry.get("test"), entry.get("reason", "").strip()
        suites = entry.get("suites", [one.name for one in SUITES])
        if not test or not reason:
            raise SuiteError(f"{path.name}: an entry lacks its test or its reason: {entry}", "name both")
        if suite in suites:
            faulty[test] = " ".join(reason.split())
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
    faulty: Mapping[str, str]  # the same, but listed as Numba's fault: test and reason
    stale: Mapping[str, str]  # listed as Numba's fault, but not lost
    unknown: tuple[str, ...]  # not in the baseline
    gained: tuple[str, ...]  # good under ours, but not under Numba's simulator, or skipped there without need

    @property
    def clean(self) -> bool:
        return not (self.lost or self.stale or self.unknown)


def judge(
    baseline: Baseline,
    outcomes: Outcomes,
    faulty: Mapping[str, str],
    lifted: Lifted = NOTHING_LIFTED,
    whole: bool = True,
) -> Verdict:
    """Compares; with ``whole``, a test that the baseline has and ``outcomes`` lacks is lost."""
    missing = Outcome("not run", 0.0, "the test was not found")
    due = [name for name, was in baseline.outcomes.items() if was.good or lifted.runs(name, was)]
    considered = [name for name in due if whole or name in outcomes]
    not_good = {name: outcomes.get(name, missing) for name in considered}
    not_good = {name: outcome for name, outcome in not_good.items() if not outcome.good}
    return Verdict(
        lost={name: outcome for name, outcome in not_good.items() if name not in faulty},
        faulty={name: faulty[name] for name in not_good if name in faulty},
        stale={name: why for name, why in faulty.items() if name not in not_good and (whole or name in outcomes)},
        unknown=tuple(name for name in outcomes if name not in baseline.outcomes),
        gained=tuple(
            name
            for name, outcome in baseline.outcomes.items()
            if not outcome.good and name in outcomes and outcomes[name].good
        ),
    )
