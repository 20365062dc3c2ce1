"""Launch functions in the styles of many: lambdas, settings of a dataclass, checks of types; see test_styles.py."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import check_floating, launch, output


def reference(x: Tensor) -> Tensor:
    return (2 * x).contiguous()


@cuda.jit
def scale_kernel(x, factor, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i] * factor


@dataclass(frozen=True)
class Tuning:
    block: int

    @property
    def warps(self) -> int:
        return self.block // 32


SMALL, LARGE = Tuning(64), Tuning(256)
cdiv = lambda a, b: (a + b - 1) // b  # noqa: E731


def styles(x: Tensor) -> Tensor:
    """Settings that a size chooses, a function of the module that is a lambda, a dtype that is torch's default."""
    assert isinstance(x, torch.Tensor), "styles: x must be a tensor"
    if x.dtype != torch.float32:
        raise TypeError(f"styles: x must be float32, not {x.dtype}")
    if not x.is_contiguous():
        x = x.contiguous()
    n = x.numel()
    tuning = SMALL if n < 100 else LARGE
    y = torch.zeros(x.shape, device=x.device)
    factor = 2.0 if tuning.warps in (2, 8) else 0.0
    launch(scale_kernel, cdiv(n, tuning.block), x.view(-1), factor, output(y.view(-1)), n, block=tuning.block)
    return y


@cuda.jit
def strided_kernel(x, row, column, y, columns, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[(i // columns) * row + (i % columns) * column]


def styles_strides(x: Tensor) -> Tensor:
    """All strides at once, parts of a shape, and a lambda within the function."""
    if x.dtype != torch.float32 or x.dim() != 3:
        raise RuntimeError("styles_strides: x must be float32, of three dimensions")
    x = x.contiguous()
    rows, columns = x.shape[1:]
    _, row, column = x.stride()
    blocks = lambda n: (n + 31) // 32  # noqa: E731
    y = x.new_empty(rows, columns)
    launch(strided_kernel, blocks(y.numel()), x.view(-1), row, column, output(y.view(-1)), columns, y.numel(), block=32)
    return y


def styles_squeezed(x: Tensor, dim: int) -> Tensor:
    """A dimension that is left out if it has one element."""
    if x.dtype != torch.float32 or x.dim() < 1:
        raise RuntimeError("styles_squeezed: x must be float32, of a dimension or more")
    shape = x.squeeze(dim).shape
    y = x.new_empty(x.numel())
    n = x.numel()
    launch(scale_kernel, cdiv(n, 64), x.reshape(-1), 2.0, output(y), n, block=64)
    return y.view(shape)


def styles_floats(
    x: Tensor, like: Tensor, pair: tuple[float, float] = (1.0, 0.0), factors: Sequence[float] = ()
) -> Tensor:
    """Lists of floats: unpacked, indexed by a loop's variable, counted; a dict by keywords; the shape of a tensor."""
    for name, tensor in dict(x=x, like=like).items():  # noqa: C408
        if tensor.dtype != torch.float32:
            raise TypeError(f"styles_floats: {name} must be float32")
    first, second = pair
    factor = first + second
    if factors:
        factor *= factors[-1] + len(factors)
    for k in range(len(factors)):
        factor += factors[k]
    y = x.new_empty(x.numel())
    n = x.numel()
    launch(scale_kernel, cdiv(n, 64), x.reshape(-1), factor, output(y), n, block=64)
    return y.view_as(like)


@cuda.jit
def gather_kernel(table, rows, weights, y, columns, weighted):
    i = cuda.grid(1)
    if i < y.size:
        row = rows[i // columns]
        y[i] = table[row, i % columns] * (weights[i // columns] if weighted else 1)


def styles_gathered(x: Tensor, rows: Tensor, weights: Tensor | None = None) -> Tensor:
    """The dtype of rows is checked first; an empty tensor stands for weights that are not given."""
    if rows.dtype not in (torch.int32, torch.int64) or rows.dim() != 1:
        raise TypeError("styles_gathered: rows must be a vector of int32 or int64")
    if x.dtype not in (torch.float32, torch.float64) or x.dim() != 2:
        raise TypeError("styles_gathered: x must be a matrix of float32 or float64")
    weighted = weights is not None
    if weighted and (weights.shape != rows.shape or weights.dtype != x.dtype):  # type: ignore[union-attr]
        raise ValueError("styles_gathered: weights must be like rows, in x's dtype")
    n, columns = rows.numel(), x.shape[1]
    y = x.new_empty((n, columns))
    given: Tensor = weights if weighted else x.new_empty(0)  # type: ignore[assignment]
    flat = y.view(-1)
    launch(
        gather_kernel, cdiv(y.numel(), 64), x.contiguous(), rows, given.contiguous(), output(flat), columns, weighted,
        block=64,
    )  # fmt: skip
    return y


def styles_alike(a: Tensor, b: Tensor, sizes: list[int], weights: Sequence[float]) -> Tensor:
    """Two tensors are compared before the dtype of the first is checked; the least, largest and sum of lists."""
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError("styles_alike: b must have the shape and dtype of a")
    if a.dtype not in (torch.float32, torch.float64):
        raise TypeError("styles_alike: float32 or float64")
    factor = min(sizes) + 10 * max(sizes) + 100 * sum(sizes) + 1000 * max((a.dim(), 1)) + sum(weights) * max(weights)
    factor += max(a.shape)
    y = torch.empty_like(b, memory_format=torch.contiguous_format)
    n = y.numel()
    launch(scale_kernel, cdiv(n, 64), b.reshape(-1), factor, output(y.view(-1)), n, block=64)
    return y


@cuda.jit
def cumulate_kernel(x, y, kept):
    row = cuda.grid(1)
    if row < x.shape[0]:
        total = x.dtype.type(0)
        for i in range(x.shape[1]):
            total += x[row, i]
            y[row, i] = total
            kept[row * x.shape[1] + i] = total > 0


def styles_moved(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Along a dimension that the call decides, of a tensor of any number of them; a result of another dtype."""
    check_floating("styles_moved", x=x)
    if x.dim() == 0:
        raise ValueError("styles_moved: x must have a dimension")
    last = x.movedim(dim, -1).contiguous()
    y = torch.empty_like(last)
    kept = torch.empty_like(last, dtype=torch.bool)
    n = last.shape[-1]
    count = last.numel() // max(n, 1)
    launch(cumulate_kernel, cdiv(count, 32), last.view(-1, n), output(y.view(-1, n)), output(kept.view(-1)), block=32)
    return y.movedim(-1, dim), kept


def styles_layout(x: Tensor) -> Tensor:
    """A result in the layout of an argument, of another dtype."""
    check_floating("styles_layout", x=x)
    return torch.zeros_like(x, dtype=torch.int32)


@cuda.jit
def halve_kernel(x, y, half, n):
    i = cuda.grid(1)
    if i < half:
        y[i] = x[i] + x[half + i] if half + i < n else x[i]


def styles_named(x: Tensor) -> Tensor:
    """Rounds until one number is left; sizes get their names in conditions."""
    check_floating("styles_named", x=x)
    if (n := x.numel()) == 0:
        return x.new_zeros(1)
    part = x.reshape(-1).clone()
    while (half := (n + 1) // 2) < n:
        sums = part.new_empty(half)
        launch(halve_kernel, cdiv(half, 32), part, output(sums), half, n, block=32)
        part, n = sums, half
    return part


T = 16


@cuda.jit(device=True)
def at(X, I, t):  # noqa: E741
    return X[I[t]]


@cuda.jit
def capitals_kernel(X, I, Y, N, C, T):  # noqa: E741
    t = cuda.grid(1)
    if t < N:
        for c in range(C):
            Y[t, c] = at(X[c], I, t) * T


def styles_capitals(X: Tensor, I: Tensor, T: int) -> Tensor:  # noqa: E741
    """Variables and functions with the names of types, namespaces and macros."""
    check_floating("styles_capitals", X=X)
    if I.dtype not in (torch.int64, torch.int32) or I.dim() != 1 or X.dim() != 2:
        raise RuntimeError("styles_capitals: I must be int64 or int32 of one dimension, and X a matrix")
    N, C = I.shape[0], X.shape[0]
    Y = X.new_empty(N, C)
    launch(capitals_kernel, cdiv(N, 32), X, I, output(Y), N, C, T, block=32)
    return Y


def styles_constant(x: Tensor, scale: float) -> Tensor:
    """A constant with the name of a type."""
    check_floating("styles_constant", x=x)
    y = torch.empty_like(x)
    launch(scale_kernel, cdiv(x.numel(), T), x.reshape(-1), scale, output(y.view(-1)), x.numel(), block=T)
    return y


def styles_expanded(x: Tensor, rows: int) -> Tensor:
    """A view of an argument that is itself a part of a tensor."""
    check_floating("styles_expanded", x=x)
    if x.dim() != 1 or rows < 0:
        raise RuntimeError("styles_expanded: x must have one dimension, and rows be at least 0")
    wide = x.expand(rows, x.shape[0])
    y = x.new_empty(wide.shape)
    launch(scale_kernel, cdiv(wide.numel(), 32), wide.reshape(-1), 1.0, output(y.view(-1)), wide.numel(), block=32)
    return y


ROUNDS = {torch.float16: 1, torch.float32: 2, torch.float64: 3}
SETTINGS = {torch.float16: (64, 2), torch.float32: (32, 1), torch.float64: (32, 3)}


def _blocks(rows, columns):
    return cdiv(rows * columns, 32)


def styles_tables(x: Tensor) -> Tensor:
    """Tables by dtype, sizes as arguments, a size in a shape, formatted messages."""
    if x.dtype not in (torch.float16, torch.float32, torch.float64):
        raise RuntimeError("styles_tables: x must be floating, not {}".format(x.dtype))  # noqa: UP032
    if x.dim() != 2:
        raise RuntimeError("styles_tables: x of {0} dimensions, {0:.1f}, {shape}".format(x.dim(), shape=x.shape))
    y = x.new_zeros(x.shape)
    if 0 in x.shape:
        return y
    threads, parts = SETTINGS[x.dtype]
    factor = float(ROUNDS[x.dtype])
    if 7 not in x.shape:
        factor += parts
    launch(scale_kernel, _blocks(*x.shape), x.reshape(-1), factor, output(y.view(-1)), x.numel(), block=threads)
    return y
