"""The simulator's options: checks, the order of threads, and the GPU whose limits apply."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trifold.acceptance import Accepted
from trifold.errors import TrifoldError
from trifold.simulator import report

CHECKS = ("race", "uninitialised", "bounds", "lint")
_ALL = frozenset(CHECKS) - {"lint"}
_ALWAYS = frozenset({"bounds"})

# Variables that child processes read; a process without SWITCH is not simulated.
SWITCH = "TRIFOLD_SIMULATOR"
_VARIABLES = {
    "checks": "TRIFOLD_CHECKS",
    "seed": "TRIFOLD_SEED",
    "schedules": "TRIFOLD_SCHEDULES",
    "report": "TRIFOLD_REPORT",
    "keep_going": "TRIFOLD_KEEP_GOING",
    "suppressions": "TRIFOLD_SUPPRESSIONS",
    "compute_capability": "TRIFOLD_COMPUTE_CAPABILITY",
    "compiled": "TRIFOLD_COMPILED",
}


class OptionError(TrifoldError):
    """An option of the simulator has an invalid value."""


@dataclass(frozen=True, slots=True)
class Options:
    """How launches run.

    Attributes:
        checks: names of :data:`CHECKS`. ``bounds`` is always among them.
        seed: the order of blocks and threads; 0 is the natural one.
        schedules: the number of orders in which each launch runs: ``seed`` and the seeds after it.
        report: a file for all findings, as JSON.
        compute_capability: the GPU whose limits apply: "9.0" or "sm_90".
        keep_going: no finding ends a launch: it is counted, and an access that must not happen is skipped.
        suppressions: a file of findings that are accepted (:mod:`trifold.acceptance`).
        compiled: kernels that can be drafted in C++ run as native code (:mod:`trifold.simulator.compiled`).
    """

    checks: frozenset[str] = _ALL
    seed: int = 0
    schedules: int = 1
    report: Path | None = None
    compute_capability: str = "9.0"
    keep_going: bool = False
    suppressions: Path | None = None
    compiled: bool = False


_current = Options()


def current() -> Options:
    """The current options."""
    return _current


def change(**changes: Any) -> Options:
    """Set options (names and values as :func:`parsed` accepts them) and return the previous ones."""
    before = _current
    _set(parsed(before, **changes))
    return before


def _set(options: Options) -> None:
    global _current
    before, _current = _current, options
    if (before.keep_going, before.suppressions) != (options.keep_going, options.suppressions):
        try:
            accepted.suppress(options.suppressions)
        except TrifoldError:
            _current = before
            raise
    report.start(options.report)


def _tell(acceptances: str) -> None:
    from trifold import _simulator

    _simulator.set_policy(acceptances, _current.keep_going)


accepted = Accepted(_tell)


@contextmanager
def options(**changes: Any) -> Iterator[Options]:
    """Launches within it run with other options.

    >>> with options(checks="none", seed=3) as now:
    ...     now.seed
    3
    """
    before = change(**changes)
    try:
        yield _current
    finally:
        _set(before)


def parsed(
    base: Options,
    *,
    checks: str | frozenset[str] | list[str] | tuple[str, ...] | None = None,
    seed: int | str | None = None,
    schedules: int | str | None = None,
    report: str | os.PathLike[str] | None = None,
    lint: bool | None = None,
    compute_capability: str | tuple[int, int] | None = None,
    keep_going: bool | str | None = None,
    suppressions: str | os.PathLike[str] | None = None,
    compiled: bool | str | None = None,
) -> Options:
    """``base`` changed by the given options.

    Args:
        checks: ``all``, ``none``, or names of :data:`CHECKS`, in a list or separated by commas.
        lint: add or remove the check ``lint``.
        keep_going, compiled: as text "0" or "1".
        suppressions: the file; "" for none.

    Raises:
        OptionError: a value is wrong; the message names the option.
    """
    result = base
    if checks is not None:
        result = replace(result, checks=_checks(checks))
    if lint is not None:
        result = replace(result, checks=result.checks | {"lint"} if lint else result.checks - {"lint"})
    if seed is not None:
        result = replace(result, seed=_integer("seed", seed, 0))
    if schedules is not None:
        result = replace(result, schedules=_integer("schedules", schedules, 1))
    if report is not None:
        result = replace(result, report=Path(report).absolute())
    if compute_capability is not None:
        result = replace(result, compute_capability=_capability(compute_capability))
    if keep_going is not None:
        result = replace(result, keep_going=bool(_integer("keep_going", keep_going, 0)))
    if compiled is not None:
        result = replace(result, compiled=bool(_integer("compiled", compiled, 0)))
    if suppressions is not None:
        result = replace(result, suppressions=Path(suppressions).absolute() if str(suppressions) else None)
    return result


def from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """The options in environment variables, for :func:`change`."""
    return {name: environment[variable] for name, variable in _VARIABLES.items() if environment.get(variable)}


def to_environment(options: Options) -> dict[str, str]:
    """Environment variables that make child processes run as this one does."""
    variables = {SWITCH: "1", "NUMBA_ENABLE_CUDASIM": "1"}
    variables[_VARIABLES["checks"]] = ",".join(sorted(options.checks))
    variables[_VARIABLES["seed"]] = str(options.seed)
    variables[_VARIABLES["schedules"]] = str(options.schedules)
    variables[_VARIABLES["compute_capability"]] = options.compute_capability
    variables[_VARIABLES["keep_going"]] = str(int(options.keep_going))
    variables[_VARIABLES["compiled"]] = str(int(options.compiled))
    if options.report is not None:
        variables[_VARIABLES["report"]] = str(options.report)
    if options.suppressions is not None:
        variables[_VARIABLES["suppressions"]] = str(options.suppressions)
    return variables


def _checks(value: str | frozenset[str] | list[str] | tuple[str, ...]) -> frozenset[str]:
    names = [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else list(value)
    if names == ["all"]:
        return _ALL
    if names == ["none"]:
        return _ALWAYS
    for name in names:
        if name not in CHECKS:
            raise OptionError(f"there is no check '{name}'", f"checks: all, none, or some of {', '.join(CHECKS)}")
    return frozenset(names) | _ALWAYS


def _integer(option: str, value: int | str, least: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if not least <= number < 2**64:
        raise OptionError(f"{option} is '{value}'", f"give {option} as a whole number from {least} up")
    return number


def _capability(value: str | tuple[int, int]) -> str:
    from trifold.limits import LIMITS

    text = ".".join(map(str, value)) if isinstance(value, tuple) else str(value)
    if text.startswith("sm_") and text[3:].isdigit():
        text = f"{text[3:-1]}.{text[-1]}"
    if text not in LIMITS:
        raise OptionError(f"compute capability '{value}' is not known", f"give one of {', '.join(LIMITS)}")
    return text
