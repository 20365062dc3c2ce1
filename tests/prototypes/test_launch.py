"""Launching a prototype's kernel, in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trifold.implementation import prototype_module
from trifold.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
HALF = [torch.float16, torch.bfloat16]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


@pytest.fixture(scope="module", name="launched")
def _launched() -> Any:
    """``trifold.prototype.launch`` of a kernel that gathers; the arguments are x, index and the result."""
    prototype_module(Workspace.at(ROOT).files("add"), "cpu")  # which switches the simulator on
    from numba import cuda

    from trifold.prototype import launch, output

    @cuda.jit  # type: ignore[untyped-decorator, unused-ignore]
    def gather_kernel(x: Any, index: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[index[i]]

    return lambda x, index, out: launch(gather_kernel, 1, x, index, output(out))


def test_tensors_on_several_devices_are_refused_by_name(launched: Any) -> None:
    x, index = torch.ones(3), torch.zeros(3, dtype=torch.int64)
    with pytest.raises(
        RuntimeError, match=r"gather_kernel: x and index must be .* but x is on cpu and index is on meta"
    ):
        launched(x, index.to("meta"), torch.empty(3))


@pytest.mark.parametrize("dtype", HALF + FLOAT8, ids=str)
def test_a_narrow_result_is_the_float32_one_rounded_as_torch_rounds_it(launched: Any, dtype: torch.dtype) -> None:
    x = torch.linspace(-3, 3, 40)
    found = torch.empty(40, dtype=dtype)
    launched(x, torch.arange(40), found)
    assert torch.equal(found.float(), x.to(dtype).float())


@pytest.mark.parametrize("dtype", HALF + FLOAT8, ids=str)
def test_a_kernel_reads_narrow_numbers_as_float32(launched: Any, dtype: torch.dtype) -> None:
    x = torch.linspace(-3, 3, 40).to(dtype)
    found = torch.empty(40)
    launched(x, torch.arange(40), found)
    assert torch.equal(found, x.float())
