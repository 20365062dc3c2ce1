"""Kernels whose source cannot be read or rewritten: they run unchanged, each CUDA thread on a separate stack."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numba import cuda, int32

from trifold import KernelFault, KernelWarning


def executed(source, **names):
    """A function from text that is in no file."""
    namespace = {"cuda": cuda, "int32": int32, **names}
    exec(source, namespace)
    return namespace["f"]


SUM = """
def f(x, out):
    tile = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    n = 4
    while n:
        if t < n:
            tile[t] += tile[t + n]
        cuda.syncthreads()
        n //= 2
    if t == 0:
        out[0] = tile[0] + cuda.syncthreads_count(1) if False else tile[0]
"""


def test_barriers_in_executed_source():
    out = np.zeros(1)
    kernel = cuda.jit(executed(SUM))
    with pytest.warns(KernelWarning, match="source is missing: f: it was made from text that is in no file") as issued:
        kernel[1, 8](np.arange(8), out)
    assert len(issued) == 1
    assert issued[0].filename == __file__
    assert out[0] == 28
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel[1, 8](np.arange(8), out)  # said once


@pytest.mark.filterwarnings("ignore::trifold.KernelWarning")
class TestExecuted:
    def test_warp_operations(self):
        kernel = cuda.jit(executed("def f(out):\n    out[cuda.laneid] = cuda.shfl_xor_sync(-1, cuda.threadIdx.x, 1)"))
        out = np.zeros(32)
        kernel[1, 32](out)
        assert out[:4].tolist() == [1, 0, 3, 2]

    def test_checks_hold_there_too(self):
        kernel = cuda.jit(executed("def f(out):\n    out[0] = cuda.threadIdx.x"))
        with pytest.raises(KernelFault, match="race"):
            kernel[1, 2](np.zeros(1))
        with pytest.raises(IndexError):
            kernel[1, 2](np.zeros(0))

    def test_a_helper_without_source_in_a_kernel_with_source(self):
        helper = cuda.jit(executed("def f(tile, t):\n    tile[t] = t\n    cuda.syncthreads()\n    return tile[3 - t]"))

        @cuda.jit
        def kernel(out):
            tile = cuda.shared.array(4, int32)
            out[cuda.threadIdx.x] = helper(tile, cuda.threadIdx.x)

        out = np.zeros(4)
        kernel[1, 4](out)
        assert out.tolist() == [3, 2, 1, 0]

    def test_a_helper_with_source_in_a_kernel_without(self):
        @cuda.jit(device=True)
        def helper(tile, t):
            tile[t] = t
            cuda.syncthreads()
            return tile[3 - t]

        source = "def f(out):\n    tile = cuda.shared.array(4, int32)\n"
        source += "    out[cuda.threadIdx.x] = helper(tile, cuda.threadIdx.x)"
        out = np.zeros(4)
        cuda.jit(executed(source, helper=helper))[1, 4](out)
        assert out.tolist() == [3, 2, 1, 0]

    def test_a_failed_launch_leaves_no_stack_behind(self):
        kernel = cuda.jit(executed("def f(out):\n    cuda.syncthreads()\n    out[cuda.threadIdx.x] = 1"))
        for _ in range(2):
            with pytest.raises(IndexError):
                kernel[1, 8](np.zeros(4))
        kernel[1, 8](np.zeros(8))

    def test_divergence_is_found(self):
        source = (
            "def f():\n    if cuda.threadIdx.x < 2:\n        cuda.syncthreads()\n    else:\n        cuda.syncthreads()"
        )
        with pytest.raises(KernelFault, match="barrier divergence"):
            cuda.jit(executed(source))[1, 4]()

    def test_a_comprehension_that_waits(self):
        @cuda.jit
        def kernel(out):
            out[cuda.laneid] = [cuda.shfl_sync(-1, cuda.threadIdx.x, i) for i in range(3)][2]

        out = np.zeros(32)
        kernel[1, 32](out)
        assert out.tolist() == [2] * 32


def test_a_file_that_changed_since_is_not_trusted(tmp_path):
    path = tmp_path / "changed.py"
    path.write_text("def kernel(out):\n    out[0] = 1\n")
    namespace: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    path.write_text("def kernel(other):\n    other[0] = 2\n")
    out = np.zeros(1)
    with pytest.warns(KernelWarning, match="no longer holds it"):
        cuda.jit(namespace["kernel"])[1, 1](out)
    assert out[0] == 1
