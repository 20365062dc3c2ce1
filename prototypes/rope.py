"""rope: the reference, and the prototype of cuda_src/rope.cuh."""

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import check_floating, launch, output, row_output

# ------------------------------------------------------------------------------------------------- reference


def reference(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return _rotated(q, cos, sin).contiguous(), _rotated(k, cos, sin).contiguous()


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


# ------------------------------------------------------------------------------------------------- prototype

ROPE_BLOCK = 256  # most threads
HEADS_A_THREAD = 4  # of q or of k


@cuda.jit(device=True)
def rotate_heads(x, out, first, position, pair, pairs, cosine, sine):
    for head in range(first, min(first + HEADS_A_THREAD, x.shape[0])):
        x1 = x[head, position, pair]
        x2 = x[head, position, pair + pairs]
        out[head, position, pair] = x1 * cosine - x2 * sine
        out[head, position, pair + pairs] = x2 * cosine + x1 * sine


@cuda.jit
def rope_kernel(q, k, cos, sin, q_out, k_out, positions, pairs, inverse):
    position = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
    if position >= positions:
        return
    q_groups = (q.shape[0] + HEADS_A_THREAD - 1) // HEADS_A_THREAD
    k_groups = (k.shape[0] + HEADS_A_THREAD - 1) // HEADS_A_THREAD
    for pair in range(cuda.threadIdx.x, pairs, cuda.blockDim.x):
        cosine = cos[position, pair]
        sine = -sin[position, pair] if inverse else sin[position, pair]
        first_group = cuda.blockIdx.y * cuda.blockDim.z + cuda.threadIdx.z
        for group in range(first_group, q_groups + k_groups, cuda.gridDim.y * cuda.blockDim.z):
            if group < q_groups:
                rotate_heads(q, q_out, group * HEADS_A_THREAD, position, pair, pairs, cosine, sine)
            else:
                rotate_heads(k, k_out, (group - q_groups) * HEADS_A_THREAD, position, pair, pairs, cosine, sine)


def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, inverse: bool) -> tuple[Tensor, Tensor]:
    _check_arguments(q, k, cos, sin)
    q_out, k_out = row_output(q), row_output(k)
    if q.numel() + k.numel() == 0:
        return q_out, k_out
    positions, pairs = cos.shape
    operands = [_heads(x) for x in (q, k)]
    results = [output(_heads(x)) for x in (q_out, k_out)]
    groups = sum(-(-x.shape[0] // HEADS_A_THREAD) for x in operands)
    # Threads along the pairs of a row first, then along positions, then along groups, up to a block.
    across = min(pairs, ROPE_BLOCK)
    down = min(positions, ROPE_BLOCK // across)
    deep = min(groups, ROPE_BLOCK // (across * down), 64)
    grid = -(-positions // down), min(-(-groups // deep), 65_535)
    arguments = *operands, cos, sin, *results, positions, pairs, inverse
    launch(rope_kernel, grid, *arguments, block=(across, down, deep))
    return q_out, k_out


def _heads(x: Tensor) -> Tensor:
    """``x`` as heads of positions × columns."""
    positions, columns = x.shape[-2:]
    return x.reshape(x.numel() // (positions * columns), positions, columns)


def _check_arguments(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> None:
    check_floating("rope", q=q)
    for name, x in (("k", k), ("cos", cos), ("sin", sin)):
        _check(
            x.device == q.device,
            f"q and {name} must be on the same device, but q is on {q.device} and {name} is on {x.device}; "
            f"move one with {name}.to(q.device)",
        )
        _check(
            x.dtype == q.dtype,
            f"q and {name} must have the same dtype, but q is {_name(q)} and {name} is {_name(x)}; "
            f"convert one with {name}.to(q.dtype)",
        )
    for name, x in (("q", q), ("k", k)):
        _check(
            x.dim() >= 2,
            f"{name} must have positions and columns as its last two dimensions, but is of shape {tuple(x.shape)}; "
            f"pass a row as {name}[None]",
        )
        _check(
            x.shape[-1] % 2 == 0,
            f"{name} must have an even number of columns, but is of shape {tuple(x.shape)}; its first half is turned "
            "with its second half",
        )
    _check(
        q.shape[-2:] == k.shape[-2:],
        f"q and k must have the same last two dimensions, positions and columns, but q is {tuple(q.shape)} and k is "
        f"{tuple(k.shape)}; other dimensions, the heads, may differ",
    )
    positions, pairs = q.shape[-2], q.shape[-1] // 2
    for name, table in (("cos", cos), ("sin", sin)):
        _check(
            table.shape == (positions, pairs),
            f"{name} must have the shape ({positions}, {pairs}), positions and half of the columns of q, but is "
            f"{tuple(table.shape)} for q of shape {tuple(q.shape)}; cut it with {name}[:{positions}]",
        )


def _check(condition: bool, problem: str) -> None:
    if not condition:
        raise RuntimeError(f"rope: {problem}")


def _name(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
