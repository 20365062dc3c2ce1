"""Drafted ports on a GPU: the time of their kernels, compared to Numba's compiled prototype and the hand-written port.

    python benchmarks/drafts.py --json FILE [OP...]

Builds the drafts of tests/draft/golden/, which a test compares to what ``trifold draft`` writes, in a scratch
workspace, and times the smallest, the middle and the largest case of each op's benchmarks in each dtype; the three take
turns. A speed is another's time divided by the draft's: 1.0 is as fast. The ports of row ops (softmax, the norms,
cross_entropy) choose among many kernels, of which their prototypes show a few: those figures say what such a port adds
to its draft. Exit status 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from trifold.bench.entrants import Entrant, implementations
from trifold.bench.ops import benchmarks_of
from trifold.bench.rows import PORT, PROTOTYPE, Row
from trifold.bench.run import Machine, Selection, run, tasks
from trifold.implementation import load_port
from trifold.machine.environment import environment
from trifold.workspace import Workspace

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests/draft/golden"
RECORD = "drafts/h200.json"
DRAFT = "draft"
TARGET = 0.95
#: Their hand-written ports are not plain: only Numba's speed is a target of theirs.
TUNED = ("softmax", "layer_norm", "rms_norm", "cross_entropy")


def drafted(ops: Iterable[str], folder: Path) -> Workspace:
    """A workspace in ``folder`` with the gallery's prototypes, wiring and specs, and drafted kernels."""
    for part in ("prototypes", "ports", "verify"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "cuda_src").mkdir()
    for op in ops:
        for suffix in (".cu", ".cuh"):
            shutil.copy(GOLDEN / f"{op}{suffix}", folder / "cuda_src")
    return Workspace.at(folder)


def build(root: Path, op: str) -> None:
    """In a process of its own: the library is in the cache afterwards."""
    load_port(Workspace.at(root).op(op)).kernels("cuda")


def build_all(roots: Sequence[Path], ops: Sequence[str], workers: int) -> None:
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(build, root, op) for op in ops for root in roots]:
            done.result()


def measured(op: str, gallery: Workspace, drafts: Workspace) -> Iterator[dict[str, Any]]:
    """A line for each case: seconds of the three, and the draft's speeds."""
    machine = Machine(torch.device("cuda"), seconds=0.1, against=[PROTOTYPE])
    found = implementations(gallery.op(op), "cuda", [PROTOTYPE])
    draft = implementations(drafts.op(op), "cuda", [])[PORT]
    competing: Mapping[str, Entrant] = found | {DRAFT: Entrant(DRAFT, draft.function)}
    for benchmark in benchmarks_of(gallery.op(op)):
        for task in tasks(op, benchmark, "cuda", Selection(quick=True, methods=("graph", "events"))):
            yield line({row.competitor: row for row in run(task, competing, machine)})


def line(rows: Mapping[str, Row]) -> dict[str, Any]:
    draft = rows[DRAFT]
    seconds = {name: row.seconds for name, row in rows.items() if row.seconds}
    reasons = {name: row.reason for name, row in rows.items() if not row.seconds}
    speeds = {
        f"{name} / draft": round(seconds[name] / seconds[DRAFT], 3)
        for name in (PROTOTYPE, PORT)
        if DRAFT in seconds and name in seconds
    }
    return {
        **{name: getattr(draft, name) for name in ("op", "benchmark", "dtype", "case", "bytes")},
        "µs": {name: round(took * 1e6, 2) for name, took in seconds.items()},
        **speeds,
        **({"not run": reasons} if reasons else {}),
    }


def summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For each op, the median and the least of each speed."""
    found: dict[str, Any] = {}
    for op in dict.fromkeys(one["op"] for one in lines):
        for against in (f"{PROTOTYPE} / draft", f"{PORT} / draft"):
            speeds = [one[against] for one in lines if one["op"] == op and against in one]
            if speeds:
                median = round(statistics.median(speeds), 3)
                found.setdefault(op, {})[against] = {"median": median, "least": min(speeds), "cases": len(speeds)}
    return found


def missed(of_ops: Mapping[str, Any]) -> list[str]:
    """What is slower than the target, in the median of an op's cases."""
    return [
        f"{op}: {against} {speed['median']}"
        for op, speeds in of_ops.items()
        for against, speed in speeds.items()
        if speed["median"] < TARGET and not (op in TUNED and against.startswith(PORT))
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", help="default: all of the gallery with a benchmark")
    parser.add_argument("--json", type=Path, help="the record to write")
    parser.add_argument("--jobs", type=int, default=16, help="ops to build at the same time")
    options = parser.parse_args()
    gallery = Workspace.at(ROOT)
    ops = options.ops or [op for op in gallery.ops() if benchmarks_of(gallery.op(op))]
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        drafts = drafted(ops, Path(folder))
        build_all([gallery.root, drafts.root], ops, options.jobs)
        for op in ops:
            for one in measured(op, gallery, drafts):
                lines.append(one)
                print(json.dumps(one, ensure_ascii=False), flush=True)
    of_ops = summary(lines)
    if options.json:
        from benchmarks.records import sources

        facts = environment(ROOT, torch.device("cuda")) | {"complete": not options.ops, "sources": sources(RECORD)}
        result = {"environment": facts, "summary": of_ops, "cases": lines}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(of_ops, indent=1))
    below = missed(of_ops)
    print("\n".join(below) or f"every op reaches {TARGET} in the median of its cases")
    return 1 if below else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # for benchmarks.records
    sys.exit(main())
