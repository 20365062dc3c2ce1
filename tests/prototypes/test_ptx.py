"""Prototypes of the row ops compile for a GPU, where they compute in the types in which the port does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.prototypes.test_signatures import ROW_OPS, prototype_kernels

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not any(Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")).glob("**/libnvvm.so*")),
    reason="Numba compiles with NVVM, of the CUDA toolkit",
)


@pytest.fixture(scope="module")
def ptx() -> dict[str, dict[str, str]]:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    command = [sys.executable, "-m", "tests.prototypes.ptx", *ROW_OPS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("op", ROW_OPS)
def test_every_kernel_compiles(ptx: dict[str, dict[str, str]], op: str) -> None:
    assert prototype_kernels(ROOT / "prototypes" / f"{op}.py").keys() <= ptx[op].keys()


@pytest.mark.parametrize("op", ROW_OPS)
def test_float32_is_computed_in_float32(ptx: dict[str, dict[str, str]], op: str) -> None:
    """A literal of Python is a float64, and one in a sum makes the sum one, which the port's is not."""
    for name, text in ptx[op].items():
        in_float64 = re.findall(
            r"^\s*(?:@\S+ )?((?:add|sub|mul|fma|div|sqrt|max|min|neg)\S*\.f64)\s", text, re.MULTILINE
        )
        assert in_float64 == [], name


@pytest.mark.parametrize("op", ROW_OPS)
def test_a_row_in_registers_is_not_in_local_memory(ptx: dict[str, dict[str, str]], op: str) -> None:
    (text,) = [text for name, text in ptx[op].items() if name == f"{op}_rows_kernel"]
    assert not re.search(r"\b(ld|st)\.local", text), "loops over a thread's elements are unrolled"
