"""Fibers without a kernel, by assembly and by ucontext: builds and runs fiber_cases.cpp for each."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trifold.build import toolchain

CASES = Path(__file__).with_name("fiber_cases.cpp")
FIBER = Path(__file__).parents[2] / "trifold" / "engine" / "cpu" / "fiber.cpp"


@pytest.mark.parametrize("definitions", [(), ("-DTRIFOLD_UCONTEXT",)], ids=["assembly", "ucontext"])
def test_fibers(definitions: tuple[str, ...], tmp_path: Path) -> None:
    program = tmp_path / "fibers"
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", *definitions]
    subprocess.run([toolchain.find_gxx(), *flags, CASES, FIBER, "-o", program], check=True)
    ran = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stdout
