"""``python -m <package>.tests [--json FILE]``: run all tests; exit status 1 if one fails."""

from __future__ import annotations

import argparse
import json
import re
import sys
import unittest
from pathlib import Path

import torch

from trifold.graduate.wheel_tests import package


def main() -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {package.NAME}.tests")
    parser.add_argument("--json", type=Path, help="write what ran and what failed to this file")
    target = parser.parse_args().json
    modules = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py"))
    suite = unittest.defaultTestLoader.loadTestsFromNames([f"{package.NAME}.tests.{name}" for name in modules])
    ran = suite.countTestCases()
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    not_run = {
        f"{op} on {device}": reason
        for op in package.ops()
        for device in ("cpu", "cuda")
        if (reason := package.lacks(op, device))
    }
    for cell, reason in not_run.items():
        print(f"not run: {cell}: {reason}", file=sys.stderr)
    if target is not None:
        failures = [f"{test}: {_error(text)}" for test, text in result.failures + result.errors]
        report = {
            "tests": ran,
            "failures": failures,
            "devices": sorted({device for _, device in package.cells()}),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "torch": torch.__version__,
            "not_run": not_run,
        }
        target.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0 if result.wasSuccessful() and not result.skipped else 1


def _error(trace: str) -> str:
    """The line of a traceback that says what was raised; lines after it compare values in detail."""
    lines = [line for line in trace.splitlines() if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    return lines[-1] if lines else trace.strip().splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
