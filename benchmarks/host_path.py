"""Row ops on the CPU: the cost of a call without its kernels, compared with torch's own op.

    python benchmarks/host_path.py [--json FILE]

Kernels on the CPU are simulated, which takes a hundred times as long as the call around them. So they are left out: a
preloaded library replaces the function that runs a kernel's blocks with one that does nothing. The rest is the host
work of a call on a GPU too (Python, dispatcher, autograd, the binding's checks, new tensors), except that launches
there cost more. torch's ops do their work, which is 1 to 4 µs of their time.

Prints targets and measurements; exits with 1 if a target is missed. Takes half a minute.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import trifold
from trifold.bench import asked, interval
from trifold.bench.asked import Figure
from trifold.bench.entrants import Entrant, competitor
from trifold.bench.ops import benchmarks_of
from trifold.bench.peers import Pass
from trifold.bench.rows import EAGER, PORT
from trifold.bench.timing import Failure, Timing, measure
from trifold.build import sources, toolchain
from trifold.machine.environment import environment
from trifold.spec.benchmark import Case
from trifold.workspace import Workspace

ROOT = Path(__file__).resolve().parents[1]
OPS = ("softmax", "layer_norm", "rms_norm", "swiglu", "cross_entropy")
PASSES: tuple[Pass, ...] = ("plain", "forward", "forward + backward")
LIMIT = 1.3  # of forward + backward, times torch's own
SMALL = Case("8 × 256", (8, 256))
SECONDS = 1.0  # of readings, for each op and pass

_NO_KERNELS = """
#include <trifold/cpu.h>
namespace trifold::cpu {
void run_blocks(const Kernel&, Registers, int64_t, int64_t) {}
}  // namespace trifold::cpu
"""


def library_without_kernels(folder: Path) -> Path:
    """Build a library whose kernels do nothing in ``folder``."""
    source, library = folder / "no_kernels.cpp", folder / "no_kernels.so"
    source.write_text(_NO_KERNELS, encoding="utf-8")
    flags = ("-std=c++20", "-O2", "-shared", "-fPIC", f"-I{sources.INCLUDE_ROOT}")
    subprocess.run([str(toolchain.find_gxx()), *flags, str(source), "-o", str(library)], check=True)
    return library


def without_kernels(arguments: list[str]) -> int:
    """Run this program again with ``arguments`` and with kernels that do nothing; return its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        library = library_without_kernels(Path(folder))
        preload = os.pathsep.join(filter(None, (str(library), os.environ.get("LD_PRELOAD"))))
        command = [sys.executable, __file__, "--without-kernels", *arguments]
        return subprocess.run(command, env={**os.environ, "LD_PRELOAD": preload}, check=False).returncode


def times(workspace: Workspace, op: str, which: Pass) -> tuple[Timing, Timing]:
    """torch's own op, and the port."""
    benchmark = benchmarks_of(workspace.op(op))[0]
    inputs = [benchmark.arguments(torch.device("cpu"), torch.float32, SMALL)]
    functions = {EAGER: benchmark.eager, PORT: trifold.load(op, workspace=workspace)}
    contenders = {name: competitor(Entrant(name, one), inputs, which) for name, one in functions.items()}
    results = measure("cpu", contenders, seconds=SECONDS)
    theirs, ours = results[EAGER], results[PORT]
    if isinstance(theirs, Failure) or isinstance(ours, Failure):
        raise SystemExit(f"{op}, {which}: {theirs if isinstance(theirs, Failure) else ours}")
    return theirs, ours


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements there")
    parser.add_argument("--without-kernels", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.without_kernels:
        return without_kernels(sys.argv[1:])
    torch.set_num_threads(1)
    workspace = Workspace.at(ROOT)
    found: list[Figure] = []
    calls = []
    for op in OPS:
        for which in PASSES:
            theirs, ours = times(workspace, op, which)
            over = interval.ratio(ours.readings, theirs.readings)
            calls.append({"op": op, "pass": which, EAGER: theirs.median, PORT: ours.median, "ratio": vars(over)})
            if which == "forward + backward":
                found.append(Figure(f"{op}, {which}: times as long as torch's own", LIMIT, over.value, "×"))
    print(asked.verdicts(found))
    if arguments.json:
        from benchmarks.records import sources as sources_of

        facts = environment(ROOT, torch.device("cpu")) | {"sources": sources_of("host/row-ops.json")}
        asked.write(arguments.json, found, environment=facts, calls=calls)
    return 0 if all(figure.met for figure in found) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # for benchmarks.records
    sys.exit(main())
