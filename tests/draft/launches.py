"""Launch functions in the styles in which they are written, as the prototype of one op; see test_launches.py."""

import math

import torch
from numba import cuda, float32, float64
from torch import Tensor

from trifold.prototype import check_floating, elementwise_output, flat, launch, launch_elementwise, output

BLOCK = 128


def reference(u: Tensor, alpha: float, steps: int) -> Tensor:
    return u


@cuda.jit
def heat_kernel(u, v, alpha):
    i = cuda.grid(1)
    if i >= u.size:
        return
    if i == 0 or i == u.size - 1:
        v[i] = u[i]
    else:
        v[i] = u[i] + alpha * (u[i + 1] - 2 * u[i] + u[i - 1])


def launches(u: Tensor, alpha: float, steps: int) -> Tensor:
    """A loop whose length the call decides, and buffers that change places."""
    check_floating("launches", u=u)
    if u.dim() != 1:
        raise RuntimeError("launches: u must have one dimension")
    a = u.clone()
    b = torch.empty_like(a)
    for _ in range(steps):
        launch(heat_kernel, -(-u.numel() // BLOCK), a, output(b), alpha, block=BLOCK)
        a, b = b, a
    return a


@cuda.jit
def exchange_kernel(x, k, j):
    i = cuda.grid(1)
    other = i ^ j
    if i < x.size and other > i and (x[i] > x[other]) == ((i & k) == 0):
        x[i], x[other] = x[other], x[i]


def launches_sorted(x: Tensor) -> Tensor:
    """Loops in a loop, with numbers that change."""
    if x.dtype != torch.float32 or x.dim() != 1:
        raise RuntimeError("launches_sorted: x must be a row of float32")
    n = x.numel()
    if n & (n - 1):
        raise RuntimeError(f"launches_sorted: the length must be a power of 2, but is {n}")
    y = x.clone()
    k = 2
    while k <= n:
        j = k // 2
        while j > 0:
            launch_elementwise(exchange_kernel, n, output(y), k, j)
            j //= 2
        k *= 2
    return y


@cuda.jit
def row_sums_kernel(x, sums):
    row = cuda.grid(1)
    if row < sums.size:
        total = sums.dtype.type(0)
        for column in range(x.shape[1]):
            total += x[row, column]
        sums[row] = total


def launches_sums(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The dtype of the result is an argument."""
    check_floating("launches_sums", x=x)
    if dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"launches_sums: dtype must be float32 or float64, but is {dtype}")
    if x.dim() != 2:
        raise RuntimeError(f"launches_sums: x must have rows and columns, but its third size is {x.shape[2]}")
    sums = torch.empty(x.shape[0], dtype=dtype, device=x.device)
    launch_elementwise(row_sums_kernel, x.shape[0], x, output(sums))
    return sums


@cuda.jit
def gather_kernel(table, index, bias, out):
    row = cuda.blockIdx.x
    for column in range(cuda.threadIdx.x, table.shape[1], cuda.blockDim.x):
        out[row, column] = table[index[row], column] + bias[column]


def launches_gathered(table: Tensor, index: Tensor, bias: Tensor | None) -> Tensor:
    """One of several dtypes of indices, and an argument that is left out."""
    check_floating("launches_gathered", table=table)
    if index.dtype not in (torch.int32, torch.int64):
        raise RuntimeError(f"launches_gathered: index must be int32 or int64, but is {index.dtype}")
    if table.dim() != 2 or index.dim() != 1:
        raise RuntimeError("launches_gathered: table must have rows and columns, and index be a row")
    if bias is not None and (bias.dtype != table.dtype or bias.dim() != 1 or bias.shape[0] != table.shape[1]):
        raise RuntimeError("launches_gathered: bias must be a row like those of table")
    if bias is None:
        bias = table.new_zeros(table.shape[1])
    out = table.new_empty(index.shape[0], table.shape[1])
    launch(gather_kernel, index.shape[0], table, index, bias, output(out), block=BLOCK)
    return out


@cuda.jit
def pool_kernel(x, out, window, mean):
    i = cuda.grid(1)
    if i < out.size:
        best = -math.inf
        total = 0.0
        for k in range(window):
            best = max(best, x[i * window + k])
            total += x[i * window + k]
        out[i] = total / window if mean else best


def launches_pooled(x: Tensor, window: int, mode: str) -> Tensor:
    """A string chooses."""
    check_floating("launches_pooled", x=x)
    if mode not in ("max", "mean"):
        raise RuntimeError(f"launches_pooled: mode must be 'max' or 'mean', but is {mode!r}")
    if window < 1 or x.dim() != 1 or x.shape[0] % window != 0:
        raise RuntimeError(f"launches_pooled: x of shape {tuple(x.shape)} has no whole windows of {window}")
    out = x.new_empty(x.shape[0] // window)
    launch_elementwise(pool_kernel, out.numel(), x, output(out), window, mode == "mean")
    return out


@cuda.jit
def blur_kernel(x, out):
    row, column = cuda.grid(2)
    height, width = out.shape
    if row < height and column < width:
        total = x.dtype.type(0)
        count = 0
        for down, right in ((-1, 0), (0, -1), (0, 0), (0, 1), (1, 0)):
            if 0 <= row + down < height and 0 <= column + right < width:
                total += x[row + down, column + right]
                count += 1
        out[row, column] = total / count


def launches_blurred(x: Tensor) -> Tensor:
    """An argument is replaced; a shape is taken apart; blocks are counted in floats."""
    check_floating("launches_blurred", x=x)
    if not x.is_contiguous():
        x = x.contiguous()
    height, width = x.shape
    out = torch.empty((height, width), device=x.device, dtype=x.dtype)
    threads = (16, 16)
    blocks = (math.ceil(height / threads[0]), math.ceil(width / threads[1]))
    launch(blur_kernel, blocks, x, output(out), block=threads)
    return out


@cuda.jit
def sum_kernel(x, sums, n):
    shared = cuda.shared.array(BLOCK, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    shared[t] = x[i] if i < n else 0
    cuda.syncthreads()
    step = BLOCK // 2
    while step:
        if t < step:
            shared[t] += shared[t + step]
        cuda.syncthreads()
        step >>= 1
    if t == 0:
        sums[cuda.blockIdx.x] = shared[0]


def launches_total(x: Tensor) -> Tensor:
    """As many launches as it takes."""
    if x.dtype is not torch.float32:
        raise RuntimeError("launches_total: x must be float32, not %s" % x.dtype)  # noqa: UP031
    current = x.flatten()
    n = len(current)
    while n > 1:
        blocks = math.ceil(n / BLOCK)
        sums = torch.full((blocks,), -1.0, dtype=torch.float32, device=x.device)
        launch(sum_kernel, blocks, current, output(sums), n, block=BLOCK)
        current = sums
        n = blocks
    return current


@cuda.jit
def scaled_kernel(x, out, kept, factor):
    i = cuda.grid(1)
    if i < x.size:
        kept[i] = x[i] > 0
        out[i] = x[i] * factor if x[i] > 0 else 0


def launches_scaled(x: Tensor, factor: float, training: bool) -> tuple[Tensor, Tensor]:
    """A number that a condition replaces, and a result of another dtype in the layout of the first."""
    check_floating("launches_scaled", x=x)
    if not training:
        factor = 1.0
    elif x.numel() > 200:
        ordered = x.contiguous()
        x = ordered
        factor = factor * 1.0
    out = elementwise_output(x)
    kept = torch.zeros_like(out, dtype=torch.bool)
    launch_elementwise(scaled_kernel, out.numel(), flat(x, out), output(flat(out)), output(flat(kept)), factor)
    return out, kept


@cuda.jit
def step_kernel(parameter, gradient, rate):
    i = cuda.grid(1)
    if i < parameter.size:
        parameter[i] -= rate * gradient[i]


def launches_step(parameter: Tensor, gradient: Tensor, rate: float) -> None:
    """In place, checked in a loop over a dictionary."""
    check_floating("launches_step", parameter=parameter, gradient=gradient)
    for name, x in {"parameter": parameter, "gradient": gradient}.items():
        if not x.is_contiguous():
            raise RuntimeError(f"launches_step: {name} must be contiguous; pass {name}.contiguous()")
    launch_elementwise(step_kernel, parameter.numel(), output(parameter.view(-1)), gradient.view(-1), rate)


@cuda.jit
def counted_kernel(count):
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(count, 0, 1)


def launches_counted(x: Tensor, blocks: int) -> Tensor:
    """As many blocks as the call says."""
    if x.dtype != torch.float32:
        raise RuntimeError("launches_counted: x must be float32")
    count = torch.zeros(1, dtype=torch.int32, device=x.device)
    launch(counted_kernel, blocks, output(count), block=32)
    return count


@cuda.jit
def halved_kernel(x, changed):
    i = cuda.grid(1)
    if i < x.size and x[i] > 1:
        x[i] = x[i] // 2
        cuda.atomic.add(changed, 0, 1)


def launches_halved(x: Tensor, most: int, least: int) -> Tensor:
    """Loops that end early: by a number that a kernel wrote, by one of the call, and among known ones."""
    if x.dtype != torch.int64 or x.dim() != 1:
        raise RuntimeError("launches_halved: x must be a row of int64")
    y = torch.empty_like(x)
    y.copy_(x)
    changed = torch.zeros(1, dtype=torch.int32, device=x.device)
    turn = -1
    for turn in range(most):
        if turn % 2 == 1:
            continue
        changed.zero_()
        launch_elementwise(halved_kernel, y.numel(), output(y), output(changed))
        if int(changed) <= least:
            break
    skipped = 0
    for k in (1, 2, 3, 4):
        if k == least:
            continue
        if k > turn:
            skipped = skipped + 10
            break
        skipped += k
    for k in reversed(range(1, most)):
        skipped = (2 * skipped + k) % 97
    left = turn
    before = left
    while True:
        left -= 2
        if left < 0:
            break
    while changed[0].item() > 0 and before >= 0:
        changed.zero_()
        launch_elementwise(halved_kernel, y.numel(), output(y), output(changed))
    total = 0
    for k in range(100):
        total += k
        if total > most:
            break
    launch_elementwise(added_kernel, y.numel(), output(y), 1000 * turn + 100 * skipped + 10 * left + before, total)
    return y


@cuda.jit
def added_kernel(x, number, other):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += number
        x[i] -= 1000000 * other


@cuda.jit
def weighed_kernel(x, out, a, b, c):
    i, j, k = cuda.grid(3)
    if i < x.shape[0] and j < x.shape[1] and k < x.shape[2]:
        out[i, j, k] = a * x[i, j, k] + b * i + c * j + k


def launches_permuted(x: Tensor, power: int, base: float) -> tuple[Tensor, Tensor]:
    """Views of other orders and dtypes, written through one, and powers."""
    if x.dtype not in (torch.float32, torch.float64, torch.int32) or x.dim() != 3:
        raise RuntimeError("launches_permuted: x must have three dimensions")
    wide = x.to(torch.float64)
    out = x.new_zeros(x.shape[1], x.shape[0], x.shape[2], dtype=torch.float64)
    view = out.permute(1, 0, -1).mT.transpose(-1, 1)
    factor = base**power + 2.0**-3 + (3 ** max(power, 0) ^ 1) + x.shape[0] ** 2
    launch(weighed_kernel, x.shape, wide, output(view), factor, 2 ** max(power, 1), base**0.5, block=1)
    ends = x.new_zeros(x.shape[2], 2)
    launch_elementwise(added_kernel, x.shape[2], output(ends[:].select(1, 1)), power, 0)
    launch_elementwise(added_kernel, x.shape[2], output(ends.movedim(-1, 0)[0]), 7, 1)
    return out, ends[-3:-1].to(x.dtype)


@cuda.jit
def shifted_kernel(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = (x[i] if i < x.size else 0) + 100 * (y[i] if i < y.size else 0)


def launches_sliced(x: Tensor, first: int, last: int) -> tuple[Tensor, Tensor]:
    """Parts that begin or end outside of the tensor, or are empty."""
    if x.dtype != torch.int64 or x.dim() != 1:
        raise RuntimeError("launches_sliced: x must be a row of int64")
    out = x.new_zeros(12)
    launch_elementwise(shifted_kernel, 6, x[:5], x[3:], output(out[:6]))
    launch_elementwise(shifted_kernel, 6, x[first:], x[first:last], output(out[6:100]))
    return out, x[max(first, 1) : -1].clone()


def _width_for(n: int) -> int:
    for width in (1, 2, 4):
        if n == width - 1:
            continue
        if n <= width:
            return width
    return 8


def _step_for(n: int) -> int:
    for step in (3, 5):
        if n < step * step:
            if n < 0:
                raise RuntimeError("launches_searched: least must not be negative")
            return step
    raise RuntimeError(f"launches_searched: least must be below 25, but is {n}")


def launches_searched(x: Tensor, most: int, least: int) -> Tensor:
    """Loops that return, or have else: of lengths that the call decides, of known ones, and in a helper."""
    assert x.dtype == torch.int64 and x.dim() == 1, f"launches_searched: x must be a row of int64, not {x.dtype}"
    assert most >= 0, "launches_searched: most must not be negative"
    y = x.clone()
    changed = x.new_zeros(1, dtype=torch.int32)
    for turn in range(most):
        launch_elementwise(halved_kernel, y.numel(), output(y), output(changed))
        if turn > least:
            return y
        if 2 * turn == least:
            break
    else:
        launch_elementwise(added_kernel, y.numel(), output(y), 5, 0)
    width = _width_for(most) + _step_for(least) - 3
    for k in (3, 5, 7):
        for j in range(k):
            if j * k == 2 * most:
                width += 1
                break
        else:
            if k == least:
                return y[:k].clone()
            continue
        break
    else:
        width = 3 * width
    while width > 5:
        width -= 4
        if width == 4:
            break
    else:
        for _ in range(2):
            width += 1
        else:
            launch_elementwise(added_kernel, y.numel(), output(y), width, 0)
    while True:
        width -= 1
        if width < 2:
            return y[width:].clone()


@cuda.jit
def rotated_kernel(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * x[i].conjugate() + 1j * abs(x[i])


def launches_rotated(x: Tensor) -> Tensor:
    """Of both complex dtypes."""
    if x.dtype not in (torch.complex64, torch.complex128):
        raise RuntimeError("launches_rotated: x must be complex")
    out = x.new_empty(x.numel())
    launch_elementwise(rotated_kernel, out.numel(), x.reshape(-1), output(out))
    return out


def launches_branched(x: Tensor, weight: Tensor, most: int, mode: str) -> Tensor:
    """Checks in branches, which know what their condition says, and `raise` in the last one."""
    if not x.is_floating_point():
        raise RuntimeError(f"launches_branched: x must be floating, not {x.dtype}")
    if x.dim() == 2:
        rows, columns = x.shape
    elif x.dim() == 1:
        rows, columns = 1, x.shape[0]
    else:
        raise RuntimeError(f"launches_branched: x must have one or two dimensions, not {x.dim()}")
    if mode == "each":
        if weight.dtype != torch.int32 or weight.dim() != 2:
            raise RuntimeError("launches_branched: weight must be a matrix of int32")
        added = int(weight[0, 0])
    else:
        if weight.dtype != torch.int64 or weight.dim() != 1:
            raise RuntimeError("launches_branched: weight must be a row of int64")
        added = int(weight[0])
    for size in (16, 32, 64):
        if most <= size:
            break
    else:
        raise RuntimeError(f"launches_branched: most must be at most 64, but is {most}")
    out = x.new_empty(rows + size, columns)
    launch_elementwise(filled_kernel, out.numel(), x.reshape(-1), output(out.view(-1)), added)
    out[size, columns - 1] = most + 0.5
    out[1:3] = 7
    if size in (16, 64) and x.size() != (2, 3):
        out[-1] = x.size(0)
    return out


@cuda.jit
def filled_kernel(x, out, added):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + added if i < x.size else added


@cuda.jit
def turned_kernel(x, out, columns):
    held = cuda.shared.array(0, float64)
    row = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        held[j] = x[row, j]
    cuda.syncthreads()
    for j in range(cuda.threadIdx.x, columns, cuda.blockDim.x):
        out[row, columns - 1 - j] = held[j]


def launches_turned(x: Tensor) -> Tensor:
    """Dynamic shared memory, of a size that the call decides."""
    if x.dtype != torch.float64:
        raise RuntimeError("launches_turned: x must be float64")
    rows, columns = x.shape
    out = torch.empty_like(x)
    launch(turned_kernel, rows, x, output(out), columns, block=64, shared=x.element_size() * columns)
    return out


@cuda.jit(device=True)
def wait_for_all(grid):
    grid.sync()


@cuda.jit
def averaged_kernel(x, sums, out, n):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(sums, 0, x[i])
    wait_for_all(grid)
    if i < n:
        out[i] = x[i] - sums[0] / n


def launches_averaged(x: Tensor) -> Tensor:
    """A cooperative launch."""
    if x.dtype != torch.float64 or x.dim() != 1:
        raise RuntimeError("launches_averaged: x must be a row of float64")
    n = x.numel()
    sums = x.new_zeros(1)
    out = torch.empty_like(x)
    launch(averaged_kernel, (n + 31) // 32, x, output(sums), output(out), n, block=32)
    return out
