"""Argument checks of a prototype's launch functions, with the messages of ``<trifold/binding.h>``.

Each raises ``RuntimeError``, as torch's own operators do, with a message that names the arguments and the remedy.
"""

from __future__ import annotations

import torch
from torch import Tensor

FLOATING = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def check_floating(op: str, **tensors: Tensor) -> None:
    """Require each of ``tensors`` (argument name = tensor) to be float64, float32, float16 or bfloat16."""
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATING:
            raise RuntimeError(
                f"{op}: {name} must be float64, float32, float16 or bfloat16, not {_dtype_name(tensor.dtype)}; "
                f"convert it with {name}.to(torch.float32)"
            )


def check_alike(op: str, **tensors: Tensor) -> None:
    """Require ``tensors`` to have one device, one floating dtype and one shape: those of the first one."""
    (first, x), *others = tensors.items()
    for name, y in others:
        if y.device != x.device:
            raise RuntimeError(
                f"{op}: {first} and {name} must be on the same device, but {first} is on {x.device} and {name} is on "
                f"{y.device}; move one with {name}.to({first}.device)"
            )
    check_floating(op, **{first: x})
    for name, y in others:
        if y.dtype != x.dtype:
            raise RuntimeError(
                f"{op}: {first} and {name} must have the same dtype, but {first} is {_dtype_name(x.dtype)} and {name} "
                f"is {_dtype_name(y.dtype)}; convert one with {name}.to({first}.dtype)"
            )
        if y.shape != x.shape:
            raise RuntimeError(
                f"{op}: {first} and {name} must have the same shape, but {first} is {tuple(x.shape)} and {name} is "
                f"{tuple(y.shape)}; broadcast them first with torch.broadcast_tensors({first}, {name})"
            )


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
