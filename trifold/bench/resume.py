"""Continues an interrupted run: results in its file are not measured again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trifold.bench.rows import Figure, Results, Row
from trifold.errors import TrifoldError

# The facts in which two runs must agree to share one file, besides the sources of the ops in both.
_ALIKE = ("device", "driver", "torch", "cuda", "quick", "against", "libraries", "shapes")

Key = tuple[str, str, str, str, str]


def known(before: Results | None, facts: Mapping[str, Any]) -> dict[Key, list[Row]]:
    """The rows of ``before`` by case and method.

    Args:
        before: the results of an earlier run; None: there was none.
        facts: the environment of this run.

    Raises:
        TrifoldError: the earlier run had another environment.
    """
    if before is None:
        return {}
    for name in _ALIKE:
        was, now = before.environment.get(name), facts.get(name)
        if was != now:
            raise TrifoldError(
                f"--resume: the file's {name} is {was}, this run's is {now}",
                "measure as the file says, or begin another one with --json",
            )
    sources = facts.get("sources") or {}
    was = before.environment.get("sources") or {}
    if others := [name for name, digest in was.items() if sources.get(name, digest) != digest]:
        raise TrifoldError(f"--resume: {', '.join(others)} changed since the file was begun", "begin another one")
    found: dict[Key, list[Row]] = {}
    for row in before.rows:
        found.setdefault(row.key, []).append(row)
    return found


def of_both(before: Results | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    """When the earlier runs began, and the sources of all runs, for the environment."""
    if before is None:
        return {}
    sources = (before.environment.get("sources") or {}) | (facts.get("sources") or {})
    return {
        "earlier": [*before.environment.get("earlier", ()), before.environment["date"]],
        "sources": dict(sorted(sources.items())),
    }


def merged(before: Results | None, judged: Iterable[Figure]) -> tuple[Figure, ...]:
    """The figures ``judged`` now, after those of benchmarks that only the earlier runs measured."""
    now = tuple(judged)
    judged_now = {(figure.op, figure.benchmark) for figure in now}
    older = () if before is None else before.figures
    return (*(figure for figure in older if (figure.op, figure.benchmark) not in judged_now), *now)
