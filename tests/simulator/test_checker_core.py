"""The checker without Python: builds and runs checker_cases.cpp, which drives it as any front end does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("checker_cases.cpp")
CORE = Path(__file__).parents[2] / "trifold" / "engine" / "core"
SOURCES = sorted(CORE.glob("*.cpp"))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_cases_without_python(tmp_path: Path) -> None:
    program = tmp_path / "cases"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
    whole = tmp_path / "whole.cpp"  # as one file: what takes longest of each is the headers
    whole.write_text("".join(f'#include "{source}"\n' for source in (CASES, *SOURCES)))
    subprocess.run(["g++", *flags, whole, "-o", program], check=True)
    ran = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stdout
