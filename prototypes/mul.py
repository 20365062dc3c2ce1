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


@cuda.jit
def mul_backward_kernel(grad, x, y, grad_x, grad_y, n):
    i = cuda.grid(1)
    if i < n:
        grad_x[i] = grad[i] * y[i]
        grad_y[i] = grad[i] * x[i]


def mul(x: Tensor, y: Tensor) -> Tensor:
    check_alike("mul", x=x, y=y)
    out = elementwise_output(x, y)
    launch_elementwise(mul_kernel, out.numel(), flat(x, out), flat(y, out), output(flat(out)), out.numel())
    return out


def mul_backward(grad: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    check_alike("mul_backward", x=x, y=y, grad=grad)
    grad_x, grad_y = elementwise_output(x, y), elementwise_output(x, y)
    operands = flat(grad, grad_x), flat(x, grad_x), flat(y, grad_x)
    n = x.numel()
    launch_elementwise(mul_backward_kernel, n, *operands, output(flat(grad_x)), output(flat(grad_y)), n)
    return grad_x, grad_y
