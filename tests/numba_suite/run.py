"""Runs one suite under a simulator, and puts the results into words and into JSON."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.numba_suite import baseline
from tests.numba_suite.baseline import Baseline
from tests.numba_suite.outcomes import BAD, SKIPPED, Outcome, Outcomes
from tests.numba_suite.pool import Pool, Worker, list_tests
from tests.numba_suite.suites import Simulator, Suite, SuiteError
from tests.numba_suite.verdict import Verdict, judge, read_faulty, read_lifted


@dataclass(frozen=True)
class Options:
    """How to run: workers, seconds a test may take, the part of a test's name that selects it, ours' seed, and whether
    ours runs compiled kernels."""

    jobs: int
    limit: float
    select: str = ""
    seed: int = 0
    compiled: bool = False


@dataclass(frozen=True)
class Measured:
    """The outcomes of one run of a suite, its seconds, and the launches that trifold's simulator ran."""

    outcomes: Outcomes
    seconds: float
    launches: int = 0


OnEnd = Callable[[str, Outcome], None]


def ignore(name: str, outcome: Outcome) -> None:
    """Single tests are not reported."""


def measure(suite: Suite, simulator: Simulator, options: Options, on_end: OnEnd = ignore) -> Measured:
    """Runs the suite's tests that ``options`` select."""
    start = time.monotonic()
    pieces, outcomes = list_tests(suite, simulator)
    exceptions = read_lifted().exceptions if simulator == "trifold" else {}
    listed = {name for _, names in pieces for name in names}
    outcomes |= {name: Outcome(SKIPPED, 0.0, why) for name, why in exceptions.items() if name in listed}
    chosen = [
        (module, [name for name in names if options.select in name and name not in outcomes])
        for module, names in pieces
    ]
    outcomes = {name: outcome for name, outcome in outcomes.items() if options.select in name}
    pool = Pool(lambda: Worker(suite, simulator, options.seed, options.compiled), options.jobs, options.limit, on_end)
    outcomes.update(pool.run(piece for piece in chosen if piece[1]))
    return Measured(outcomes, time.monotonic() - start, pool.launches)


def measure_stock(suite: Suite, options: Options, tries: int = 3) -> Measured:
    """Runs the suite under Numba's simulator; a failing test has ``tries`` tries, as some of them fail now and then."""
    start = time.monotonic()
    outcomes = measure(suite, "numba", options).outcomes
    for _ in range(tries - 1):
        for name in [name for name, outcome in outcomes.items() if outcome.kind in BAD]:
            again = measure(suite, "numba", replace(options, select=name)).outcomes
            outcomes = baseline.best(outcomes, again)
    return Measured(outcomes, time.monotonic() - start)


@dataclass(frozen=True)
class Result:
    """One suite's run under ours, beside what is expected of it."""

    suite: Suite
    measured: Measured
    expected: Baseline
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        return {
            "suite": self.suite.name,
            "version": self.suite.version(),
            **baseline.environment(),
            "baseline": self.expected.source,
            "seconds": round(self.measured.seconds, 1),
            "launches": self.measured.launches,
            "counts": counts(self.measured.outcomes),
            "clean": self.verdict.clean,
            "lost": {name: vars(outcome) for name, outcome in self.verdict.lost.items()},
            "faulty": {name: fault.reason for name, fault in self.verdict.faulty.items()},
            "stale": list(self.verdict.stale),
            "unknown": list(self.verdict.unknown),
            "gained": list(self.verdict.gained),
            "tests": {name: _brief(outcome) for name, outcome in sorted(self.measured.outcomes.items())},
        }

    def lines(self) -> list[str]:
        """The report as text, with the details of each lost test first."""
        verdict = self.verdict
        lines = [f"LOST {name}: {outcome.kind}\n{_indented(outcome.reason)}" for name, outcome in verdict.lost.items()]
        lines += [f"NOT LOST {name}, which faulty.toml lists: remove it there" for name in verdict.stale]
        lines += [f"UNKNOWN {name}: the baseline has no such test" for name in verdict.unknown]
        lines += [f"faulty {name}: {fault.reason}" for name, fault in verdict.faulty.items()]
        total = ", ".join(f"{number} {kind}" for kind, number in counts(self.measured.outcomes).items())
        lines.append(
            f"{self.suite.name} {self.suite.version()}: {len(self.measured.outcomes)} tests and "
            f"{self.measured.launches} launches in {self.measured.seconds:.1f} s: {total}; "
            f"{len(self.expected.good)} pass under Numba's simulator ({self.expected.source}): "
            f"{len(verdict.lost)} lost, {len(verdict.faulty)} listed as Numba's fault; "
            f"{len(verdict.gained)} pass that fail or are skipped there"
        )
        return lines


def compare(suite: Suite, options: Options, stock: bool, on_end: OnEnd = ignore) -> Result:
    """Runs the suite under ours and judges it, with ``stock`` against Numba's simulator in the same run."""
    if stock:
        before = measure_stock(suite, options)
        expected = Baseline(f"measured in this run, {before.seconds:.1f} s", before.outcomes)
    else:
        expected = baseline.read(suite)
    measured = measure(suite, "trifold", options, on_end)
    if not options.select and not measured.launches:
        raise SuiteError(f"{suite.name}'s tests ran without trifold's simulator", "look for what replaced its seam")
    verdict = judge(expected, measured.outcomes, read_faulty(suite.name), read_lifted(), whole=not options.select)
    return Result(suite, measured, expected, verdict)


def skip_reasons(outcomes: Outcomes) -> Sequence[tuple[str, int]]:
    """Each reason for which tests were skipped, with their number, the most frequent first."""
    return Counter(outcome.reason for outcome in outcomes.values() if outcome.kind == "skipped").most_common()


def counts(outcomes: Outcomes) -> dict[str, int]:
    return dict(Counter(outcome.kind for outcome in outcomes.values()).most_common())


def _brief(outcome: Outcome) -> dict[str, Any]:
    return {name: value for name, value in vars(outcome).items() if value}


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())
