"""A launch function of kernels with explicit signatures; see test_signatures.py."""

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import launch, output


def reference(x: Tensor, scale: float, count: int) -> Tensor:
    return (x * scale).contiguous()


@cuda.jit("float32(float32, int32)", device=True)
def divided(v, by):
    return v / by


@cuda.jit(["void(float32[:], float32[:], float32, int32)", "void(float64[:], float64[:], float64, int32)"])
def divide_kernel(x, y, scale, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = divided(x[i] * scale, 3)


def typed(x: Tensor, scale: float, count: int) -> Tensor:
    if x.dtype not in (torch.float32, torch.float64) or x.dim() != 1:
        raise TypeError("typed: x must be float32 or float64, of one dimension")
    y = x.new_zeros(x.shape[0])
    launch(divide_kernel, (count + 63) // 64, x.contiguous(), output(y), scale, count, block=64)
    return y
