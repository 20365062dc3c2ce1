"""Launch functions with numbers that may be None, as the prototype of one op; see test_options.py."""

import math

from numba import cuda
from torch import Tensor

from trifold.prototype import check_floating, elementwise_output, launch_elementwise, output


def reference(x: Tensor, scale: float | None = None, limit: float | None = None) -> Tensor:
    y = x / math.sqrt(x.shape[-1]) if scale is None else x * scale
    return y if limit is None else y.clamp(max=limit)


@cuda.jit
def scale_kernel(x, y, scale, limited, limit):
    i = cuda.grid(1)
    if i < y.size:
        value = x[i] * scale
        y[i] = limit if limited and value > limit else value


def options(x: Tensor, scale: float | None = None, limit: float | None = None) -> Tensor:
    """A default that is computed, and a bound that there may be."""
    check_floating("options", x=x)
    if x.dim() != 2:
        raise RuntimeError("options: x must be a matrix")
    if scale is not None and scale <= 0:
        raise RuntimeError(f"options: scale must be positive, but is {scale}")
    if scale is None:
        scale = 1 / math.sqrt(x.shape[-1])
    y = elementwise_output(x)
    known = limit if limit is not None else 0.0
    launch_elementwise(
        scale_kernel, x.numel(), x.contiguous().flatten(), output(y.view(-1)), scale, limit is not None, known
    )
    return y


def options_backward(grad: Tensor, x: Tensor, scale: float | None, limit: float | None) -> Tensor:
    """A helper, to which a number that may be None is passed."""
    check_floating("options_backward", grad=grad, x=x)
    if limit is not None:
        raise RuntimeError("options_backward: there is no gradient with a limit")
    grad_x = elementwise_output(x)
    factor = _scale(x.shape[-1], scale=scale)
    launch_elementwise(
        scale_kernel, x.numel(), grad.contiguous().flatten(), output(grad_x.view(-1)), factor, False, 0.0
    )
    return grad_x


def _scale(columns: int, scale: float | None) -> float:
    return scale if scale is not None else 1 / math.sqrt(columns)


@cuda.jit
def repeat_kernel(x, y, times, negated):
    i = cuda.grid(1)
    if i < y.size:
        value = x[i // times]
        y[i] = -value if negated else value


def options_repeat(x: Tensor, times: int | None, negate: bool | None) -> Tensor:
    """Integers and flags; one is required in some calls."""
    check_floating("options_repeat", x=x)
    if x.dim() != 1:
        raise RuntimeError("options_repeat: x must be a row")
    if x.numel() > 4:
        if times is None:
            raise RuntimeError("options_repeat: times is required of more than 4 elements")
        if times > 3:
            raise RuntimeError(f"options_repeat: times must be 3 or less, but is {times}")
    count = 1 if times is None else times
    turned = negate if negate is not None and times is not None else False
    y = x.new_empty(count * x.numel())
    launch_elementwise(repeat_kernel, y.numel(), x, output(y), count, turned)
    return y


@cuda.jit
def stretch_kernel(x, y):
    i = cuda.grid(1)
    if i < y.size:
        place = i * x.size // y.size
        y[i] = x[place]


def options_stretch(x: Tensor, size: list[int] | None = None, factor: int | None = None) -> Tensor:
    """A list that may be None: repeats numbers until there are ``size[0] * size[1]``."""
    check_floating("options_stretch", x=x)
    if x.numel() == 0:
        raise RuntimeError("options_stretch: x must not be empty")
    if size is not None:
        rows, columns = size
    elif factor is not None:
        rows, columns = factor, x.numel()
    else:
        raise RuntimeError("options_stretch: size or factor must be given")
    if rows < 0 or columns < 0:
        raise RuntimeError("options_stretch: sizes must not be negative")
    y = x.new_empty(rows, columns)
    launch_elementwise(stretch_kernel, y.numel(), x.contiguous().flatten(), output(y.view(-1)))
    return y
