"""add: the reference, and the prototype of cuda_src/add.cuh."""

from numba import cuda
from torch import Tensor

from trifold.prototype import check_alike, elementwise_output, flat, launch_elementwise, output


def reference(x: Tensor, y: Tensor) -> Tensor:
    return x + y


@cuda.jit
def add_kernel(x, y, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = x[i] + y[i]


def add(x: Tensor, y: Tensor) -> Tensor:
    check_alike("add", x=x, y=y)
    out = elementwise_output(x, y)
    launch_elementwise(add_kernel, out.numel(), flat(x, out), flat(y, out), output(flat(out)), out.numel())
    return out
