"""C++ kernels on the CPU: the cost of a thread, a barrier, a checked access, a build and a cached load.

    python benchmarks/cpu.py [--json FILE]

Prints targets and measurements; exits with 1 if a target is missed. Takes about a minute, most of it in g++. The
program that measures the kernels runs several times and the best counts, since other work on the machine only lengthens
a time; times are CPU times, except those of two cores and of loads. The machine's load before and after is in the JSON.
Builds and loads are those of the largest op, normal_sample, in a separate cache.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trifold.bench import asked
from trifold.bench.asked import Figure

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(__file__).with_suffix(".cpp")
RUNS = 5
OP = "normal_sample"

Measured = dict[str, float]


def figures(unchecked: Measured, checked: Measured, build: Measured, cluster: float, copy: float) -> list[Figure]:
    """Compare the measurements with the targets."""
    return [
        Figure("a thread's barrier, 128 threads", 10, unchecked["barrier 128"], "ns"),
        Figure("a thread's barrier, 1024 threads", 20, unchecked["barrier 1024"], "ns"),
        Figure("a thread's barrier of a cluster, 4 × 128 threads: times a block's", 2, cluster, "×"),
        Figure("a thread of an elementwise kernel, one core", 1.5, unchecked["elementwise"], "ns"),
        Figure("two cores: times as fast", 1.7, unchecked["two cores"], "×", at_least=True),
        Figure("an access with checks", 50, checked["access"], "ns"),
        Figure("a cp.async of 16 bytes with checks: times a load and a store", 5, copy, "×"),
        Figure("shadow of a byte, floats", 40, checked["shadow of floats"], "bytes"),
        Figure("shadow of a byte, bytes", 40, checked["shadow of bytes"], "bytes"),
        Figure("grown over 1000 launches", 64, unchecked["growth"], "KiB"),
        Figure("grown over 1000 launches with checks", 64, checked["growth"], "KiB"),
        Figure("build", 5, build["build"], "s"),
        Figure("build with checks", 8, build["build with checks"], "s"),
        Figure("cached load", 0.2, build["cached load"], "s"),
        Figure("cached load with checks", 0.2, build["cached load with checks"], "s"),
    ]


def measure_kernels(flags: tuple[str, ...], folder: Path) -> Measured:
    """Return the best of the program's figures in several runs when it is compiled with these flags."""
    from trifold import installed
    from trifold.build import sources, toolchain

    library, program = installed.cpu_library(), folder / "cpu"
    compiler = str(toolchain.find_gxx())
    compilation = [compiler, "-std=c++20", *flags, f"-I{sources.INCLUDE_ROOT}", "-c", str(SOURCE)]
    subprocess.run([*compilation, "-o", f"{program}.o"], check=True)
    # Link without -fsanitize, which would add libtsan.
    link = [compiler, f"{program}.o", str(library), f"-Wl,-rpath,{library.parent}", "-pthread"]
    subprocess.run([*link, "-o", str(program)], check=True)
    best: Measured = {}
    for _ in range(RUNS):
        printed = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
        for name, number in (line.split("\t") for line in printed.splitlines()):
            choose: Callable[..., float] = max if name == "two cores" else min
            best[name] = choose(best.get(name, float(number)), float(number))
    return best


BARRIERS = """
#include <cooperative_groups.h>
__global__ void __cluster_dims__(4) of_block(int count) { for (int i = 0; i < count; ++i) __syncthreads(); }
__global__ void __cluster_dims__(4) of_cluster(int count) {
  for (int i = 0; i < count; ++i) cooperative_groups::this_cluster().sync();
}
"""


def measure_cluster_barrier() -> float:
    """Return the cost of a barrier of a cluster, relative to one of a block in the same launch.

    A raw kernel, since blocks that wait for each other need a shared library."""
    from trifold.cpu import RawKernel

    def fastest(name: str) -> float:
        kernel, times = RawKernel(BARRIERS, name, checks=False), []
        for _ in range(15):
            start = time.thread_time()
            kernel(4, 128, (1000,))
            times.append(time.thread_time() - start)
        return min(times)

    return fastest("of_cluster") / fastest("of_block")


COPIES = """
#include <cuda_pipeline.h>
constexpr int pieces = 64;
__global__ void by_thread(const float4* x, float* y, int count) {
  __shared__ float4 tile[pieces][32];
  for (int i = 0; i < count; ++i) {
    for (int piece = 0; piece < pieces; ++piece) tile[piece][threadIdx.x] = x[32 * piece + threadIdx.x];
    __syncthreads();
  }
  y[threadIdx.x] = tile[0][threadIdx.x].x;
}
__global__ void by_copy(const float4* x, float* y, int count) {
  __shared__ float4 tile[pieces][32];
  for (int i = 0; i < count; ++i) {
    for (int piece = 0; piece < pieces; ++piece)
      __pipeline_memcpy_async(&tile[piece][threadIdx.x], x + 32 * piece + threadIdx.x, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
  }
  y[threadIdx.x] = tile[0][threadIdx.x].x;
}
"""


def measure_copy() -> float:
    """Return the cost of a cp.async of 16 bytes and its wait, with checks, relative to a load and store of as much."""
    import numpy as np

    from trifold.cpu import RawKernel

    x, y = np.ones(64 * 32 * 4, np.float32), np.zeros(32, np.float32)

    def fastest(name: str) -> float:
        kernel, times = RawKernel(COPIES, name), []
        for _ in range(15):
            start = time.thread_time()
            kernel(1, 32, (x, y, 20))
            times.append(time.thread_time() - start)
        return min(times)

    return fastest("by_copy") / fastest("by_thread")


def measure_build() -> Measured:
    """Return the seconds of a first build, and of a load in a process that finds the library in the cache."""
    found: Measured = {}
    with tempfile.TemporaryDirectory() as cache:
        for suffix in ("", " with checks"):
            found[f"build{suffix}"] = _run_child("build", suffix, cache)
            found[f"cached load{suffix}"] = min(_run_child("load", suffix, cache) for _ in range(3))
    return found


def _run_child(step: str, suffix: str, cache: str) -> float:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    child = subprocess.run(
        [sys.executable, __file__, "--child", step + suffix],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "TRIFOLD_CACHE_DIR": cache},
        check=True,
    )
    return float(child.stdout)


def _child(step: str) -> None:
    """Build the op, or load it if it is cached; print the seconds. torch is imported before.

    For a build these are CPU seconds, of this process and the compilers, which run one after the other.
    """
    import torch  # noqa: F401

    from trifold.build import build
    from trifold.workspace import Workspace

    files = Workspace.at(ROOT).op(OP)
    clock = time.perf_counter if step.startswith("load") else _processor_seconds
    start = clock()
    library = build(files, "cpu", "trifold_benchmark", form="checked" if step.endswith("with checks") else "fast")
    if step.startswith("load"):
        library.load()
    print(clock() - start)


def _processor_seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _environment(load_before: tuple[float, float, float]) -> dict[str, Any]:
    import torch

    from benchmarks.records import sources
    from trifold.build import toolchain
    from trifold.machine.environment import environment

    gxx = toolchain.dotted(toolchain.gxx_version(toolchain.find_gxx()))
    load = {"before": load_before, "after": os.getloadavg()}
    return {**environment(ROOT, torch.device("cpu")), "sources": sources("cpu/cpu.json"), "gxx": gxx, "load": load}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements there")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _child(arguments.child)
        return 0
    from trifold.build import recipe

    load = os.getloadavg()
    with tempfile.TemporaryDirectory() as folder:
        unchecked = measure_kernels(recipe.GXX_FLAGS, Path(folder))
        checked = measure_kernels(recipe.CHECKED_FLAGS, Path(folder))
    found = figures(unchecked, checked, measure_build(), measure_cluster_barrier(), measure_copy())
    print(asked.verdicts(found))
    if arguments.json:
        asked.write(arguments.json, found, environment=_environment(load))
    return 0 if all(figure.met for figure in found) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # for benchmarks.records
    sys.exit(main())
