"""The simulator's speed with all checks on, against Numba's own simulator in the same run.

    python benchmarks/simulator.py [--compiled] [--json FILE]

Prints targets and measurements; exits with 1 if a target is missed. Takes about a minute, most of it in Numba's
simulator. Each simulator runs in its own process. A time is the median of several launches; for ours without the first
one, which rewrites the kernel. Run it on an idle machine: other load lengthens our times, which are short, more than
those of Numba's many threads.

With ``--compiled`` it compares the compiled simulator with the interpreter instead, with all checks and without; the
build before the first launch is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trifold.bench import asked
from trifold.bench.asked import Figure

ROOT = Path(__file__).resolve().parents[1]
STOCK, NATURAL, SEEDED = "stock", "natural", "seeded"
COMPILED, INTERPRETED = "compiled", "interpreted"
UNCHECKED = {COMPILED: "compiled, unchecked", INTERPRETED: "interpreted, unchecked"}

# Speed relative to Numba's simulator. A shuffle reduction is compared with the one in shared memory that has to be used
# without shuffles.
TIMES_AS_FAST = {
    "reduce 8×128": (500, "reduce 8×128"),
    "reduce 1×1024": (500, "reduce 1×1024"),
    "transpose 32×32": (300, "transpose 32×32"),
    "elementwise 65,536": (300, "elementwise 65,536"),
    "matmul 32³, tile 16": (100, "matmul 32³, tile 16"),
    "shuffles, 4,096": (300, "shared memory, 4,096"),
}
# Speed relative to the interpreter, both with all checks, and both without.
COMPILED_TIMES_AS_FAST = {"elementwise 65,536": (20, 200), "matmul 256³, tile 16": (20, 200)}
SEEDED_RATIO = 2.0
LAUNCH_MICROSECONDS = 30.0
THREADS = (10**5, 10**6, 10**7)
LINEAR = 1.3  # a thread's time at the most threads over its time at the fewest: allows for the machine's noise
FLAT_MEBIBYTES = 16.0  # growth of the peak resident memory from the fewest threads to the most


def figures(times: dict[str, dict[str, float]], growth: dict[str, Any]) -> list[Figure]:
    """Compare milliseconds by simulator and case, and the cost of more threads, with the targets."""
    stock, natural, seeded = times[STOCK], times[NATURAL], times[SEEDED]
    found = [
        Figure(f"{case}: times as fast", asked, stock[against] / natural[case], "×", at_least=True)
        for case, (asked, against) in TIMES_AS_FAST.items()
    ]
    found += [
        Figure(f"{case}: seeded order", SEEDED_RATIO, seeded[case] / natural[case], "×") for case in TIMES_AS_FAST
    ]
    found.append(Figure("launch", LAUNCH_MICROSECONDS, growth["launch_us"], "µs"))
    for kernel, nanoseconds in growth["ns_a_thread"].items():
        ratio = nanoseconds[-1] / nanoseconds[0]
        found.append(Figure(f"{kernel}: a thread of {THREADS[-1]:,} over one of {THREADS[0]:,}", LINEAR, ratio, "×"))
    for kernel, mebibytes in growth["grown_mib"].items():
        found.append(Figure(f"{kernel}: memory grown to {THREADS[-1]:,} threads", FLAT_MEBIBYTES, mebibytes, "MiB"))
    return found


def compiled_figures(times: dict[str, dict[str, float]]) -> list[Figure]:
    """Compare the milliseconds of the compiled simulator, by simulator and case, with the targets."""
    found = []
    for case, (checked, unchecked) in COMPILED_TIMES_AS_FAST.items():
        pairs = (
            ("all checks", checked, INTERPRETED, COMPILED),
            ("no checks", unchecked, UNCHECKED[INTERPRETED], UNCHECKED[COMPILED]),
        )
        for name, wanted, slow, fast in pairs:
            ratio = times[slow][case] / times[fast][case]
            found.append(Figure(f"{case}: {name}, times as fast as interpreted", wanted, ratio, "×", at_least=True))
    return found


# ------------------------------------------------------------------------------------------------ in a child process


def _install(simulator: str) -> None:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    if simulator == STOCK:
        return
    import trifold.simulator

    trifold.simulator.install(
        checks="none" if simulator in UNCHECKED.values() else "all",
        seed=1 if simulator == SEEDED else 0,
        compiled=simulator in (COMPILED, UNCHECKED[COMPILED]),
    )


def _time_cases(simulator: str) -> dict[str, float]:
    """Milliseconds of each case."""
    from benchmarks.simulator_kernels import cases, large_cases

    typical = {}
    for case in cases() if simulator in (STOCK, NATURAL, SEEDED) else large_cases():
        if simulator == STOCK and not case.in_stock:
            continue
        if simulator == STOCK:
            typical[case.name] = 1e3 * _typical(case.launch, seconds=2, warm=False)
        else:
            typical[case.name] = 1e3 * _typical(case.launch, seconds=1)
        if not case.right():
            sys.exit(f"{case.name}: {simulator} gives a wrong result")
    return typical


def _typical(launch: Callable[[], None], *, seconds: float, warm: bool = True) -> float:
    """Return the median time of the launches that begin within this many seconds; at least one."""
    if warm:
        launch()
    end = time.perf_counter() + seconds
    times: list[float] = []
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        launch()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _measure_growth() -> dict[str, Any]:
    """Measure an empty launch, and a thread's time and the process's memory as threads grow."""
    import numpy as np

    from benchmarks.simulator_kernels import few_elements, few_elements_and_a_barrier, nothing

    x, y, z = (np.ones(4096, np.float32) for _ in range(3))
    found: dict[str, Any] = {"launch_us": 1e6 * _typical(lambda: nothing[1, 1](x, y, z), seconds=0.5)}
    found["ns_a_thread"], found["grown_mib"] = {}, {}
    for kernel in (few_elements, few_elements_and_a_barrier):
        nanoseconds, peaks = [], []
        for threads in THREADS:
            configured = kernel[-(-threads // 256), 256]
            taken = _typical(lambda configured=configured: configured(x, y), seconds=1, warm=threads == THREADS[0])  # type: ignore[misc]
            nanoseconds.append(1e9 * taken / threads)
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        name = "barrier" if kernel is few_elements_and_a_barrier else "no barrier"
        found["ns_a_thread"][name], found["grown_mib"][name] = nanoseconds, peaks[-1] - peaks[0]
    return found


def _child(measurement: str) -> None:
    simulator = NATURAL if measurement == "growth" else measurement
    _install(simulator)
    json.dump(_measure_growth() if measurement == "growth" else _time_cases(simulator), sys.stdout)


# ------------------------------------------------------------------------------------------------ in the parent


def _run_child(measurement: str) -> Any:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    child = subprocess.run(
        [sys.executable, __file__, "--child", measurement],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    if child.returncode != 0:
        sys.exit(f"the measurement '{measurement}' failed with exit status {child.returncode}")
    return json.loads(child.stdout)


def _environment() -> dict[str, Any]:
    import torch

    from benchmarks.records import sources
    from trifold.machine.environment import environment

    return environment(ROOT, torch.device("cpu")) | {"sources": sources("simulator/cpu.json")}


def _table(times: dict[str, dict[str, float]], growth: dict[str, Any], found: list[Figure]) -> str:
    from trifold.bench.table import align

    rows: list[tuple[str, ...]] = [("milliseconds", "", "Numba's", "ours", "ours, seeded")]
    for case in times[NATURAL]:
        numbers = (times[simulator].get(case) for simulator in (STOCK, NATURAL, SEEDED))
        rows.append((case, "", *("-" if ms is None else f"{ms:,.3f}" for ms in numbers)))
    threads: list[tuple[str, ...]] = [("ns a thread", "", *(f"{n:,}" for n in THREADS))]
    threads += [(name, "", *(f"{ns:,.0f}" for ns in values)) for name, values in growth["ns_a_thread"].items()]
    return "\n\n".join([*(align(part) for part in (rows, threads)), asked.verdicts(found)])


def _compare_compiled(path: Path | None) -> int:
    from trifold.bench.table import align

    simulators = [INTERPRETED, COMPILED, *UNCHECKED.values()]
    times = {simulator: _run_child(simulator) for simulator in simulators}
    found = compiled_figures(times)
    rows: list[tuple[str, ...]] = [("milliseconds", "", *simulators)]
    rows += [
        (case, "", *(f"{times[simulator][case]:,.3f}" for simulator in simulators)) for case in COMPILED_TIMES_AS_FAST
    ]
    print(align(rows), asked.verdicts(found), sep="\n\n")
    if path is not None:
        asked.write(path, found, environment=_environment(), milliseconds=times)
    return 0 if all(figure.met for figure in found) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements there")
    parser.add_argument("--compiled", action="store_true", help="measure the compiled simulator instead")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _child(arguments.child)
        return 0
    if arguments.compiled:
        return _compare_compiled(arguments.json)
    times = {simulator: _run_child(simulator) for simulator in (NATURAL, SEEDED, STOCK)}
    growth = _run_child("growth")
    found = figures(times, growth)
    print(_table(times, growth, found))
    if arguments.json:
        asked.write(arguments.json, found, environment=_environment(), milliseconds=times, growth=growth)
    return 0 if all(figure.met for figure in found) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # for benchmarks.records
    sys.exit(main())
