"""Nsight Compute's figures of the row ops' kernels on a GPU: utilization and reasons of stalls.

    python benchmarks/profile_rows.py --json FILE

Runs itself under ``ncu``, without locking the clocks, and writes one entry for each kernel: its time, the percentage of
the memory's rate and of the issue slots, its occupancy in warps, registers per thread, and the three largest reasons of
stalls, in cycles per instruction. Takes half a minute.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import trifold
from trifold.machine.environment import environment

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = ("SpeedOfLight", "WarpStateStats", "Occupancy", "LaunchStats", "SchedulerStats")
NCU = ("ncu", "--profile-from-start", "off", "--clock-control", "none", "--csv", "--page", "raw")

SHAPES: dict[int, tuple[int, int]] = {
    columns: (rows, columns)
    for rows, columns in (
        *((131072, 256), (16384, 4096), (4096, 16384), (2048, 65536), (1024, 262144), (10007, 1000), (4096, 12289)),
        *((8192, 32000), (4096, 131072)),
    )
}
# The numbers of columns at which kernels are profiled, for each pass.
LOOKED_AT: dict[str, tuple[int, ...]] = {
    "softmax forward": (4096, 65536, 262144),
    "softmax backward": (65536, 262144),
    "layer_norm forward": (256, 1000, 4096, 16384, 65536, 12289),
    "layer_norm backward": (4096, 1000, 12289),
    "rms_norm forward": (65536, 12289),
    "rms_norm backward": (4096,),
    "cross_entropy forward": (131072,),
    "cross_entropy training": (32000, 131072),
}

_TIME = "gpu__time_duration.sum"
_SHARES = {
    "memory": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "issued": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "warps": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
_STALL = re.compile(r"issue_stalled_(?P<reason>\w+)_per_issue_active\.ratio$")


@dataclass(frozen=True)
class Profile:
    """One launch of one kernel.

    Attributes:
        kernel: its name, without template arguments.
        what: pass, shape and dtype.
        microseconds: its time, with cold caches.
        memory, issued, warps: percent of the memory's rate, of the issue slots, of the warps that fit.
        registers: per thread.
        stalls: cycles that a warp waits between two instructions, for the three largest reasons.
    """

    kernel: str
    what: str
    microseconds: float
    memory: float
    issued: float
    warps: float
    registers: int
    stalls: dict[str, float]


def calls(which: str, rows: int, columns: int, dtype: torch.dtype) -> Callable[[], object]:
    """One pass of an op on random numbers of this shape, without autograd around it."""
    name, part = which.split()
    port = trifold.load(name)
    op: Any = port.__globals__["op"]
    x = torch.randn(rows, columns, device="cuda", dtype=dtype)
    weight = torch.randn(columns, device="cuda", dtype=dtype)
    target = torch.randint(columns, (rows,), device="cuda")
    statistics = torch.rand(2, rows, device="cuda")
    arguments: dict[str, tuple[Tensor, ...]] = {
        "softmax": (x,),
        "layer_norm": (x, weight, weight),
        "rms_norm": (x, weight),
        "cross_entropy": (x, target),
    }
    backward: dict[str, Callable[[], object]] = {
        "softmax": lambda: op.softmax_backward(x, x),
        "layer_norm": lambda: op.layer_norm_backward(x, x, weight, statistics, True),
        "rms_norm": lambda: op.rms_norm_backward(x, x, weight, statistics[:1], True),
    }
    if part == "backward":
        return backward[name]
    if part == "training":
        return lambda: op.cross_entropy(x, target, -100, 0.0, 0, True)
    return lambda: port(*arguments[name], **({"reduction": "none"} if name == "cross_entropy" else {}))


def profiled() -> None:
    """Run each pass once, warm, between a start and a stop of the profiler; print its name before it."""
    runtime: Any = torch.cuda.cudart()
    for dtype in (torch.float32, torch.bfloat16):
        for which, lengths in LOOKED_AT.items():
            for columns in lengths:
                shape = SHAPES[columns]
                with torch.no_grad():
                    call = calls(which, *shape, dtype)
                    call()
                    torch.cuda.synchronize()
                    print(f"{which}, {shape[0]} × {shape[1]}, {str(dtype).removeprefix('torch.')}", flush=True)
                    runtime.cudaProfilerStart()
                    call()
                    torch.cuda.synchronize()
                    runtime.cudaProfilerStop()


def profiles(lines: Iterable[str], said: Iterable[str]) -> Iterator[Profile]:
    """Of ncu's table (CSV, page ``raw``), with what was said before each pass: it has one kernel, a backward pass of a
    norm a second one, which adds up parts.
    """
    head, _, *launches = csv.reader(line for line in lines if line.startswith('"'))
    passes, what = iter(said), ""
    for launch in launches:
        row = dict(zip(head, launch, strict=True))
        kernel = row["Kernel Name"].split("<")[0].split("(")[0].split("::")[-1].split()[-1]
        if not kernel.startswith("add_parts"):
            what = next(passes)
        yield Profile(
            kernel,
            what,
            _number(row[_TIME]) / 1000,
            registers=int(_number(row["launch__registers_per_thread"])),
            stalls=_stalls(row),
            **{name: round(_number(row[metric]), 1) for name, metric in _SHARES.items()},
        )


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _stalls(row: Mapping[str, str]) -> dict[str, float]:
    found = {match["reason"]: _number(row[name]) for name in row if (match := _STALL.search(name)) and row[name]}
    return dict(sorted(found.items(), key=lambda reason: -reason[1])[:3])


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--profiled", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.profiled:
        profiled()
        return 0
    if not torch.cuda.is_available():
        print("profile_rows: torch sees no CUDA device; run it where there is one", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "ncu.csv")
        sections = (word for section in SECTIONS for word in ("--section", section))
        own = (sys.executable, __file__, "--json", str(options.json), "--profiled")
        try:
            done = subprocess.run(
                [*NCU, *sections, "--log-file", str(table), *own], capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            print("profile_rows: there is no ncu; it comes with the CUDA Toolkit", file=sys.stderr)
            return 2
        said = [line for line in done.stdout.splitlines() if " × " in line]
        if done.returncode != 0:
            print(done.stderr or table.read_text(encoding="utf-8"), file=sys.stderr)
            return 1
        found = list(profiles(table.read_text(encoding="utf-8").splitlines(), said))
    from benchmarks.records import sources

    facts = environment(ROOT, torch.device("cuda")) | {"sources": sources("profile/h200-rows.json")}
    text = {"environment": facts, "kernels": [asdict(one) for one in found]}
    options.json.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # for benchmarks.records
    raise SystemExit(main())
