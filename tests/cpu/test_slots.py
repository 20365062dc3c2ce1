"""Blocks that wait for each other have separate memory: as a debugger sees it, and where that is impossible."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from trifold import installed
from trifold.build import sources, text, toolchain

WAITING = Path(__file__).with_name("programs") / "waiting.cu"


@pytest.mark.skipif(shutil.which("gdb") is None, reason="needs gdb: apt-get install gdb")
def test_gdb_prints_the_running_blocks_own_variables() -> None:
    program = text.build_program(WAITING, (), "9.0").path
    line = next(i for i, each in enumerate(WAITING.read_text().splitlines(), 1) if "// after the wait" in each)
    stop = ("set breakpoint pending on", "set debuginfod enabled off", f"break waiting.cu:{line} if threadIdx.x == 2")
    shown = ("p blockIdx.x", "p threadIdx.x", "p before")
    commands = (*stop, "run", *(each for _ in range(3) for each in (*shown, "continue")))
    arguments = [word for command in commands for word in ("-ex", command)]
    done = subprocess.run(["gdb", "-q", "-batch", *arguments, program], capture_output=True, text=True, timeout=120)
    values = [int(value) for value in re.findall(r"^\$\d+ = (-?\d+)", done.stdout, re.MULTILINE)]
    # The last block has the first tile, and ends first: the program's x is 0, 1, … 6, 0, …
    expected = [[5 - tile, 2, sum(i % 7 for i in range(64 * tile))] for tile in range(3)]
    assert [values[i : i + 3] for i in range(0, 9, 3)] == expected, done.stdout + done.stderr


def test_an_executable_whose_blocks_wait_for_each_other_is_refused_in_words(tmp_path: Path) -> None:
    """The linker placed its thread storage. Kernels that wait for no other block run there."""
    source, program = tmp_path / "fixed.cpp", tmp_path / "fixed"
    source.write_text("""
#include <trifold/launch.cuh>
#include <cstdio>

__global__ void kernel(int* flags, bool waits) {
  __syncthreads();
  if (waits && threadIdx.x == 0 && blockIdx.x == 0)
    while (atomicAdd(&flags[1], 0) == 0) {
    }
  if (threadIdx.x == 0) atomicExch(&flags[blockIdx.x], 1);
}

int main() {
  int flags[2] = {};
  try {
    trifold::launch<kernel>({}, 2, 32, 0, static_cast<int*>(flags), false);
    std::printf("%d %d\\n", flags[0], flags[1]);
    flags[0] = flags[1] = 0;
    trifold::launch<kernel>({}, 2, 32, 0, static_cast<int*>(flags), true);
  } catch (const std::exception& error) {
    std::printf("%s\\n", error.what());
  }
}
""")
    library = installed.cpu_library()
    link = [str(library), f"-Wl,-rpath,{library.parent}"]
    compiler = [str(toolchain.find_gxx()), "-std=c++20", "-O0", f"-I{sources.INCLUDE_ROOT}"]
    subprocess.run([*compiler, str(source), *link, "-o", str(program)], check=True)
    printed = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=True).stdout
    first, second = printed.splitlines()
    assert first == "1 1"
    assert second.startswith("kernel kernel: blocks wait for other blocks, and cannot each have shared memory here,")
    assert "its code was linked for one place of its thread storage; run it as a port" in second
