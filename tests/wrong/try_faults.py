"""The outcome of ``trifold verify``'s rows, on this machine's GPU, for each fault in the code for GPUs; or of the
checks on the CPU, which run the same kernels.

``python -m tests.wrong.try_faults`` writes a line of JSON for each fault when it is done: its name, the row that its
entry names, the rows that rejected it, each row's message, and the seconds that it took. ``--every-row`` runs all rows
that may reject a fault, ``--right`` runs the unchanged ops. With ``--device cpu`` the line has instead how precisely
findings name the fault (tests/wrong/on_the_cpu.py), under how many of ``--seeds`` schedules, and which findings.
``--json FILE`` writes all lines to a record, and continues one that was interrupted.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.records import ROOT, sources
from tests.quick_gxx import quick_gxx
from tests.wrong import on_the_cpu
from tests.wrong.fault import Outcome, outcome, right_op, rows_of, there_are
from tests.wrong.faults import FAULTS
from tests.wrong.few_kernels import launched_by
from trifold.machine.environment import environment


def of_fault(number: int, every_row: bool) -> dict[str, Any]:
    """The line of a fault, by its number among all.

    Args:
        every_row: run all rows that may reject it, instead of the one that its entry names.
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
    """The line of an unchanged op, on the calls of each row's faults: no row may reject it."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trifold-right-") as folder:
        said = {row: outcome(op, row, right_op(op, row, FAULTS, Path(folder) / row)) for row in rows_of(op, FAULTS)}
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


@dataclass(frozen=True)
class Record:
    """The lines of all faults in a file, with the sources that they depend on.

    Attributes:
        lines: by the entry.
    """

    path: Path
    environment: dict[str, Any]
    lines: dict[str, dict[str, Any]]

    @classmethod
    def begun(cls, path: Path) -> Record:
        """A record with the lines that the file already has for the same sources."""
        facts = environment(ROOT, torch.device("cpu")) | {"sources": sources("cpu/planted-faults.json")}
        document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        same = document.get("environment", {}).get("sources") == facts["sources"]
        return cls(path, facts, {line["entry"]: line for line in document["faults"]} if same else {})

    def add(self, line: dict[str, Any]) -> None:
        self.lines[line["entry"]] = line
        done = [self.lines[str(one)] for one in FAULTS if str(one) in self.lines]
        summary = Counter(one["verdict"] for one in done)
        document = {
            "environment": self.environment,
            "verdicts": {verdict: summary[verdict] for verdict in on_the_cpu.VERDICTS},
            "faults": done,
        }
        self.path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


Work = tuple[str, Callable[[], dict[str, Any]]]  # a line's name, and the function that computes it


def _on_gpu(chosen: Sequence[int], asked: argparse.Namespace) -> list[Work]:
    if asked.right:
        return [(op, partial(of_right, op)) for op in sorted({FAULTS[number].op for number in chosen})]
    return [(str(FAULTS[number]), partial(of_fault, number, asked.every_row)) for number in chosen]


def _on_cpu(chosen: Sequence[int], asked: argparse.Namespace, folder: Path) -> list[Work]:
    work: list[Work] = []
    for op in sorted({FAULTS[number].op for number in chosen}):
        faults = [FAULTS[number] for number in chosen if FAULTS[number].op == op]
        kernels = launched_by(op, [(one.cpu_call, one.in_pass) for one in faults], folder / op)
        if asked.right:
            work.append((op, partial(on_the_cpu.of_right, op, faults, kernels, asked.seeds)))
        else:
            work += [
                (str(one), partial(on_the_cpu.of_fault, one, names, asked.seeds))
                for one, names in zip(faults, kernels, strict=True)
            ]
    return work


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="what runs the kernels")
    parser.add_argument("--every-row", action="store_true", help="ask all rows of a GPU that may reject a fault")
    parser.add_argument("--seeds", type=int, default=8, help="orders in which the CPU runs each call; default: 8")
    parser.add_argument("--right", action="store_true", help="the ops as they are, in place of the faults")
    parser.add_argument("--only", default="", metavar="TEXT", help="entries whose name or row has this text")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="at once; default: the cores")
    parser.add_argument("--json", type=Path, metavar="FILE", help="of the CPU: the lines with what they are of")
    asked = parser.parse_args(arguments)
    record = Record.begun(asked.json) if asked.json is not None else None
    chosen = [number for number, one in enumerate(FAULTS) if asked.only in f"{one} {one.row}"]
    if record is not None:
        chosen = [number for number in chosen if str(FAULTS[number]) not in record.lines]
    started, right = time.monotonic(), 0
    context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(asked.jobs, mp_context=context) as pool:
        os.environ["CXX"] = str(quick_gxx(Path(folder)))  # for the processes, which start with their first task
        work = _on_cpu(chosen, asked, Path(folder)) if asked.device == "cpu" else _on_gpu(chosen, asked)
        lines: dict[Future[dict[str, Any]], str] = {pool.submit(run): name for name, run in work}
        for line in as_completed(lines):
            try:
                told = line.result()
            except Exception as error:  # the others continue
                told = {"entry": lines[line], "as expected": False, "error": f"{type(error).__name__}: {error}"}
            right += told["as expected"]
            print(json.dumps(told, ensure_ascii=False), flush=True)
            if record is not None and "error" not in told:
                record.add(told)
    print(f"{right} of {len(lines)} as expected, {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0 if right == len(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
