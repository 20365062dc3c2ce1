"""A process that runs tests of one package: ``python -m tests.numba_suite.worker PACKAGE trifold|numba``.

It reads one JSON line for each piece of work on its standard input, a module and names of its tests, or ``null`` for
"list what there is", and answers on the file descriptor that its standard output was: a line for each test that starts
and ends, and one when the piece is done. What tests print goes to standard error.
"""

from __future__ import annotations

import faulthandler
import importlib
import inspect
import json
import os
import random
import sys
import time
import traceback
import unittest
import warnings
from collections.abc import Callable, Collection, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TextIO

from tests.numba_suite.verdict import read_lifted
from trifold.simulator.settings import from_environment

LONGEST_REASON = 6000  # characters of a traceback


class Reporter(unittest.TestResult):
    """Writes each test's start and end as a JSON line to ``stream``."""

    def __init__(self, stream: TextIO, package: str) -> None:
        super().__init__()
        self._stream, self._package = stream, package
        self._started, self._running = 0.0, False
        self._ended: unittest.TestCase | None = None
        self.unstarted: tuple[str, str] | None = None  # what kept a class's tests from starting

    def write(self, **event: Any) -> None:
        self._stream.write(json.dumps(event) + "\n")
        self._stream.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.write(event="start", test=name_of(test, self._package))
        _seed()
        self._started, self._running = time.perf_counter(), True

    def _end(self, test: unittest.TestCase, kind: str, reason: str = "") -> None:
        if not isinstance(test, unittest.TestCase):  # unittest's stand-in for a class whose setUpClass has failed
            self.unstarted = (kind, reason)
        elif self._ended is not test:  # only the first of several failing subtests counts
            seconds = round(time.perf_counter() - self._started, 4) if self._running else 0.0
            self._ended, self._running = test, False  # Python 3.12.1 skips tests without starting them
            self.write(event="end", test=name_of(test, self._package), kind=kind, seconds=seconds, reason=reason)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._end(test, "passed")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._end(test, "failed", _reason(err))

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        if err[0].__module__ == "_pytest.outcomes" and err[0].__name__ == "Skipped":  # numba-cuda calls pytest.skip
            self.addSkip(test, str(err[1]))
        else:
            self._end(test, "error", _reason(err))

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            kind = "failed" if issubclass(err[0], test.failureException) else "error"
            self._end(test, kind, f"{subtest._subDescription()}\n{_reason(err)}")  # type: ignore[attr-defined]

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._end(test, "skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._end(test, "expected failure", _reason(err))

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._end(test, "unexpected success")


def name_of(test: unittest.TestCase, package: str) -> str:
    """Module, class and method, below the package."""
    return test.id().removeprefix(package + ".")


def modules(package: str) -> Iterator[str]:
    """Every test module of the package, below it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"there is no package {package}")
    root = Path(spec.submodule_search_locations[0])
    for path in sorted(root.rglob("test_*.py")):
        yield ".".join(path.relative_to(root).with_suffix("").parts)


class FunctionTest(unittest.FunctionTestCase):
    """A test that pytest would take: a module's own function without parameters, with pytest's mark ``skipif``."""

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__(self._called(function))
        self._id = f"{function.__module__}.{function.__qualname__}"

    def id(self) -> str:
        return self._id

    @staticmethod
    def _called(function: Callable[[], object]) -> Callable[[], object]:
        for mark in getattr(function, "pytestmark", []):
            if mark.name == "skipif" and mark.args[0]:
                return unittest.skip(mark.kwargs["reason"])(function)
        return function


def functions_in(module: ModuleType) -> Iterator[FunctionTest]:
    """The module's functions that pytest would take for tests; those with parameters are kernels."""
    for name, value in vars(module).items():
        own = isinstance(value, FunctionType) and value.__module__ == module.__name__
        if own and name.startswith("test_") and not inspect.signature(value).parameters:
            yield FunctionTest(value)


def tests_in(module: ModuleType) -> list[unittest.TestCase]:
    return [*tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)), *functions_in(module)]


def tests_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item)
        else:
            yield item


def list_tests(reporter: Reporter, package: str) -> None:
    """Writes each module's tests; a module that cannot be imported is one test, skipped or in error."""
    for name in modules(package):
        try:
            module = importlib.import_module(f"{package}.{name}")
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt):
                raise
            skipped = isinstance(problem, unittest.SkipTest) or type(problem).__name__ == "Skipped"
            kind, reason = ("skipped", str(problem)) if skipped else ("error", traceback.format_exc()[-LONGEST_REASON:])
            reporter.write(event="end", test=name, kind=kind, seconds=0.0, reason=reason)
            continue
        if hasattr(module, "pytestmark"):  # of the suites' modules one has it, to be skipped in the simulator
            reason = str(module.pytestmark.kwargs["reason"])
            reporter.write(event="end", test=name, kind="skipped", seconds=0.0, reason=reason)
            continue
        reporter.write(event="module", module=name, tests=[name_of(test, package) for test in tests_in(module)])


def run_tests(reporter: Reporter, package: str, module: str, names: list[str]) -> None:
    """Runs the named tests of a module."""
    found = tests_in(importlib.import_module(f"{package}.{module}"))
    unittest.TestSuite(test for test in found if name_of(test, package) in names).run(reporter)
    if reporter.unstarted is not None:
        reporter.write(event="unstarted", kind=reporter.unstarted[0], reason=reporter.unstarted[1])
        reporter.unstarted = None


def lift(reasons: Collection[str]) -> None:
    """Lets tests run that Numba skips in the simulator for one of ``reasons``."""
    from numba.cuda import testing

    skip = testing.skip_on_cudasim
    testing.skip_on_cudasim = lambda reason: (lambda test: test) if reason in reasons else skip(reason)


def _reason(err: Any) -> str:
    return "".join(traceback.format_exception(*err))[-LONGEST_REASON:]


def _seed() -> None:
    """The inputs that tests draw are the same in every run."""
    import numpy as np

    random.seed(0)
    np.random.seed(0)


def _install() -> Callable[[], int]:
    """Puts trifold's simulator in the place of Numba's; the function counts its launches."""
    import trifold.simulator

    trifold.simulator.install(**from_environment(os.environ))
    lift(read_lifted().reasons)
    from trifold.simulator.launch import launches

    return launches


def _take_standard_streams() -> tuple[TextIO, TextIO]:
    """Work's lines and the answers' stream, out of the reach of tests and of the processes that they start."""
    work, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return work, answers


def main() -> None:
    package, simulator = sys.argv[1:]
    work, answers = _take_standard_streams()
    faulthandler.enable()
    warnings.simplefilter("default")  # as unittest's own runner sets it
    launches = _install() if simulator == "trifold" else lambda: 0
    reporter = Reporter(answers, package)
    for line in work:
        piece = json.loads(line)
        if piece is None:
            list_tests(reporter, package)
        else:
            run_tests(reporter, package, *piece)
        reporter.write(event="done", launches=launches())


if __name__ == "__main__":
    main()
