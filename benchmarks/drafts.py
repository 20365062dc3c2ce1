"""Drafted ports on a GPU: the time of their kernels, compared to Numba's compiled prototype and the hand-written port.

    python benchmarks/drafts.py --json FILE [OP...]

Builds the drafts of tests/draft/golden/, which a test compares to what ``trifold draft`` writes, in a scratch
workspace, and times the smallest, the middle and the largest case of each op's benchmarks in each dtype; the three take
turns. A speed is another's time divided by the draft's: 1.0 is as fast.

The gallery's ports have faster kernels than a prototype shows, of whole vectors or rows in registers. Their plain
kernels, which have the prototype's names and statements, run for ``plain`` cases: float64 in the row ops, and tensors
of odd addresses in elementwise ops. Only there is the port's speed a target of a draft. Exit status 1 if one is missed.
FILE is written after each op, and continued if it is of the same sources.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trifold.bench.entrants import implementations
from trifold.bench.ops import benchmarks_of
from trifold.bench.rows import PORT, PROTOTYPE, Row
from trifold.bench.run import Machine, Selection, run, tasks
from trifold.implementation import load_port
from trifold.machine.environment import environment
from trifold.spec.benchmark import Arguments, Benchmark
from trifold.workspace import Workspace

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests/draft/golden"
RECORD = "drafts/h200.json"
DRAFT = "draft"
TARGET = 0.95
#: Their ports take the plain kernels for float64, and for tensors that no vector can be loaded from.
PLAIN_IN_FLOAT64 = ("softmax", "layer_norm", "rms_norm", "cross_entropy")
PLAIN_WHERE_ODD = ("add", "mul", "sigmoid", "round_ste", "swiglu")
#: Its argument is y, which the forward pass allocates at an aligned address: the port takes vectors.
NEVER_ODD = {("sigmoid", "backward")}
#: One row of a prototype of rows is one block's work: a second a call.
LEFT_OUT = {("cumsum", (1, 1 << 28))}


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


def benchmarks(op: str, gallery: Workspace) -> Iterator[tuple[Benchmark, bool]]:
    """The op's benchmarks, and those for which the gallery's port takes its plain kernels."""
    for benchmark in benchmarks_of(gallery.op(op)):
        cases = tuple(case for case in benchmark.cases if (op, case.sizes) not in LEFT_OUT)
        listed = replace(benchmark, cases=cases)
        yield listed, False
        if op in PLAIN_IN_FLOAT64:
            yield replace(listed, dtypes=(torch.float64,)), True
        if op in PLAIN_WHERE_ODD and (op, benchmark.name) not in NEVER_ODD:
            yield replace(listed, arguments=functools.partial(_odd, listed.arguments)), True


def _odd(make: Callable[..., Arguments], *args: Any) -> Arguments:
    """The arguments, one element after a 16-byte boundary."""

    def moved(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.new_empty(value.numel() + 1)[1:].view(value.shape).copy_(value)

    return tuple(moved(value) for value in make(*args))


def measured(op: str, gallery: Workspace, drafts: Workspace) -> Iterator[dict[str, Any]]:
    """A line for each case: seconds of the three, and the draft's speeds."""
    machine = Machine(torch.device("cuda"), seconds=0.1, against=[PROTOTYPE])
    found = implementations(gallery.op(op), "cuda", [PROTOTYPE])
    draft = implementations(drafts.op(op), "cuda", [])[PORT]
    competing = found | {DRAFT: replace(draft, name=DRAFT)}
    for benchmark, plain in benchmarks(op, gallery):
        for task in tasks(op, benchmark, "cuda", Selection(quick=True, methods=("graph", "events"))):
            yield line({row.competitor: row for row in run(task, competing, machine)}) | {"plain": plain}


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
    """For each op, the median and the least of each speed; of the port's, for plain cases apart."""
    speeds: dict[str, dict[str, list[float]]] = {}
    for one in lines:
        of_op = speeds.setdefault(one["op"], {})
        for against in (f"{PROTOTYPE} / draft", f"{PORT} / draft"):
            if against in one:
                apart = "plain " if one["plain"] and against.startswith(PORT) else ""
                of_op.setdefault(apart + against, []).append(one[against])
    return {
        op: {
            name: {"median": round(statistics.median(some), 3), "least": min(some), "cases": len(some)}
            for name, some in of_op.items()
        }
        for op, of_op in speeds.items()
    }


def missed(of_ops: Mapping[str, Any]) -> list[str]:
    """What is slower than the target, in the median of an op's cases."""
    return [
        f"{op}: {against} {speed['median']}"
        for op, speeds in of_ops.items()
        for against, speed in speeds.items()
        if speed["median"] < TARGET and not against.startswith(PORT)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", help="default: all of the gallery with a benchmark")
    parser.add_argument("--json", type=Path, help="the record to write")
    parser.add_argument("--jobs", type=int, default=16, help="ops to build at the same time")
    options = parser.parse_args()
    from benchmarks.records import sources

    gallery = Workspace.at(ROOT)
    ops = options.ops or [op for op in gallery.ops() if benchmarks_of(gallery.op(op))]
    facts = environment(ROOT, torch.device("cuda")) | {"sources": sources(RECORD)}
    lines = known(options.json, facts["sources"]) if options.json else []
    left = [op for op in ops if op not in {one["op"] for one in lines}]
    with tempfile.TemporaryDirectory() as folder:
        drafts = drafted(left, Path(folder))
        build_all([gallery.root, drafts.root], left, options.jobs)
        for op in left:
            of_op = list(measured(op, gallery, drafts))
            lines += of_op
            print("\n".join(json.dumps(one, ensure_ascii=False) for one in of_op), flush=True)
            if options.json:
                complete = {one["op"] for one in lines} == set(gallery.ops())
                write(options.json, facts | {"complete": complete}, lines)
    print(json.dumps(summary(lines), indent=1))
    below = missed(summary(lines))
    print("\n".join(below) or f"every op reaches {TARGET} in the median of its cases")
    return 1 if below else 0


def known(path: Path, of: Mapping[str, str]) -> list[dict[str, Any]]:
    """The lines of an earlier run of the same sources."""
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    same = document.get("environment", {}).get("sources") == of
    lines: list[dict[str, Any]] = document["cases"] if same else []
    return lines


def write(path: Path, facts: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    result = {"environment": facts, "summary": summary(lines), "cases": lines}
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # for benchmarks.records
    sys.exit(main())
