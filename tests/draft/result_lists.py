"""Launch functions that return lists of tensors, as the prototype of one op; see test_result_lists.py."""

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import launch_elementwise, output


def reference(xs: list[Tensor], a: float) -> list[Tensor]:
    return [(x * a).contiguous() for x in xs]


@cuda.jit
def scale_kernel(x, a, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i] * a


def _scaled(x: Tensor, a: float) -> Tensor:
    if x.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"result_lists: xs must be float32 or float64, not {x.dtype}")
    y = x.new_empty(x.shape)
    launch_elementwise(scale_kernel, x.numel(), x.reshape(-1), a, output(y.view(-1)), x.numel())
    return y


def result_lists(xs: list[Tensor], a: float) -> list[Tensor]:
    """Added in a loop."""
    results: list[Tensor] = []
    for x in xs:
        y = _scaled(x, a)
        results.append(y)
    return results


def result_lists_some(xs: list[Tensor], a: float) -> list[Tensor]:
    """A comprehension with a condition."""
    return [_scaled(x, a) for x in xs if x.numel() > 1]


def result_lists_pairs(xs: list[Tensor], a: float) -> list[Tensor]:
    """All results first, then a loop over arguments and results."""
    for x in xs:
        if x.dtype != torch.float32:
            raise RuntimeError(f"result_lists_pairs: xs must be float32, not {x.dtype}")
    ys = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in xs]
    for x, y in zip(xs, ys, strict=True):
        launch_elementwise(scale_kernel, x.numel(), x.reshape(-1), a, output(y.view(-1)), x.numel())
    return ys


@cuda.jit
def part_kernel(x, y, columns, width, first, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i // width * columns + first + i % width]


def result_lists_parts(x: Tensor, parts: int) -> list[Tensor]:
    """As many as an argument states."""
    if x.dtype != torch.float32 or x.dim() != 2:
        raise RuntimeError("result_lists_parts: x must be a matrix of float32")
    if parts < 1 or x.shape[1] % parts != 0:
        raise RuntimeError(f"result_lists_parts: parts must divide {x.shape[1]}, but is {parts}")
    rows, columns = x.shape
    width = columns // parts
    pieces = []
    for part in range(parts):
        y = x.new_empty((rows, width))
        launch_elementwise(
            part_kernel, y.numel(), x.reshape(-1), output(y.view(-1)), columns, width, part * width, y.numel()
        )
        pieces.append(y)
    return pieces


def result_lists_two(x: Tensor) -> list[Tensor]:
    """A list of known length."""
    if x.dtype != torch.float32:
        raise RuntimeError(f"result_lists_two: x must be float32, not {x.dtype}")
    double, half = x.new_empty(x.shape), x.new_empty(x.shape)
    for y, factor in ((double, 2.0), (half, 0.5)):
        launch_elementwise(scale_kernel, x.numel(), x.reshape(-1), factor, output(y.view(-1)), x.numel())
    return [double, half]
