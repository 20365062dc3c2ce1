"""normal_sample: the reference, and the prototype of cuda_src/normal_sample.cuh."""

import math

import torch
from numba import cuda, float64
from torch import Tensor

from trifold.device import block_sum, philox_normal, philox_normals
from trifold.port import philox_state
from trifold.prototype import THREADS_PER_BLOCK, check_alike, check_floating, launch, output

# ------------------------------------------------------------------------------------------------- reference


def reference(
    mean: Tensor,
    std: Tensor,
    num_samples: int,
    *,
    shared_noise: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    seed, offset, state = philox_state(mean.device, generator)
    key = torch.full((1,), seed, dtype=torch.int64, device=mean.device) if state is None else state
    rows = 1 if shared_noise else mean.shape[0]
    dtype = torch.float64 if mean.dtype == torch.float64 else torch.float32
    z = normals(key, offset, rows * num_samples, dtype).reshape(rows, num_samples)
    return (mean.to(dtype)[:, None] + std.to(dtype)[:, None] * z).to(mean.dtype)


def philox(counter: tuple[Tensor, ...], key: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Philox 4x32-10 on int64 tensors that hold 32-bit words. A product wraps round at 64 bits; its bits are right."""
    low = 0xFFFFFFFF
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1 = (p1 >> 32 & low) ^ c1 ^ k0, p1 & low
        c2, c3 = (p0 >> 32 & low) ^ c3 ^ k1, p0 & low
        k0, k1 = k0 + 0x9E3779B9 & low, k1 + 0xBB67AE85 & low
    return c0, c1, c2, c3


def normals(seed: Tensor, offset: int, count: int, dtype: torch.dtype) -> Tensor:
    """The first ``count`` normals of the draw that ``(seed, offset)`` name, computed in ``dtype``."""
    low = 0xFFFFFFFF
    group = torch.arange(-(-count // 4), dtype=torch.int64, device=seed.device)
    draw = torch.full_like(group, offset // 4)
    words = philox((draw & low, draw >> 32 & low, group & low, group >> 32 & low), (seed & low, seed >> 32 & low))
    first, second = box_muller(words[0], words[1], dtype), box_muller(words[2], words[3], dtype)
    return torch.stack([*first, *second], dim=1).reshape(-1)[:count]


def box_muller(radius_word: Tensor, angle_word: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Two normals: a radius times cosine and sine of an angle.

    The angle is (π/4)·w; bit 1 of its word mirrors it to the next quarter turn, bit 0 adds a half turn. The uniform
    numbers u in (0, 1] and w in [-1, 1] are rounded to float32 at each step, whatever ``dtype`` is.
    """
    u = (radius_word.to(torch.float32) * 2.0**-32 + 2.0**-33).to(dtype)
    signed = angle_word - (angle_word >> 31 << 32)
    angle = 0.25 * math.pi * (signed.to(torch.float32) * 2.0**-31 + 2.0**-32).to(dtype)
    radius = torch.sqrt(-2 * torch.log(u))
    turned = torch.where(angle_word & 1 == 1, -radius, radius)
    cosine, sine = turned * torch.cos(angle), turned * torch.sin(angle)
    mirrored = angle_word & 2 == 2
    return torch.where(mirrored, sine, cosine), torch.where(mirrored, cosine, sine)


# ------------------------------------------------------------------------------------------------- prototype

WARPS_PER_BLOCK = THREADS_PER_BLOCK // 32


@cuda.jit
def normal_sample_kernel(mean, std, samples, rows, columns, shared_noise, seed, offset, state):
    i = cuda.grid(1)
    if i < rows * columns:
        row = i // columns
        normal = i - row * columns if shared_noise else i
        key = state[0] if state.size > 0 else seed
        z = philox_normal(key, offset, normal // 4, normal % 4)
        samples[row, i - row * columns] = mean[row] + std[row] * z


@cuda.jit
def normal_sample_backward_kernel(grad, grad_mean, grad_std, columns, shared_noise, seed, offset, state):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, float64)
    row = cuda.blockIdx.x
    key = state[0] if state.size > 0 else seed
    first = 0 if shared_noise else row * columns  # the row's first normal
    total = 0.0
    weighted = 0.0
    for group in range(first // 4 + cuda.threadIdx.x, (first + columns + 3) // 4, cuda.blockDim.x):
        z = philox_normals(key, offset, group)
        for lane in range(4):
            column = group * 4 + lane - first
            if column >= 0 and column < columns:
                total += grad[row, column]
                weighted += grad[row, column] * z[lane]
    total = block_sum(total, of_warp)
    weighted = block_sum(weighted, of_warp)
    if cuda.threadIdx.x == 0:
        grad_mean[row] = total
        grad_std[row] = weighted


def normal_sample(
    mean: Tensor, std: Tensor, num_samples: int, shared_noise: bool, seed: int, offset: int, state: Tensor | None
) -> Tensor:
    check_alike("normal_sample", mean=mean, std=std)
    _check(mean.dim() == 1, "normal_sample: mean and std must have one dimension", "flatten them with mean.reshape(-1)")
    _check(num_samples >= 0, f"normal_sample: num_samples must not be negative, but is {num_samples}", "pass 0 or more")
    state = _state("normal_sample", state, mean)
    rows = mean.shape[0]
    samples = mean.new_empty((rows, num_samples))
    grid = -(-rows * num_samples // THREADS_PER_BLOCK)
    noise = (shared_noise, seed, offset, state)
    launch(normal_sample_kernel, grid, mean, std, output(samples), rows, num_samples, *noise)
    return samples


def normal_sample_backward(
    grad: Tensor, shared_noise: bool, seed: int, offset: int, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    check_floating("normal_sample_backward", grad=grad)
    _check(grad.dim() == 2, "normal_sample_backward: grad must have two dimensions", "pass the gradient of the samples")
    state = _state("normal_sample_backward", state, grad)
    rows, columns = grad.shape
    grad_mean, grad_std = grad.new_empty(rows), grad.new_empty(rows)
    noise = (shared_noise, seed, offset, state)
    launch(normal_sample_backward_kernel, rows, grad, output(grad_mean), output(grad_std), columns, *noise)
    return grad_mean, grad_std


def _check(condition: bool, problem: str, remedy: str) -> None:
    if not condition:
        raise RuntimeError(f"{problem}; {remedy}")


def _state(op: str, state: Tensor | None, like: Tensor) -> Tensor:
    """The seed's tensor, or an empty one where the seed is a number."""
    if state is None:
        return torch.empty(0, dtype=torch.int64, device=like.device)
    right = state.dtype == torch.int64 and state.numel() == 1 and state.device == like.device
    _check(right, f"{op}: state must be an int64 tensor of one element on {like.device}", "draw it with torch.randint")
    return state.reshape(1)
