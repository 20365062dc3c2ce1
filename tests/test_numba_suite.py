"""The runner of Numba's own tests loses no test: a crash, a hang and an empty module are reported by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.numba_suite import baseline, run
from tests.numba_suite.baseline import Baseline
from tests.numba_suite.outcomes import Outcome, Outcomes
from tests.numba_suite.run import Measured, Options, Result, measure
from tests.numba_suite.suites import ROOT, SUITES, Suite, SuiteError
from tests.numba_suite.verdict import Fault, Lifted, judge, read_faulty

TESTS = """
import os, signal, sys, time, unittest

class Ends(unittest.TestCase):
    def test_crash(self): os.kill(os.getpid(), signal.SIGSEGV)
    def test_error(self): raise ValueError("said so")
    def test_exit(self): os._exit(3)
    def test_failure(self): self.assertEqual(1, 2)
    def test_hang(self): time.sleep(60)
    def test_noise(self):
        print("not an answer")
        self.assertEqual(sys.stdin.read(), "")
    @unittest.skip("for a reason")
    def test_skip(self): pass
    def test_subtests(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)
    @unittest.expectedFailure
    def test_unexpected(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()

class NeverStarts(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise RuntimeError("no class")
    def test_one(self): pass

def test_function(): pass
def test_with_a_parameter(kernel_argument): raise AssertionError("not a test")
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """A package of tests that end in every way."""
    package = tmp_path / "endings"
    (package / "below").mkdir(parents=True)
    for folder in (package, package / "below"):
        (folder / "__init__.py").touch()
    (package / "below" / "test_ends.py").write_text(TESTS, encoding="utf-8")
    (package / "test_skipped.py").write_text("import unittest\nraise unittest.SkipTest('all of it')", encoding="utf-8")
    (package / "test_broken.py").write_text("import no_such_module", encoding="utf-8")
    return Suite("endings", "numba", package="endings", folders=(tmp_path,))


def test_every_ending_is_told(suite: Suite) -> None:
    outcomes = measure(suite, "numba", Options(jobs=2, limit=2)).outcomes
    assert {name.removeprefix("below.test_ends."): outcome.kind for name, outcome in outcomes.items()} == {
        "Ends.test_crash": "crashed",
        "Ends.test_error": "error",
        "Ends.test_exit": "crashed",
        "Ends.test_failure": "failed",
        "Ends.test_hang": "timed out",
        "Ends.test_noise": "passed",
        "Ends.test_skip": "skipped",
        "Ends.test_subtests": "failed",
        "Ends.test_unexpected": "unexpected success",
        "Ends.test_expected": "expected failure",
        "NeverStarts.test_one": "error",
        "test_function": "passed",
        "test_skipped": "skipped",
        "test_broken": "error",
    }
    ends = {name.rpartition("_")[2]: outcome.reason for name, outcome in outcomes.items()}
    assert "SIGSEGV" in ends["crash"] and "exit status 3" in ends["exit"]
    assert "said so" in ends["error"] and "no class" in ends["one"] and "number=1" in ends["subtests"]
    assert ends["skip"] == "for a reason" and ends["skipped"] == "all of it"


def outcomes(**kinds: str) -> Outcomes:
    return {name: Outcome(kind, 0.0, "why" if kind == "skipped" else "") for name, kind in kinds.items()}


EXPECTED = Baseline("here", outcomes(a="passed", b="expected failure", c="skipped", d="failed"))


@pytest.mark.parametrize("worse", ["failed", "error", "skipped", "crashed", "timed out", "unexpected success"])
def test_a_test_that_no_longer_passes_is_lost(worse: str) -> None:
    verdict = judge(EXPECTED, outcomes(a="passed", b=worse, c="skipped", d="failed"), {})
    assert set(verdict.lost) == {"b"} and not verdict.clean


def test_a_test_that_is_gone_is_lost_and_a_new_one_is_unknown() -> None:
    verdict = judge(EXPECTED, outcomes(a="passed", new="passed"), {})
    assert set(verdict.lost) == {"b"} and verdict.unknown == ("new",)
    assert not verdict.clean and not judge(EXPECTED, outcomes(a="passed", b="passed", new="skipped"), {}).clean


FAULT = Fault("the kernel races", "race on")


def test_a_listed_fault_excuses_its_own_failure_alone() -> None:
    racing = {"a": Outcome("error", 0.0, "KernelFault: race on x[0]"), "b": Outcome("passed"), "d": Outcome("passed")}
    verdict = judge(EXPECTED, racing, {"a": FAULT})
    assert verdict.clean and verdict.faulty == {"a": FAULT} and verdict.gained == ("d",)
    otherwise = judge(EXPECTED, racing | {"a": Outcome("error", 0.0, "TypeError")}, {"a": FAULT})
    assert set(otherwise.lost) == {"a"} and not otherwise.clean
    stale = judge(EXPECTED, outcomes(a="passed", b="passed"), {"a": FAULT})
    assert stale.stale == ("a",) and not stale.clean


def test_a_skip_without_need_is_lifted() -> None:
    ran = judge(EXPECTED, outcomes(a="passed", b="passed", c="passed"), {}, Lifted(frozenset({"why"})))
    assert ran.clean and ran.gained == ("c",)
    assert set(judge(EXPECTED, outcomes(a="passed", b="passed", c="skipped"), {}, Lifted(frozenset({"why"}))).lost) == {
        "c"
    }
    excepted = Lifted(frozenset({"why"}), {"c": "takes hours"})
    assert judge(EXPECTED, outcomes(a="passed", b="passed", c="skipped"), {}, excepted).clean


def test_a_part_of_the_suite_is_judged_by_itself() -> None:
    assert judge(EXPECTED, outcomes(b="passed"), {"a": FAULT}, whole=False).clean
    assert not judge(EXPECTED, outcomes(b="failed"), {"a": FAULT}, whole=False).clean


def test_a_result_says_what_was_lost() -> None:
    measured = Measured({"a": Outcome("failed", 0.0, "Traceback\nAssertionError"), "b": Outcome("passed")}, 1.0)
    result = Result(SUITES[0], measured, EXPECTED, judge(EXPECTED, measured.outcomes, {}))
    assert "LOST a: failed\n    Traceback\n    AssertionError" in "\n".join(result.lines())
    assert result.to_json()["lost"]["a"]["reason"] == "Traceback\nAssertionError" and not result.to_json()["clean"]


def test_a_run_without_a_launch_in_our_simulator_is_no_run(monkeypatch: pytest.MonkeyPatch, suite: Suite) -> None:
    for launches in (1, 0):
        monkeypatch.setattr(run, "measure", lambda *_, n=launches: Measured({"a": Outcome("passed")}, 1.0, n))
        monkeypatch.setattr(run, "measure_stock", lambda *_: Measured({"a": Outcome("passed")}, 1.0))
        if launches:
            assert run.compare(suite, Options(1, 1.0), stock=True).measured.launches == 1
        else:
            with pytest.raises(SuiteError, match="without trifold's simulator"):
                run.compare(suite, Options(1, 1.0), stock=True)


def test_a_baseline_is_read_as_it_was_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, suite: Suite) -> None:
    monkeypatch.setattr(baseline, "FOLDER", tmp_path)
    with pytest.raises(SuiteError, match="no record of endings"):
        baseline.read(suite)
    recorded = {"m.A.a": Outcome("passed"), "m.A.b": Outcome("skipped", 0.0, "a: b"), "whole": Outcome("error")}
    baseline.write(suite, recorded)
    assert baseline.read(suite).outcomes == recorded


def test_an_entry_must_say_all(tmp_path: Path) -> None:
    listed = tmp_path / "faulty.toml"
    entry = '[[faulty]]\ntests = ["a"]\nsuites = ["numba"]\nreason = "it\\nraces"\n'
    listed.write_text(entry + 'failure = "race on"\n', encoding="utf-8")
    assert read_faulty("numba", listed) == {"a": Fault("it races", "race on")}
    assert read_faulty("numba-cuda", listed) == {}
    listed.write_text(entry, encoding="utf-8")
    with pytest.raises(SuiteError, match="lacks failure"):
        read_faulty("numba", listed)


def test_the_command_says_that_a_suite_is_not_installed(tmp_path: Path) -> None:
    program = (
        "import runpy, importlib.metadata as m; m.version = lambda _: (_ for _ in ()).throw(m.PackageNotFoundError());"
        "runpy.run_module('tests.numba_suite', run_name='__main__')"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and "pip install -e '.[suite]'" in ended.stderr and "Traceback" not in ended.stderr
