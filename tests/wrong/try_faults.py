"""What the rows of ``trifold verify`` say, on this machine's GPU, of each fault in the code that only a GPU runs.

``python -m tests.wrong.try_faults`` writes a line of JSON for each fault as it is done: its name, the row that its
entry names, the rows that rejected it, what each row said, and the seconds that it took. ``--every-row`` asks all rows
that may reject a fault, ``--right`` the ops as they are.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tests.wrong.entry import quick_gxx
from tests.wrong.fault import OF_THE_GPU, Outcome, outcome, right_op, there_are
from tests.wrong.faults import FAULTS


def of_fault(number: int, every_row: bool) -> dict[str, Any]:
    """The line of a fault, by its number among all.

    Args:
        every_row: whether all rows are asked that may reject it, or the one that its entry names.
    """
    planted, started = FAULTS[number], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trifold-fault-") as folder:
        workspace = planted.write(Path(folder))
        rows = there_are(planted.rows() if every_row else [planted.row])
        said = {row: outcome(planted.op, row, workspace, seconds=planted.seconds) for row in rows}
    rejecting = [row for row, one in said.items() if one.verdict == "rejected"]
    return {
        "entry": str(planted),
        "kind": planted.kind,
        "pass": planted.in_pass,
        "expected": planted.row,
        "rejected by": rejecting,
        "as expected": (planted.row in rejecting) != bool(planted.missed),
        "missed": planted.missed,
        "seconds": round(time.monotonic() - started, 1),
        "said": _said(said),
    }


def of_right(op: str) -> dict[str, Any]:
    """The line of an op as it is, on the calls of its faults: no row may reject it."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trifold-right-") as folder:
        workspace = right_op(op, FAULTS, Path(folder))
        said = {row: outcome(op, row, workspace) for row in there_are(("values", "gradients", *OF_THE_GPU))}
    rejecting = [row for row, one in said.items() if one.verdict in ("rejected", "broken")]
    return {
        "entry": f"{op} as it is",
        "rejected by": rejecting,
        "as expected": not rejecting,
        "seconds": round(time.monotonic() - started, 1),
        "said": _said(said),
    }


def _said(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    return {row: f"{one.verdict}: {one.message}"[:400] for row, one in outcomes.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every-row", action="store_true", help="ask all rows that may reject a fault")
    parser.add_argument("--right", action="store_true", help="the ops as they are, in place of the faults")
    parser.add_argument("--only", default="", metavar="TEXT", help="entries whose name or row has this text")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="at once; default: the cores")
    asked = parser.parse_args(arguments)
    chosen = [number for number, one in enumerate(FAULTS) if asked.only in f"{one} {one.row}"]
    ops = sorted({FAULTS[number].op for number in chosen})
    started, right = time.monotonic(), 0
    context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(asked.jobs, mp_context=context) as pool:
        os.environ["CXX"] = str(quick_gxx(Path(folder)))  # for the processes, which start with their first work
        lines: dict[Future[dict[str, Any]], str] = (
            {pool.submit(of_right, op): op for op in ops}
            if asked.right
            else {pool.submit(of_fault, number, asked.every_row): str(FAULTS[number]) for number in chosen}
        )
        for line in as_completed(lines):
            try:
                told = line.result()
            except Exception as error:  # the others go on
                told = {"entry": lines[line], "as expected": False, "error": f"{type(error).__name__}: {error}"}
            right += told["as expected"]
            print(json.dumps(told, ensure_ascii=False), flush=True)
    print(f"{right} of {len(lines)} as expected, {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0 if right == len(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
