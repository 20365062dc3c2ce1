"""The recorded calls: ``cases.json`` beside this file, as :mod:`trifold.graduate.cases` wrote it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trifold.spec.case import Call, IndexCase, TensorCase

Arguments = tuple[list[Any], dict[str, Any]]


def read() -> dict[str, Any]:
    """For each op: ``smooth``, ``results``, ``gradients`` and ``bad_calls``."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8"))
    return found


def call_of(data: dict[str, Any]) -> Call:
    """The call that was written as ``data``."""
    kwargs = {name: _case(value) for name, value in data["kwargs"].items()}
    return Call(tuple(map(_case, data["args"])), kwargs, data["seed"])


def smooth(cases: dict[str, Any], dtype: torch.dtype) -> list[Call]:
    """The calls at which the op is differentiable."""
    return [call_of(recorded | {"args": _in_dtype(recorded["args"], dtype)}) for recorded in cases["smooth"]]


def _in_dtype(args: list[Any], dtype: torch.dtype) -> list[Any]:
    name = str(dtype).removeprefix("torch.")
    return [{**value, "dtype": name} if isinstance(value, dict) and "dtype" in value else value for value in args]


def bad_arguments(data: dict[str, Any], device: str) -> Arguments:
    """The arguments of a call that must raise."""

    def made(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        dtype = getattr(torch, value["dtype"])
        tensor = torch.tensor(value["values"], dtype=torch.complex128 if dtype.is_complex else None)
        return tensor.reshape(value["shape"]).to(dtype).to(device if value["moves"] else "cpu")

    return [made(value) for value in data["args"]], {name: made(value) for name, value in data["kwargs"].items()}


def numbers(values: list[float], like: Tensor) -> Tensor:
    """Recorded float64 values in the shape of ``like``, on the CPU."""
    return torch.tensor(values, dtype=torch.float64).reshape(like.shape)


def as_tuple(result: Any) -> tuple[Tensor, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def invoke(function: Callable[..., Any], call: Call, device: str) -> tuple[Tensor, ...]:
    """The results of a call."""
    args, kwargs = call.arguments(device)
    torch.manual_seed(call.seed)
    return as_tuple(function(*args, **kwargs))


def of_tensors(function: Callable[..., Any], call: Call, device: str) -> tuple[Callable[..., Any], tuple[Tensor, ...]]:
    """``function`` as one of the call's positional tensors alone, with the random state fixed; and those tensors."""
    args, kwargs = call.arguments(device)
    positions = [position for position, value in enumerate(call.args) if isinstance(value, TensorCase)]
    inputs = tuple(args[position].detach().requires_grad_() for position in positions)

    def closed(*tensors: Tensor) -> Any:
        full = list(args)
        for position, tensor in zip(positions, tensors, strict=True):
            full[position] = tensor
        torch.manual_seed(call.seed)
        return function(*full, **kwargs)

    return closed, inputs


def _case(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    fields = {**value, "shape": tuple(value["shape"])}
    if "below" in fields:
        return IndexCase(**fields)
    return TensorCase(**{**fields, "dtype": getattr(torch, value["dtype"])})
