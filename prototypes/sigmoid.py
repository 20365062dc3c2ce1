"""sigmoid: the reference, and the prototype of cuda_src/sigmoid.cuh."""

import math

import numpy as np
import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import check_alike, check_floating, elementwise_output, flat, launch_elementwise, output


def reference(x: Tensor) -> Tensor:
    return torch.sigmoid(x)


# Numba's 1 + e is float64 for e in float32: an int64 and a float32 are added in float64.
ONE = np.float32(1)


@cuda.jit
def sigmoid_kernel(x, y, n):
    i = cuda.grid(1)
    if i < n:
        v = x[i]
        e = math.exp(v if v < 0 else -v)  # at most 1: no branch overflows
        y[i] = (e if v < 0 else ONE) / (ONE + e)


@cuda.jit
def sigmoid_backward_kernel(grad_y, y, grad_x, n):
    i = cuda.grid(1)
    if i < n:
        grad_x[i] = grad_y[i] * ((ONE - y[i]) * y[i])


def sigmoid(x: Tensor) -> Tensor:
    check_floating("sigmoid", x=x)
    y = elementwise_output(x)
    launch_elementwise(sigmoid_kernel, y.numel(), flat(x, y), output(flat(y)), y.numel())
    return y


def sigmoid_backward(grad_y: Tensor, y: Tensor) -> Tensor:
    check_alike("sigmoid_backward", grad_y=grad_y, y=y)
    grad_x = elementwise_output(grad_y, y)
    n = y.numel()
    launch_elementwise(sigmoid_backward_kernel, n, flat(grad_y, grad_x), flat(y, grad_x), output(flat(grad_x)), n)
    return grad_x
