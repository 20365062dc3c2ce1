"""The command line: see the package's docstring."""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.numba_suite import __doc__ as description
from tests.numba_suite import baseline
from tests.numba_suite.outcomes import Outcome
from tests.numba_suite.run import Options, Result, compare, counts, ignore, measure_stock, skip_reasons
from tests.numba_suite.suites import SUITES, Suite, SuiteError
from trifold.errors import TrifoldError


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.numba_suite",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [suite.name for suite in SUITES]
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{' or '.join(names)}; both where none is named")
    parser.add_argument("-k", dest="select", default="", metavar="TEXT", help="only tests whose name contains TEXT")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="workers a suite (the cores, shared out)")
    parser.add_argument("--limit", type=float, default=60, metavar="S", help="seconds that one test may take (60)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the order of threads in trifold's simulator")
    parser.add_argument("--compiled", action="store_true", help="kernels that can be drafted run as native code")
    parser.add_argument("--stock", action="store_true", help="measure Numba's simulator too, instead of the baseline")
    parser.add_argument("--record", action="store_true", help="only run Numba's simulator, and write the baseline")
    parser.add_argument("--json", type=Path, metavar="F", help="write everything to F")
    parser.add_argument("--skips", action="store_true", help="list why tests are skipped")
    parser.add_argument("-v", "--verbose", action="store_true", help="report each test as it ends")
    given = parser.parse_args()
    for name in given.suites:
        if name not in names:
            parser.error(f"there is no suite '{name}'; there is {' and '.join(names)}")
    return given


def show(name: str, outcome: Outcome) -> None:
    print(f"{outcome.kind:12} {outcome.seconds:8.3f} s  {name}", flush=True)


def record(suite: Suite, options: Options) -> str:
    """Writes the baseline; the line to print."""
    stock = measure_stock(suite, options)
    path = baseline.write(suite, stock.outcomes)
    return f"{path}: {counts(stock.outcomes)} in {stock.seconds:.1f} s"


def print_result(result: Result, skips: bool) -> None:
    print(*result.lines(), sep="\n")
    if skips:
        for reason, number in skip_reasons(result.measured.outcomes):
            print(f"    {number:4} skipped: {reason}")


def main() -> int:
    given = arguments()
    chosen = [suite for suite in SUITES if not given.suites or suite.name in given.suites]
    jobs = given.jobs or max(1, (os.cpu_count() or 1) // len(chosen))
    options = Options(jobs, given.limit, given.select, given.seed, given.compiled)
    with ThreadPoolExecutor(len(chosen)) as pool:
        if given.record:
            print("\n".join(pool.map(lambda suite: record(suite, options), chosen)))
            return 0
        on_end = show if given.verbose else ignore
        results = list(pool.map(lambda suite: compare(suite, options, given.stock, on_end), chosen))
    if not any(result.measured.outcomes for result in results):
        raise SuiteError(f"no test has '{given.select}' in its name", "give -k a part of a test's name")
    for result in results:
        print_result(result, given.skips)
    if given.json:
        data = {"suites": [result.to_json() for result in results]}
        given.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0 if all(result.verdict.clean for result in results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TrifoldError as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)
