"""Kernels in C++ on one core of the CPU: nanoseconds for a thread's barrier, an elementwise thread, a checked access.

python benchmarks/host.py
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from trifold.build import recipe, sources, toolchain
from trifold.host import runtime

SOURCE = Path(__file__).with_suffix(".cpp")


def measure(flags: tuple[str, ...], folder: Path) -> str:
    """What the benchmark prints when it is compiled with these flags."""
    library, program = runtime.library_path(), folder / "host"
    command = [str(toolchain.find_gxx()), "-std=c++20", *flags, f"-I{sources.INCLUDE_ROOT}", "-c", str(SOURCE)]
    subprocess.run([*command, "-o", f"{program}.o"], check=True)
    # Without -fsanitize at the link, so that libtsan stays out.
    link = [str(toolchain.find_gxx()), f"{program}.o", str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run([*link, "-o", str(program)], check=True)
    return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for flags in (recipe.GXX_FLAGS, recipe.CHECKED_FLAGS):
            for line in measure(flags, Path(folder)).splitlines():
                name, nanoseconds = line.split("\t")
                print(f"{name:36} {float(nanoseconds):7.2f} ns")


if __name__ == "__main__":
    main()
