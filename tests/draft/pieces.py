"""Launch functions with pieces of tensors, and tensors that are expanded, as the prototype of one op; see
test_pieces.py."""

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import check_floating, launch_elementwise, output


def reference(qkv: Tensor, parts: tuple[int, int, int], *, dim: int = -1) -> tuple[Tensor, Tensor]:
    return qkv, qkv


@cuda.jit
def products_kernel(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * y[i]


def _product(x: Tensor, y: Tensor) -> Tensor:
    out = x.new_empty(x.shape)
    launch_elementwise(products_kernel, out.numel(), x.reshape(-1), y.reshape(-1), output(out.view(-1)))
    return out


def pieces(qkv: Tensor, parts: tuple[int, int, int], *, dim: int = -1) -> tuple[Tensor, Tensor]:
    """Splits and chunks along a dimension that the call decides."""
    check_floating("pieces", qkv=qkv)
    a, b, c = parts
    if a != b:
        raise RuntimeError(f"pieces: {parts} must begin with the same size twice")
    q, k, _ = qkv.split([a, b, c], dim=dim)
    first, second, third = torch.chunk(qkv, 3, dim)
    if third.shape != first.shape:
        raise RuntimeError(f"pieces: chunks of {tuple(third.shape)} and {tuple(first.shape)}")
    return _product(q, k), _product(first, second)


def pieces_halves(x: Tensor, rows: int) -> Tensor:
    """Two pieces of a size, rows that are unbound, and a part that is narrowed."""
    check_floating("pieces_halves", x=x)
    if not x.shape[:-1]:
        raise RuntimeError(f"pieces_halves: x of {tuple(x.shape)} is a row, or a number")
    left, right = x.split(x.shape[-1] // 2, -1)
    a, b = left.narrow(0, 0, rows).unbind(0)
    c, d = right.narrow(0, x.shape[0] - rows, length=rows).unbind()
    return _product(a, c) if a.shape == d.shape and rows > 0 else _product(b, d)


def pieces_broadcast(x: Tensor, y: Tensor, way: str) -> Tensor:
    """Tensors that are expanded to one shape."""
    check_floating("pieces_broadcast", x=x)
    if y.dtype != x.dtype:
        raise RuntimeError("pieces_broadcast: x and y must be of one dtype")
    match way:
        case "all":
            x, y = torch.broadcast_tensors(x, y)
        case "shape":
            shape = torch.broadcast_shapes(x.shape, y.shape)
            x, y = x.expand(shape), torch.broadcast_to(y, shape)
        case _:
            x = x.expand(3, -1, 4)
            y = y.expand_as(x)
    return _product(x.contiguous(), y)
