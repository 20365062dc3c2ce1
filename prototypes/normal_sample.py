"""normal_sample: the reference, and the prototype of cuda_src/normal_sample.cuh."""

import torch
from numba import cuda
from torch import Tensor

from trifold.device import add_compensated, block_sum, philox_normal, philox_normals
from trifold.port import philox_state
from trifold.prototype import THREADS_PER_BLOCK, check_alike, check_floating, launch, normals, output, threads_for

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
def normal_sample_backward_kernel(grad, grad_mean, grad_std, rows, columns, shared_noise, seed, offset, state):
    of_warp = cuda.shared.array(WARPS_PER_BLOCK, grad.dtype)
    C = grad.dtype.type
    key = state[0] if state.size > 0 else seed
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        first = 0 if shared_noise else row * columns  # the row's first normal
        plain = C(0)
        lost = C(0)
        weighted = C(0)
        weighted_lost = C(0)
        for group in range(first // 4 + cuda.threadIdx.x, (first + columns + 3) // 4, cuda.blockDim.x):
            z = philox_normals(key, offset, group)
            for lane in range(4):
                column = group * 4 + lane - first
                if column >= 0 and column < columns:
                    value = grad[row, column]
                    plain, lost = add_compensated(plain, lost, value)
                    weighted, weighted_lost = add_compensated(weighted, weighted_lost, value * C(z[lane]))
        plain = block_sum(plain - lost, of_warp)
        weighted = block_sum(weighted - weighted_lost, of_warp)
        if cuda.threadIdx.x == 0:
            grad_mean[row] = plain
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
    outputs, noise = (output(grad_mean), output(grad_std)), (shared_noise, seed, offset, state)
    block = threads_for(columns // 4 + 2)  # a thread computes four normals
    launch(normal_sample_backward_kernel, rows, grad, *outputs, rows, columns, *noise, block=block)
    return grad_mean, grad_std


def _check(condition: bool, problem: str, remedy: str) -> None:
    if not condition:
        raise RuntimeError(f"{problem}; {remedy}")


def _state(op: str, state: Tensor | None, like: Tensor) -> Tensor:
    """The seed's tensor, or an empty one if the seed is a number."""
    if state is None:
        return torch.empty(0, dtype=torch.int64, device=like.device)
    right = state.dtype == torch.int64 and state.numel() == 1 and state.device == like.device
    _check(right, f"{op}: state must be an int64 tensor of one element on {like.device}", "draw it with torch.randint")
    return state.reshape(1)
