"""Kernels of the catalogue without a mistake: the CPU's results are those of a GPU."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import pytest
import torch

from tests.cpu.catalogue.checked import op_in
from tests.cpu.catalogue.gpu import GpuKernel, build
from tests.cpu.catalogue.launcher import CpuKernel, Start
from tests.cpu.catalogue.twins import Twin
from tests.cpu.test_catalogue import RIGHT, assert_same_numbers
from trifold.implementation import load_port

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc here"),
]


# Results that depend on the order of blocks or warps: every result that NumPy accepts is right.
ANY_ORDER = ("collect_four", "compact_by_ballot", "ticket_lock")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """The catalogue without checks."""
    function: Start = load_port(op_in(tmp_path_factory.mktemp("catalogue"))).function
    return function


@pytest.fixture(scope="module")
def on_gpu(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(Path(tmp_path_factory.mktemp("gpu")))


@pytest.mark.parametrize("twin", RIGHT, ids=str)
def test_the_cpu_computes_what_the_gpu_does(twin: Twin, start: Start, on_gpu: ctypes.CDLL) -> None:
    """Bit for bit in integers, within 2 ulp in floating point; both equal NumPy's result, too."""
    gpu, cpu = GpuKernel(on_gpu, twin.qualified, twin.more), CpuKernel(start, twin.qualified, twin.more)
    twin.case.run(gpu)
    twin.case.run(cpu)
    if twin.case.name in ANY_ORDER:
        return
    for ours, theirs in zip(cpu.results, gpu.results, strict=True):
        assert_same_numbers(ours, theirs)
