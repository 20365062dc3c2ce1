"""binary16 where the compiler has none (g++ 11): its conversions in integers are those of newer compilers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trifold.build import sources, toolchain

CASES = Path(__file__).with_name("half_cases.cpp")


def test_conversions_in_integers_are_the_compilers(tmp_path: Path) -> None:
    program = tmp_path / "half"
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{sources.INCLUDE_ROOT}"]
    subprocess.run([toolchain.find_gxx(), *flags, CASES, "-o", program], check=True)
    ran = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
    if ran.returncode == 2:
        pytest.skip("this compiler has no half of its own to compare with")
    assert ran.returncode == 0, ran.stdout
