"""Requirements of every elementwise op: argument errors, sizes beyond 2³¹, calls for gradcheck."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trifold.spec.call import Call
from trifold.spec.case import TensorCase
from trifold.spec.spec import BadCall, Property, large


def elementwise_smooth(count: int, dtype: torch.dtype = torch.float64) -> tuple[Call, ...]:
    """Small calls in ``dtype``: 0-d, a row, and a matrix."""
    return tuple(
        Call(tuple(TensorCase(shape, dtype, seed=10 + seed) for seed in range(count))) for shape in ((), (3,), (2, 2))
    )


Arguments = tuple[Sequence[Any], dict[str, Any]]


def _tensors_alone(*tensors: Any) -> Arguments:
    return list(tensors), {}


def elementwise_bad_calls(*names: str, arguments: Callable[..., Arguments] = _tensors_alone) -> tuple[BadCall, ...]:
    """Typical invalid calls of an elementwise op on the tensors ``names``.

    Args:
        names: of the tensors.
        arguments: positional and keyword arguments of a call with these tensors; default: only the tensors.
    """

    def call(**changed: Tensor) -> Callable[[str], Arguments]:
        def make(device: str) -> Arguments:
            good = {name: torch.ones(3, device=device) for name in names}
            return arguments(*(changed[name].to(device) if name in changed else good[name] for name in names))

        return make

    def mixed_devices(other: str) -> Callable[[str], Arguments]:
        return lambda device: arguments(*(torch.ones(3, device="cpu" if name == other else device) for name in names))

    integers = torch.ones(3, dtype=torch.int64)
    calls = [
        BadCall("integer dtype", call(**dict.fromkeys(names, integers)), (names[0], "int64")),
        BadCall(
            "complex dtype", call(**dict.fromkeys(names, torch.ones(3, dtype=torch.complex64))), (names[0], "complex64")
        ),
        BadCall("not a tensor", lambda device: arguments(*["three"] * len(names)), (names[0],)),
    ]
    for other in names[1:]:
        both = (names[0], other)
        calls += [
            BadCall("another shape", call(**{other: torch.ones(4)}), (*both, "(3,)", "(4,)")),
            BadCall(
                "transposed", call(**{names[0]: torch.ones(2, 3), other: torch.ones(3, 2)}), (*both, "(2, 3)", "(3, 2)")
            ),
            BadCall("flattened", call(**{names[0]: torch.ones(6), other: torch.ones(2, 3)}), (*both, "(6,)", "(2, 3)")),
            BadCall("a shape that would broadcast", call(**{other: torch.ones(1)}), (*both, "(3,)", "(1,)")),
            BadCall(
                "another dtype", call(**{other: torch.ones(3, dtype=torch.float64)}), (*both, "float32", "float64")
            ),
            BadCall("another device", mixed_devices(other), (*both, "cuda", "cpu"), devices=("cuda",)),
        ]
    return tuple(calls)


def elementwise_large(count: int, eager: Callable[..., Tensor]) -> Property:
    """More than 2³¹ elements (float16): both ends of the result against ``eager`` on the ends of the inputs."""

    def check(function: Callable[..., Any], device: str) -> None:
        n = 2**31 + 1027
        ends = (slice(0, 4096), slice(n - 4096, n))
        inputs = [torch.zeros(n, dtype=torch.float16, device=device) for _ in range(count)]
        for x in inputs:
            for end in ends:
                x[end] = torch.randn(4096, device=device)
        result = function(*inputs)
        for end in ends:
            expected = eager(*(x[end].double() for x in inputs))
            torch.testing.assert_close(result[end].double(), expected, rtol=2e-3, atol=1e-6)

    return large(check, gpu_memory=large_memory(count))


def elementwise_large_backward(count: int, eager: Callable[..., Tensor]) -> Property:
    """More than 2³¹ elements (float16): both ends of the gradients against those of ``eager`` in float64."""

    def check(function: Callable[..., Any], device: str) -> None:
        large_backward(function, eager, shapes=[(2**31 + 1027,)] * count, end=4096, device=device)

    return large(check, gpu_memory=large_memory(count, backward=True), name="large backward")


def large_memory(count: int, *, backward: bool = False) -> int:
    """Bytes of a GPU's memory for a call with ``count`` tensors of 2³¹ float16 elements, and a result of the same size:
    each is in this process and in the op's, and tensors sent there exist once more; backward the upstream gradient and
    the gradients, too."""
    tensors = 4 * count + 6 if backward else 3 * count + 2
    return tensors * 2**32


def large_backward(
    function: Callable[..., Tensor],
    eager: Callable[..., Tensor],
    *,
    shapes: Sequence[tuple[int, ...]],
    end: int,
    device: str,
) -> None:
    """Gradients of all tensors, which are float16 and zero except at both ends of the first dimension.

    Args:
        function, eager: functions of the tensors only. The result has the first tensor's first dimension.
        shapes: of the tensors.
        end: the length of each end along the first dimension.
        device: to run on.
    """
    n = shapes[0][0]
    ends = (slice(0, end), slice(n - end, n))

    def at_the_ends(shape: tuple[int, ...]) -> Tensor:
        x = torch.zeros(shape, dtype=torch.float16, device=device)
        for place in ends:
            x[place] = torch.randn(x[place].shape, device=device)
        return x

    inputs = [at_the_ends(shape).requires_grad_() for shape in shapes]
    result = function(*inputs)
    outer = at_the_ends(tuple(result.shape))
    grads = torch.autograd.grad(result, inputs, outer)
    for place in ends:
        exact = [x.detach()[place].double().requires_grad_() for x in inputs]
        wanted = torch.autograd.grad(eager(*exact), exact, outer[place].double())
        for i, (grad, want) in enumerate(zip(grads, wanted, strict=True)):
            off = float(((grad[place].double() - want).abs() / want.abs().max()).max())
            assert off <= 0.01, f"gradient {i} is off by {off:.3g} of its size at {place}"
