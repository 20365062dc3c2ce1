"""swiglu: the reference, and the prototype of cuda_src/swiglu.cuh."""

import math

import numpy as np
import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import check_alike, elementwise_output, flat, launch_elementwise, output


def reference(gate: Tensor, up: Tensor) -> Tensor:
    return torch.nn.functional.silu(gate) * up


# Numba's 1 + g is float64 for g in float32: an int64 and a float32 are added in float64.
ONE = np.float32(1)


@cuda.jit
def swiglu_kernel(gate, up, out, n):
    i = cuda.grid(1)
    if i < n:
        g = gate[i]
        out[i] = g / (ONE + math.exp(-g)) * up[i]  # exp may overflow to inf: the quotient is then 0


@cuda.jit
def swiglu_backward_kernel(grad, gate, up, grad_gate, grad_up, n):
    i = cuda.grid(1)
    if i < n:
        g = gate[i]
        s = ONE / (ONE + math.exp(-g))
        grad_gate[i] = grad[i] * up[i] * (s * (ONE + g * (ONE - s)))
        grad_up[i] = grad[i] * (g * s)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    check_alike("swiglu", gate=gate, up=up)
    out = elementwise_output(gate)  # as torch's silu(gate) * up
    launch_elementwise(swiglu_kernel, out.numel(), flat(gate, out), flat(up, out), output(flat(out)), out.numel())
    return out


def swiglu_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    check_alike("swiglu_backward", gate=gate, up=up, grad=grad)
    grad_gate, grad_up = elementwise_output(gate, up), elementwise_output(gate, up)
    operands = flat(grad, grad_gate), flat(gate, grad_gate), flat(up, grad_gate)
    n = gate.numel()
    launch_elementwise(swiglu_backward_kernel, n, *operands, output(flat(grad_gate)), output(flat(grad_up)), n)
    return grad_gate, grad_up
