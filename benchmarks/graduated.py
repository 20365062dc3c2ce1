"""The cost of a graduated wheel: its import beyond torch's, and the host time of a call compared to the JIT-built port.

    trifold graduate sigmoid mul --out out --allow-unverified cuda
    python benchmarks/graduated.py out/dist/*.whl --json benchmarks/results/graduated/cpu.json

Both are called in one process, in turn, in readings of a few milliseconds, so that other load on the machine affects
both; the figure is the median of the ratios of neighbouring readings. The import is timed in fresh processes, after
torch's own. Exit status 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import trifold
from trifold import record_sources
from trifold.cells import Device
from trifold.graduate.fresh_environment import fresh_environment
from trifold.machine.environment import environment
from trifold.workspace import Workspace

IMPORT_LIMIT_MS = 30.0
CALL_LIMIT = 1.05
_READINGS, _READING_S = 300, 2e-3
_IMPORT = (
    "import sys, time, torch; start = time.perf_counter(); __import__(sys.argv[1]); print(time.perf_counter() - start)"
)

Call = Callable[[], object]


def import_ms(wheel: Path, package: str, times: int = 9) -> float:
    """Return the time of ``import package`` after ``import torch``, in milliseconds: the least of several fresh
    processes.

    The other processes waited for the disk, or for other programs.
    """
    with fresh_environment() as place:
        place.install(wheel.resolve())
        seconds = [float(place.run("-c", _IMPORT, package).stdout) for _ in range(times)]
    return min(seconds) * 1e3


def _is_floating(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def calls(function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Call]:
    """The three kinds of call whose host time counts."""
    tracked = [x.clone().requires_grad_() if _is_floating(x) else x for x in arguments]
    inputs = [x for x in tracked if _is_floating(x)]

    def outputs() -> tuple[Tensor, ...]:
        made = function(*tracked, **keywords)
        return made if isinstance(made, tuple) else (made,)

    upstream = [torch.ones_like(output) for output in outputs()]
    return {
        "no grad": lambda: function(*arguments, **keywords),
        "forward": lambda: function(*tracked, **keywords),
        "forward + backward": lambda: torch.autograd.grad(outputs(), inputs, upstream),
    }


def ratio(ours: Call, theirs: Call) -> dict[str, float]:
    """Return the time of ``ours`` divided by that of ``theirs``, and both in microseconds."""
    number = max(1, int(_READING_S / max(_reading(theirs, 200), 1e-7)))
    pairs = []
    for turn in range(_READINGS):
        order = (ours, theirs) if turn % 2 else (theirs, ours)
        first, second = (_reading(call, number) for call in order)
        pairs.append((first, second) if turn % 2 else (second, first))
    return {
        "ratio": statistics.median(mine / other for mine, other in pairs),
        "graduated_us": statistics.median(mine for mine, _ in pairs) * 1e6,
        "port_us": statistics.median(other for _, other in pairs) * 1e6,
    }


def _reading(call: Call, number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    return (time.perf_counter() - start) / number


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path, help="of ops of this repository")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    arguments = parser.parse_args()
    device: Device = "cuda" if torch.cuda.is_available() else "cpu"
    package = arguments.wheel.name.partition("-")[0]
    root = Path(__file__).resolve().parents[1]
    workspace = Workspace.at(root)
    beyond_torch = import_ms(arguments.wheel, package)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(arguments.wheel).extractall(folder)
        sys.path.insert(0, folder)
        graduated = importlib.import_module(package)
        recorded = importlib.import_module(f"{package}.tests.calls")
        of_ops = recorded.read()
        for op, cases in of_ops.items():
            # A small call of the op's own tests: its host time is all that it takes.
            args, kwargs = recorded.call_of(cases["smooth"][-1]).arguments(device)
            args = [x.float() if _is_floating(x) else x for x in args]
            ours = calls(getattr(graduated, op), args, kwargs)
            theirs = calls(trifold.load(op, workspace=workspace), args, kwargs)
            rows += [{"op": op, "call": name, **ratio(ours[name], theirs[name])} for name in ours]
    worst = max(row["ratio"] for row in rows)
    about = record_sources.of_ops(workspace, tuple(of_ops), device, prototypes=False)
    results = {
        "environment": environment(root, torch.device(device)) | {"sources": about},
        "wheel": arguments.wheel.name,
        "import_ms": beyond_torch,
        "import_limit_ms": IMPORT_LIMIT_MS,
        "call_ratio": worst,
        "call_limit": CALL_LIMIT,
        "calls": rows,
    }
    print(f"import: {beyond_torch:.1f} ms beyond torch (limit {IMPORT_LIMIT_MS:g})")
    for row in rows:
        print(
            f"{row['op']}, {row['call']}: {row['graduated_us']:.2f} µs, JIT {row['port_us']:.2f} µs, {row['ratio']:.3f}"
        )
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0 if beyond_torch <= IMPORT_LIMIT_MS and worst <= CALL_LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
