"""mul: the reference, and the prototype of cuda_src/mul.cuh."""

from numba import cuda
from torch import Tensor

from trifold.prototype import check_alike, elementwise_output, flat, launch_elementwise, output


def reference(x: Tensor, y: Tensor) -> Tensor:
    return x * y


@cuda.jit
def mul_kernel(x, y, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = x[i] * y[i]


def mul(x: Tensor, y: Tensor) -> Tensor:
    check_alike("mul", x=x, y=y)
    out = elementwise_output(x, y)
    launch_elementwise(mul_kernel, out.numel(), flat(x, out), flat(y, out), output(flat(out)), out.numel())
    return out
