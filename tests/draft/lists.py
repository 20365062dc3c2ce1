"""Launch functions with lists of tensors, as the prototype of one op; see test_lists.py."""

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import check_alike, check_floating, flat, launch_elementwise, output


def reference(params: list[Tensor], grads: list[Tensor], moments: list[Tensor], rate: float) -> None:
    for p, g, m in zip(params, grads, moments, strict=True):
        m.mul_(0.5).add_(g)
        p.sub_(rate * m)


@cuda.jit
def step_kernel(p, g, m, rate, n):
    i = cuda.grid(1)
    if i < n:
        m[i] = 0.5 * m[i] + g[i]
        p[i] -= rate * m[i]


def lists(params: list[Tensor], grads: list[Tensor], moments: list[Tensor], rate: float) -> None:
    """An optimizer, which checks all of its tensors before it writes to one."""
    for p, g, m in zip(params, grads, moments, strict=True):
        check_floating("lists", p=p)
        check_alike("lists", p=p, g=g, m=m)
        if not p.is_contiguous() or not m.is_contiguous():
            raise RuntimeError("lists: params and moments must be contiguous")
    for p, g, m in zip(params, grads, moments, strict=False):
        n = p.numel()
        launch_elementwise(step_kernel, n, output(p.view(-1)), g.contiguous().view(-1), output(m.view(-1)), rate, n)


@cuda.jit
def add_norm_kernel(x, total, weight, n):
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(total, 0, weight * x[i] * x[i])


def lists_norm(xs: list[Tensor], first: int) -> Tensor:
    """A result: the sum of squares, each list's tensor weighted by its number."""
    if not xs:
        raise RuntimeError("lists_norm: xs must not be empty")
    total = xs[0].new_zeros(1, dtype=torch.float64)
    for k, x in enumerate(xs):
        if x.dtype != torch.float64 and x.dtype != torch.float32:
            raise RuntimeError(f"lists_norm: xs[{k}] must be float64 or float32, but is {x.dtype}")
        if k < first:
            continue
        launch_elementwise(add_norm_kernel, x.numel(), x.contiguous().view(-1), output(total), k + 1.0, x.numel())
    return total


@cuda.jit
def scaled_kernel(x, y, factor, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = factor * x[i]


def lists_last(xs: list[Tensor], scales: list[Tensor]) -> Tensor:
    """Tensors by their index, and a list of another length."""
    x = xs[-1]
    check_floating("lists_last", x=x)
    factor = 1.0
    for scale in scales:
        if scale.dtype != torch.float32:
            raise RuntimeError("lists_last: scales must be float32")
        factor *= scale.item()
    y = torch.empty_like(x)
    launch_elementwise(scaled_kernel, x.numel(), flat(x, y), output(flat(y)), factor, x.numel())
    return y


def lists_indexed(xs: list[Tensor], out: list[Tensor], factor: float) -> None:
    """A loop over indices."""
    if len(xs) != len(out):
        raise RuntimeError(f"lists_indexed: {len(xs)} xs, and {len(out)} out")
    for k in range(len(xs)):
        x = xs[k]
        y = out[k]
        check_floating("lists_indexed", x=x)
        check_alike("lists_indexed", x=x, y=y)
        if not y.is_contiguous():
            raise RuntimeError("lists_indexed: out must be contiguous")
        launch_elementwise(scaled_kernel, x.numel(), x.contiguous().view(-1), output(y.view(-1)), factor, x.numel())


@cuda.jit
def copy_rows_kernel(x, out, at):
    i = cuda.grid(1)
    if i < x.shape[0] * x.shape[1]:
        row, column = divmod(i, x.shape[1])
        out[at + row, column] = x[row, column]


def lists_cat(xs: list[Tensor]) -> Tensor:
    """The matrices one below the other, checked by conditions on all of them."""
    if len(xs) == 0 or any(x.dim() != 2 for x in xs):
        raise RuntimeError("lists_cat: xs must be matrices, at least one")
    if not all(x.dtype == xs[0].dtype and x.shape[1] == xs[0].shape[1] for x in xs):
        raise RuntimeError("lists_cat: xs must have one dtype, and one number of columns")
    check_floating("lists_cat", x=xs[0])
    heights = [x.shape[0] for x in xs]
    out = xs[0].new_empty(sum(heights), xs[0].shape[1])
    at = 0
    for x, height in zip(xs, heights, strict=True):
        launch_elementwise(copy_rows_kernel, x.numel(), x, output(out), at)
        at += height
    return out


def lists_bounds(xs: list[Tensor]) -> Tensor:
    """Sizes of those that are not empty."""
    if any(x.dim() != 2 or x.dtype != torch.float32 for x in xs if x.numel() > 0):
        raise RuntimeError("lists_bounds: xs must be float32 matrices, or empty")
    if len(xs) == 0:
        raise RuntimeError("lists_bounds: xs must not be empty")
    return xs[0].new_zeros(max(x.shape[0] for x in xs if x.numel() > 0), sum(x.numel() for x in xs))


def _columns(x: Tensor) -> int:
    if x.shape[1] == 0:
        raise RuntimeError("lists_widest: a matrix has no column")
    return x.shape[1]


def lists_widest(xs: list[Tensor], least: int) -> Tensor:
    """Numbers of those tensors alone that a condition chooses, by a function with a check."""
    if len(xs) == 0:
        raise RuntimeError("lists_widest: xs must not be empty")
    for x in xs:
        check_floating("lists_widest", x=x)
        if x.dim() != 2:
            raise RuntimeError("lists_widest: xs must be matrices")
    columns = [_columns(x) for x in xs if x.shape[0] >= least]
    return xs[0].new_zeros(sum(columns))
