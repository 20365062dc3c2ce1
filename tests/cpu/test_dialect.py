"""CUDA's functions in the dialect for the CPU: exact where CUDA's are, otherwise within two last places."""

from __future__ import annotations

import itertools
import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.cpu.dialect_rows import Row, rows
from tests.cpu.workspace import op_of
from trifold.build.sources import INCLUDE_ROOT
from trifold.implementation import load_port

ROWS = rows()


def triples(*values: float) -> list[tuple[float, float, float]]:
    """All pairs of the values, with a third one that differs from pair to pair."""
    third = itertools.cycle(values)
    return [(a, b, next(third)) for a in values for b in values for _ in range(1)]


# Ties, neighbours of powers of two, subnormal numbers of each format, and the ends of the integers.
INPUTS = {
    "one": [(1.0, 1.0, 1.0)],
    "reals": triples(
        0.0, 1.0, -1.0, 0.1, -0.3, 2.5, -3.5, 1 + 2**-24, 65519.999, 2.0**31, -(2.0**63), 1e-40, 3e38, -7.0e-46, 2**-25
    ),
    "small": triples(
        0.0,
        1.0,
        -1.0,
        0.1,
        -0.3,
        2.5,
        -3.5,
        1 + 2**-10,
        2048.0,
        65504.0,
        -60000.0,
        6e-8,
        2**-14,
        -3e-5,
        1 + 2**-7,
        1e-39,
    ),
    "words": triples(0, 1, 5, 0x80000000, 0xFFFFFFFF, 0x12345678, 0x00FF00FF, 0x7FFFFFFF, 0x89ABCDEF, 0x1000001),
    "integers": triples(0, 1, -1, 7, -(2**31), 2**31 - 1, 16777217, -16777219, 123456789, -987654321),
    "positive": triples(1.0, 2.0, 0.3, 10.0, 1e-20, 3e18, 1234.5678, 1e-3),
    "angles": triples(0.0, 0.25, -0.5, 1.0, 2.5, -3.3, 7.125, 1e-5, 10.75),
    "fractions": triples(0.5, 0.1, 0.9, 0.25, 0.75, 1e-4, 0.999, 0.3333),
}


def kernel_source() -> str:
    """One kernel with a case for each row."""
    cases = "\n".join(f"    case {i}: return {row.expression};" for i, row in enumerate(ROWS))
    return f"""#pragma once
#include <trifold/cuda.cuh>
#include <math_constants.h>

__device__ double apply(int which, double a, double b, double c) {{
  switch (which) {{
{cases}
  }}
  return 0;
}}

__global__ void dialect_kernel(const double* x, double* y, int which) {{
  const int i = 3 * blockIdx.x;
  y[i] = y[i + 1] = y[i + 2] = apply(which, x[i], x[i + 1], x[i + 2]);
}}
"""


@pytest.fixture(scope="module")
def dialect(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Tensor, int], Tensor]:
    return load_port(op_of("dialect", tmp_path_factory.mktemp("workspace"), cuh=kernel_source())).function


def off_by(row: Row, got: float, expected: float) -> float:
    """The error in last places of the expected number."""
    if got == expected or (math.isnan(got) and math.isnan(expected)):
        return 0
    if not (math.isfinite(got) and math.isfinite(expected)):
        return math.inf
    place = float(np.spacing(np.float32(abs(expected)))) if row.single else math.ulp(expected)
    return abs(got - expected) / place


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[str(row) for row in ROWS])
def test_a_function_is_cudas(number: int, dialect: Callable[[Tensor, int], Tensor]) -> None:
    row, inputs = ROWS[number], INPUTS[ROWS[number].inputs]
    results = dialect(torch.tensor(inputs, dtype=torch.float64), number)[:, 0].tolist()
    compared = [(at, got, row.reference(*at)) for at, got in zip(inputs, results, strict=True)]
    known = [(at, got, expected) for at, got, expected in compared if expected is not None]
    assert len(known) >= min(len(inputs), 4)
    wrong = [(at, got, expected) for at, got, expected in known if off_by(row, got, expected) > row.ulp]
    assert wrong == []


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_nvcc_compiles_the_same_functions(tmp_path: Path) -> None:
    source = tmp_path / "dialect.cu"
    source.write_text(kernel_source())
    command = ["nvcc", "-std=c++20", "-arch=sm_90", f"-I{INCLUDE_ROOT}", "-c", str(source), "-o", f"{source}.o"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
