"""Launch functions with dtypes that may be None, limits of dtypes, and complex numbers as pairs; see test_dtypes.py."""

import math

import torch
from numba import cuda
from torch import Tensor

from trifold.prototype import launch, launch_elementwise, output


def reference(x: Tensor, scale: float, out_dtype: torch.dtype | None = None) -> Tensor:
    dtype = torch.int8 if out_dtype is None else out_dtype
    limits = torch.iinfo(dtype)
    return (x * scale).clamp(limits.min, limits.max).trunc().to(dtype)


@cuda.jit
def clamp_kernel(x, scale, low, high, y, n):
    i = cuda.grid(1)
    if i < n:
        value = x[i] * scale
        if value > high:
            y[i] = high
        elif value < low:
            y[i] = low
        else:
            y[i] = int(value)


def dtypes(x: Tensor, scale: float, out_dtype: torch.dtype | None = None) -> Tensor:
    """An integer dtype, with its limits."""
    if not torch.is_floating_point(x):
        raise RuntimeError(f"dtypes: x must be floating, not {x.dtype}")
    if out_dtype is not None and out_dtype not in (torch.int8, torch.int16, torch.uint8):
        raise RuntimeError(f"dtypes: out_dtype must be int8, int16 or uint8, not {out_dtype}")
    dtype = torch.int8 if out_dtype is None else out_dtype
    limits = torch.iinfo(dtype)
    y = torch.empty(x.shape, dtype=dtype, device=x.device)
    n = torch.numel(x)
    launch_elementwise(clamp_kernel, n, torch.reshape(x, (-1,)), scale, limits.min, limits.max, output(y.view(-1)), n)
    return y


@cuda.jit
def copy_kernel(x, y, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        y[i] = x[i]


def dtypes_or(x: Tensor, out_dtype: torch.dtype | None, threads: int | None) -> Tensor:
    """The dtype of the argument, and a number, unless others are given."""
    if x.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"dtypes_or: x must be float32 or float64, not {x.dtype}")
    if out_dtype is not None and out_dtype not in (torch.float32, torch.float16):
        raise RuntimeError(f"dtypes_or: out_dtype must be float32 or float16, not {out_dtype}")
    y = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    threads = threads or 64
    blocks = 2
    if x.is_cuda:
        blocks = torch.cuda.get_device_properties(x.device).multi_processor_count
    launch(copy_kernel, blocks, x.reshape(-1), output(y.view(-1)), x.numel(), block=threads)
    return y


def dtypes_branch(x: Tensor, out_dtype: torch.dtype | None) -> Tensor:
    """A branch that assigns the argument."""
    if x.dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"dtypes_branch: x must be float32 or float64, not {x.dtype}")
    if out_dtype is not None and out_dtype not in (torch.float32, torch.float16):
        raise RuntimeError(f"dtypes_branch: out_dtype must be float32 or float16, not {out_dtype}")
    if out_dtype is None:
        out_dtype = x.dtype
    y = torch.empty(x.shape, dtype=out_dtype, device=x.device)
    launch_elementwise(copy_kernel, x.numel(), x.reshape(-1), output(y.view(-1)), x.numel())
    return y


@cuda.jit
def turn_kernel(x, cos, sin, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i, 0] = x[i, 0] * cos - x[i, 1] * sin
        y[i, 1] = x[i, 0] * sin + x[i, 1] * cos


def dtypes_turned(x: Tensor, angle: float) -> Tensor:
    """Complex numbers as pairs, and functions of a number."""
    if not x.is_complex():
        raise RuntimeError(f"dtypes_turned: x must be complex, not {x.dtype}")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    pairs, turned = torch.view_as_real(x.reshape(-1)), torch.view_as_real(y.view(-1))
    n = x.numel()
    launch_elementwise(turn_kernel, n, pairs, math.cos(angle), math.sin(angle), output(turned), n)
    return y


@cuda.jit
def conjugate_kernel(x, y, n):
    i = cuda.grid(1)
    if i < n:
        a = x[i]
        y[i] = complex(a.real, -a.imag)


def dtypes_conjugated(x: Tensor) -> Tensor:
    """A kernel for each complex dtype, which names none."""
    if x.dtype not in (torch.complex64, torch.complex128):
        raise RuntimeError(f"dtypes_conjugated: x must be complex64 or complex128, not {x.dtype}")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    launch_elementwise(conjugate_kernel, x.numel(), x.reshape(-1), output(y.view(-1)), x.numel())
    return y
