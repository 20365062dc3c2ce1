"""Launching a prototype's kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from numba import cuda

from trifold.prototype import launch, output


@cuda.jit  # type: ignore[untyped-decorator]
def gather_kernel(x: Any, index: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[index[i]]


def test_tensors_on_several_devices_are_refused_by_name() -> None:
    x, index = torch.ones(3), torch.zeros(3, dtype=torch.int64)
    with pytest.raises(
        RuntimeError, match=r"gather_kernel: x and index must be .* but x is on cpu and index is on meta"
    ):
        launch(gather_kernel, 1, x, index.to("meta"), output(torch.empty(3)))
