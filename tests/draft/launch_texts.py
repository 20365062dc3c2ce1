"""Prototypes with launch functions, as texts: those that are drafted, and those that are refused."""

from __future__ import annotations

#: What each begins with; ``change`` is what copy_kernel does to an element.
BEGIN = """
import numba
import torch
from numba import cuda
from torch import Tensor
from trifold.prototype import check_alike, check_floating, launch, output

@cuda.jit
def copy_kernel(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i] {change}

BITS = {{1: torch.int8, 2: torch.int16, 4: torch.int32}}
PER_THREAD = {{1: 16, 2: 8, 4: 4}}
"""

BY_SIZE = """
def by_size(x: Tensor) -> Tensor:
    if x.itemsize not in BITS:
        raise RuntimeError("by_size: x must have elements of 1, 2 or 4 bytes")
    y = x.new_empty(x.shape)
    bits = x.view(BITS[x.itemsize]).reshape(-1).contiguous()
    per_thread = PER_THREAD[x.itemsize]
    if any(n > per_thread for n in (x.numel(), 2)):
        launch(copy_kernel, -(-x.numel() // 256), bits, output(y.view(bits.dtype).reshape(-1)), y.numel())
    return y
"""

SUMS = """
def sums(x: Tensor) -> Tensor:
    if x.dtype not in (torch.float32, torch.float16, torch.int32, torch.int16):
        raise RuntimeError("sums: x must be float32, float16, int32 or int16")
    half = x.dtype == torch.float16
    y = x.new_empty(x.numel(), dtype=x.dtype if x.dtype.is_floating_point else torch.int32)
    wide = x.new_empty(x.numel(), dtype=torch.float64 if x.dtype.is_floating_point else torch.int64)
    mixed = x.new_empty(x.numel(), dtype=torch.int32 if half else torch.float32 if x.dtype == torch.int16 else x.dtype)
    launch(copy_kernel, 1, x.reshape(-1), output(y), x.numel())
    launch(copy_kernel, 1, y, output(wide), x.numel())
    launch(copy_kernel, 1, wide, output(mixed), x.numel())
    return y
"""

ALIKE_LATER = """
def alike_later(grad: Tensor, x: Tensor) -> Tensor:
    check_floating("alike_later", x=x)
    check_alike("alike_later", grad=grad, x=x)
    y = x.new_empty(x.numel())
    launch(copy_kernel, 1, grad.reshape(-1), output(y), y.numel())
    return y
"""

INTEGERS_ONLY = """
def integers_only(x: Tensor) -> Tensor:
    if x.dtype not in (torch.int64, torch.uint8):
        raise RuntimeError("integers_only: x must be int64 or uint8")
    y = x.new_empty(x.numel(), dtype=x.dtype)
    launch(copy_kernel, 1, x.reshape(-1), output(y), x.numel())
    return y
"""

NAMED_T = """
T = 8
INT_MAX = 3

@cuda.jit
def first_kernel(x, y, n):
    held = cuda.shared.array(T, x.dtype)
    i = cuda.grid(1)
    if i < n:
        held[i % T] = x[i]
        y[i] = held[i % T] + INT_MAX

def named_t(x: Tensor) -> Tensor:
    check_floating("named_t", x=x)
    y = x.new_empty(x.numel())
    launch(first_kernel, INT_MAX, x.reshape(-1), output(y), y.numel())
    return y
"""

UNLIKE_BOTH = """
def unlike_both(x: Tensor, other: Tensor) -> Tensor:
    if x.dtype != torch.float32 and x.dtype != torch.int64:
        raise RuntimeError("unlike_both: x must be float32 or int64")
    if not (other.dtype == torch.int8 or other.dtype == torch.int16):
        raise RuntimeError("unlike_both: other must be int8 or int16")
    y = x.new_empty(x.numel())
    launch(copy_kernel, 1, x.reshape(-1), output(y), y.numel())
    launch(copy_kernel, 1, other.reshape(-1), output(y), y.numel())
    return y
"""

OPTIONAL = """
@cuda.jit
def add_kernel(x, y, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = x[i]
        if y is not None:
            out[i] += y[i]

def optional(x: Tensor, y: Tensor | None) -> Tensor:
    check_floating("optional", x=x)
    if x.dim() != 1:
        raise RuntimeError("optional: x must be a row")
    if y is not None and (y.dtype != x.dtype or y.device != x.device or y.shape != x.shape):
        raise RuntimeError(f"optional: y must be as x, not {tuple(y.shape)}, {y.dtype} on {y.device}")
    out = x.new_empty(x.shape)
    launch(add_kernel, 1, x.reshape(-1), y, output(out.view(-1)), x.numel())
    return out
"""

OF_TWO = """
@cuda.jit
def sum_kernel(x, index, factor, y, n):
    i = cuda.grid(1)
    if i < n and index[i] >= 0:
        y[i] = x[index[i] + 1] * factor[index[i]] + x[i] * factor[i]

def of_two(x: Tensor, index: Tensor, factor: Tensor) -> Tensor:
    if x.dim() != 1 or factor.dim() != 1 or index.dim() != 1:
        raise RuntimeError("of_two: rows")
    if index.dtype not in (torch.int32, torch.int64):
        raise RuntimeError("of_two: index must be int32 or int64")
    check_floating("of_two", x=x, factor=factor)
    y = x.new_empty(x.numel())
    launch(sum_kernel, 1, x, index, factor, output(y), y.numel())
    return y
"""

OF_THREE = """
@cuda.jit
def sum_kernel(x, z, factor, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i] * factor[i] + z[i]

def of_three(x: Tensor, z: Tensor, factor: Tensor) -> Tensor:
    check_floating("of_three", x=x, z=z, factor=factor)
    y = x.new_empty(x.numel())
    launch(sum_kernel, 1, x.reshape(-1), z.reshape(-1), factor.reshape(-1), output(y), y.numel())
    return y
"""

OF_MANY = """
@cuda.jit
def sum_kernel(x, a, b, y, n):
    y[0] = x[0] + a[0] + b[0]

def of_many(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    check_floating("of_many", x=x)
    for each in (a, b):
        if each.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8):
            raise RuntimeError("of_many: integers")
    y = x.new_empty(x.numel())
    launch(sum_kernel, 1, x.reshape(-1), a.reshape(-1), b.reshape(-1), output(y), y.numel())
    return y
"""

NAMED = """
TILE = 16, 8
ITEMS = 4
_STEP = 0.5
MOST = 2**40
ELSEWHERE = 7

@cuda.jit
def named_kernel(x, y, step, n):
    i = cuda.grid(1)
    ELSEWHERE = i * TILE[1]
    for place in TILE:
        ELSEWHERE += place
    if ELSEWHERE < n * ITEMS:
        y[i] = x[i] * step

def named(x: Tensor, n: int) -> Tensor:
    if x.dtype != torch.float32:
        raise RuntimeError(f"named: {ITEMS}")
    y = x.new_empty(x.numel())
    blocks = -(-n // (TILE[0] * ITEMS)), ITEMS
    launch(named_kernel, blocks, x.reshape(-1), output(y), _STEP, min(n, MOST), block=TILE)
    return y
"""

BOUNDED = """
N = 64

@cuda.jit(device=True)
def parts(n, limit):
    if not (n != 0):
        return n, limit
    low = n + limit
    high = low * limit
    return low, high

@cuda.jit
def bounded_kernel(x, y, n):
    i = cuda.grid(1)
    a = b = numba.float32(0)
    size = 2
    while size <= N:
        half = size // 2
        a += x[i // half]
        size *= 2
    flat = cuda.threadIdx.x
    while flat < N and b < n:
        b += x[flat % 7]
        flat += cuda.blockDim.x
    left = n
    while left > 0:
        a += x[left // 3]
        left -= 5
    other = n
    while other > 0 or a < 1:
        a += x[other // 3]
        other -= 5
    low, high = parts(i, n)
    y[low, i + high] = a + b

def bounded(x: Tensor, n: int) -> Tensor:
    if x.dtype != torch.float32:
        raise RuntimeError("bounded: float32")
    y = x.new_empty(x.numel(), 4)
    launch(bounded_kernel, 1, x.reshape(-1), output(y), n)
    return y
"""

WORDS = """
def words(x: Tensor, low: float, up: bool) -> Tensor:
    if x.dtype != torch.float32:
        raise RuntimeError(f"words: x must be float32, not {x.dtype}")
    if x.dim() != 2 or not low > 0:
        raise RuntimeError(f"words: x must be {(x.shape[0], 'any', 3)}, but is {x.shape[:-1]}, {(low,)}, {up}")
    y = x.new_empty(x.shape)
    launch(copy_kernel, 1, x.reshape(-1), output(y.view(-1)), x.numel())
    return y
"""

UNTOLD = """
def untold(x: Tensor) -> Tensor:
    if x.dtype != torch.float32:
        raise RuntimeError(f"untold: x must not be {x[0]}")
    return x
"""

UNCHECKED = """
def unchecked(x: Tensor) -> Tensor:
    return x.view(BITS[x.itemsize])
"""

AS_IT_IS = """
def as_it_is(x: Tensor) -> Tensor:
    if x.itemsize not in BITS:
        raise RuntimeError("as_it_is: x must have elements of 1, 2 or 4 bytes")
    y = x.new_empty(x.numel())
    launch(copy_kernel, 1, x.reshape(-1), output(y), y.numel())
    return y
"""

WITHOUT_TENSORS = """
def without_tensors(n: int, device: torch.device) -> Tensor:
    return torch.empty(n, dtype=torch.float32, device=device)
"""


OTHER_DEVICE = """
def other_device(x: Tensor, like: Tensor) -> Tensor:
    if x.dtype != torch.float32 or like.dtype != torch.float32:
        raise RuntimeError("other_device: float32")
    y = torch.empty_like(like.new_empty(x.numel()))
    launch(copy_kernel, 1, x.reshape(-1), output(y), x.numel())
    return y
"""


#: A tensor that may be None, for which another one stands.
MAYBE_OF_OTHER_DEVICE = """
def maybe_of_other_device(x: Tensor, like: Tensor | None) -> Tensor:
    if x.dtype != torch.float32 or (like is not None and like.dtype != torch.float32):
        raise RuntimeError("maybe_of_other_device: float32")
    y = x.new_empty(x.numel())
    if like is None:
        like = x
    launch(copy_kernel, 1, like.reshape(-1), output(y), x.numel())
    return y
"""


ALIKE = """
SIDES = 4, 8

@cuda.jit
def copy_matrix_kernel(x, z, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] + z[i, j]

def alike(x: Tensor, z: Tensor) -> Tensor:
    if x.dtype not in (torch.float32, torch.float64) or z.dtype != x.dtype or x.dim() != 2 or z.shape != x.shape:
        raise RuntimeError("alike: matrices of one dtype and shape")
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    grid = tuple(-(-size // side) for size, side in zip(x.shape, SIDES))
    launch(copy_matrix_kernel, grid, x, z, output(y), block=SIDES)
    return y
"""

BY_NAME = """
FACTORS = {"one": 1, "two": 2, "many": 9}

@cuda.jit
def scaled_kernel(x, y, factor, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i] * factor

def by_name(x: Tensor, factor: str) -> Tensor:
    if x.dtype != torch.complex64:
        raise RuntimeError("by_name: x must be complex64")
    if factor not in FACTORS:
        raise RuntimeError(f"by_name: factor must be one of {', '.join(FACTORS)}, not {factor}")
    y = x.new_empty(x.numel())
    launch(scaled_kernel, 1, x.reshape(-1), output(y), FACTORS[factor], x.numel())
    return y
"""

COMPUTES = """
def computes(x: Tensor) -> Tensor:
    if x.dtype != torch.float32 or x.dim() != 2:
        raise RuntimeError("computes: a float32 matrix")
    blocks, rest = divmod(x.numel(), 256)
    y = x.new_empty(max(*x.shape, abs(x.size(0) - 5)))
    z = torch.empty_like(y)
    y.zero_()
    z.fill_(0.5)
    left = rest
    while left > 0:
        y, z = z, y
        left -= 2
    for k in range(rest):
        launch(copy_kernel, blocks, y if k % 2 == 0 else z, output(z if k % 2 == 0 else y), 1)
    return y
"""

KEPT_APART = """
def halved(n):
    while n > 1:
        n //= 2
    return n

def kept_apart(x: Tensor, n: int) -> Tensor:
    if x.dtype != torch.float32:
        raise RuntimeError("kept_apart: float32")
    y = x.new_empty(x.numel())
    k = n + 1
    j = k
    while j > 0:
        j -= 2
    m = halved(k)
    for i in range(k):
        k = k - i
    if m > n:
        m = m + 1
        raise RuntimeError(f"kept_apart: {m}")
    for z in (x, y):
        if n > 3:
            continue
        if n > 2:
            break
        launch(copy_kernel, 1, z.reshape(-1), output(y), k + j + m)
    return y
"""

WITH_BRACKETS = """
def with_brackets(x: Tensor) -> Tensor:
    y = x.new_empty(x.numel())
    copy_kernel[x.numel(), 256](x, y, 1)
    return y
"""

CHANGES_AN_ARGUMENT = """
def changes_an_argument(x: Tensor) -> Tensor:
    return x.view(-1).zero_()
"""

KNOWS_NO_GRID = """
def knows_no_grid(x: Tensor) -> Tensor:
    launch(copy_kernel)
    return x
"""

OF_COMPLEX = """
def of_complex(x: Tensor) -> Tensor:
    if x.dtype not in (torch.complex64, torch.float32):
        raise RuntimeError("of_complex: dtype")
    return x
"""

AMBIGUOUS = """
@cuda.jit(device=True)
def product(a, b):
    return a * b

@cuda.jit
def products_kernel(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = product(x[i], x[i]) + product(x[i], 2 * x[i])

def ambiguous(x: Tensor) -> Tensor:
    if x.dtype not in (torch.float32, torch.float64):
        raise RuntimeError("ambiguous: x must be float32 or float64")
    y = x.new_empty(x.numel())
    launch(products_kernel, 1, x.reshape(-1), output(y), x.numel())
    return y
"""

RETURNS_SOMETIMES = """
def returns_sometimes(x: Tensor, n: int) -> Tensor:
    if x.dtype != torch.float32:
        raise RuntimeError("returns_sometimes: x must be float32")
    for _ in range(n):
        return x.clone()
"""

RAISES_TWO_WORDS = """
def raises_two_words(x: Tensor) -> Tensor:
    if x.dtype != torch.float32:
        raise ValueError("raises_two_words: x must be float32", x.dtype)
    return x
"""

_MULTIPLY = """
import numpy as np

@cuda.jit
def multiply_kernel(x, y, factor, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i] * factor
"""

OTHER_ERRORS = f"""{_MULTIPLY}
def other_errors(x: Tensor, factor: float) -> Tensor:
    if x.dtype != torch.float32:
        raise TypeError(f"other_errors: x must be float32, not {{x.dtype}}")
    assert x.dim() == 1 and factor > 0
    y = x.new_empty(x.shape)
    launch(multiply_kernel, 1, x, output(y), np.float32(factor) * 3, np.int64(x.numel()))
    return y
"""

TWO_PRECISIONS = f"""{_MULTIPLY}
def two_precisions(x: Tensor, factor: float) -> Tensor:
    check_floating("two_precisions", x=x)
    real = np.float64 if x.dtype == torch.float64 else np.float32
    y = x.new_empty(x.numel())
    launch(multiply_kernel, 1, x.reshape(-1), output(y), np.float32(factor) * real(factor), x.numel())
    return y
"""
