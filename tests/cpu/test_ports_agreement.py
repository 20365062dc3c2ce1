"""The gallery's ports: the CPU's results are those of a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trifold.workspace import Workspace

GALLERY = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow(seconds=40),  # nvcc compiles the op with all its kernels
    # for the CPU's kernels, whose operations are rounded the same in any build
    pytest.mark.usefixtures("quick_builds"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc here"),
]


# Kernels that use a hardware approximation on a GPU, and the C library's function on the CPU.
APPROXIMATE = {
    # lg2.approx and sqrt.approx have an error of 2^-22 (PTX ISA), 4 ulp, and a product and a sum follow.
    ("normal_sample", "float32"): 6,
    # CUDA's log is off by 1 ulp, of which the root leaves half, its sine and cosine by 2; the C library's by 1 each.
    ("normal_sample", "float64"): 6,
    # exp is off by 1 ulp in either library, in opposite directions 2. An ulp of the quotient is up to half as large, in
    # units of the quotient 4, and a rounding in each of the four operations after exp adds half an ulp on either side.
    # For half types it is __expf, whose subnormal results are 0.
    ("swiglu", "float32"): 8,
    ("swiglu", "float64"): 8,
    ("swiglu", "bfloat16"): 8,
}


@pytest.mark.parametrize("op", Workspace.at(GALLERY).ops())
def test_a_port_computes_on_the_cpu_what_it_does_on_a_gpu(op: str, tmp_path: Path) -> None:
    """Within 2 ulp, except for hardware approximations; where summands cancel, in ulp of their size."""
    file = tmp_path / "ports.json"
    command = [sys.executable, "-m", "tests.cpu.both_devices", str(file), op]
    subprocess.run(command, cwd=GALLERY, env=os.environ | {"NVCC_APPEND_FLAGS": "--fmad=false"}, check=True)
    rows = json.loads(file.read_text())["rows"]
    assert sum(row["elements"] for row in rows) > 1000
    apart = [
        f"{row['dtype']} {row['result']}, {row['ulp_of_scale']} ulp:\n{row['call']}"
        for row in rows
        if row["ulp_of_scale"] > APPROXIMATE.get((op, row["dtype"]), 2)
    ]
    assert not apart, "\n".join(apart)
