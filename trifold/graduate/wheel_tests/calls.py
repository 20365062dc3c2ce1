"""The recorded calls: ``cases.json`` in this folder, written by :mod:`trifold.graduate.cases`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trifold.spec.call import Call, put_at, tensor_at
from trifold.spec.case import AliasCase, IndexCase, TensorCase

Arguments = tuple[list[Any], dict[str, Any]]


def read() -> dict[str, Any]:
    """For each op: ``small``, ``smooth``, ``results``, ``gradients`` and ``bad_calls``."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8"))
    return found


def call_of(data: dict[str, Any]) -> Call:
    """The call recorded as ``data``."""
    kwargs = {name: _case(value) for name, value in data["kwargs"].items()}
    return Call(tuple(map(_case, data["args"])), kwargs, data["seed"])


def bad_arguments(data: dict[str, Any], device: str) -> Arguments:
    """The arguments of a call that must raise."""

    def made(value: Any) -> Any:
        if isinstance(value, list):
            return [made(one) for one in value]
        if not isinstance(value, dict):
            return value
        dtype = getattr(torch, value["dtype"])
        memory = torch.tensor(value["values"], dtype=torch.complex128 if dtype.is_complex else None).to(dtype)
        return memory.to(device if value["moves"] else "cpu").as_strided(value["shape"], value["strides"])

    return [made(value) for value in data["args"]], {name: made(value) for name, value in data["kwargs"].items()}


def numbers(values: list[float], like: Tensor) -> Tensor:
    """Recorded values in the shape of ``like``, on the CPU: float64, or the dtype of ``like`` if that is not
    floating."""
    dtype = torch.float64 if like.is_floating_point() else like.dtype
    return torch.tensor(values, dtype=dtype).reshape(like.shape)


def as_tuple(result: Any) -> tuple[Tensor, ...]:
    """All tensors of a result, from any nesting of tuples and lists."""
    if isinstance(result, tuple | list):
        return tuple(tensor for one in result for tensor in as_tuple(one))
    return () if result is None else (result,)


def invoke(function: Callable[..., Any], data: dict[str, Any], device: str) -> tuple[Tensor, ...]:
    """The results of a recorded call, followed by the arguments that it writes into."""
    call = call_of(data)
    arguments = call.arguments(device)
    torch.manual_seed(call.seed)
    results = as_tuple(function(*arguments[0], **arguments[1]))
    return (*results, *(tensor_at(arguments, tuple(path)) for path in data["written"]))


def of_tensors(
    function: Callable[..., Any], data: dict[str, Any], device: str
) -> tuple[Callable[..., tuple[Tensor, ...]], tuple[Tensor, ...]]:
    """``function`` as one of only the recorded call's tensors that have a gradient, with the random state fixed, and
    with only the results that have one; and those tensors."""
    call, paths = call_of(data), [tuple(path) for path in data["inputs"]]
    first = call.arguments(device)
    inputs = tuple(tensor_at(first, path).detach().requires_grad_() for path in paths)

    def closed(*tensors: Tensor) -> tuple[Tensor, ...]:
        arguments = call.arguments(device)
        for path, tensor in zip(paths, tensors, strict=True):
            put_at(arguments, path, tensor)
        arguments[0][:] = call.with_aliases(arguments[0])
        torch.manual_seed(call.seed)
        results = as_tuple(function(*arguments[0], **arguments[1]))
        return tuple(results[number] for number in data["outputs"])

    return closed, inputs


def _case(value: Any) -> Any:
    if isinstance(value, list):
        return [_case(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "of" in value:
        return AliasCase(**value)
    fields = {**value, "shape": tuple(value["shape"]), "dtype": getattr(torch, value["dtype"])}
    return IndexCase(**fields) if "below" in fields else TensorCase(**fields)
