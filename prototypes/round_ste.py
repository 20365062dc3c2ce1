"""round_ste: the reference, and the prototype of cuda_src/round_ste.cuh."""

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import THREADS_PER_BLOCK, check_floating, elementwise_output, flat, launch, output

MAX_BLOCKS = 2**16  # the grid-stride loop covers what a grid of this size does not


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x > 0.5).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad


def reference(x: Tensor) -> Tensor:
    return _StraightThrough.apply(x)


@cuda.jit
def round_ste_kernel(x, y, n):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < n:
        y[i] = 1 if x[i] > 0.5 else 0
        i += step


def round_ste(x: Tensor) -> Tensor:
    check_floating("round_ste", x=x)
    y = elementwise_output(x)
    blocks = min(-(-y.numel() // THREADS_PER_BLOCK), MAX_BLOCKS)
    launch(round_ste_kernel, blocks, flat(x, y), output(flat(y)), y.numel())
    return y
