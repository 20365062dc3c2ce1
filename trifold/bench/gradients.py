"""The gradients with which a pass is timed: of the arguments and results that the op's spec states."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from trifold.errors import SpecError
from trifold.spec.benchmark import Arguments, Benchmark
from trifold.spec.results import NO_GRADIENTS, Gradients
from trifold.workspace import OpFiles

if TYPE_CHECKING:
    from trifold.implementation import Implementation


def with_gradients(files: OpFiles, spec: Any, benchmark: Benchmark) -> Benchmark:
    """``benchmark`` with its gradients and the names of its arguments, unless it states them itself.

    Raises:
        SpecError: the benchmark is of a backward pass and the op has no gradient, or a gradient is stated for an
            argument that does not exist.
    """
    op = _port(files)
    gradients = benchmark.gradients or getattr(spec, "gradients", None) or Gradients()
    if gradients.arguments is None and (getattr(spec, "writes", None) or (op is not None and not op.differentiable)):
        gradients = NO_GRADIENTS
    if gradients.arguments == () and (benchmark.backward or benchmark.training):
        raise SpecError(
            f"{files.spec}: the benchmark '{benchmark.name}' is of a backward pass, and {files.name} has no gradient",
            "remove it, or state op.autograd in ports/*.py and Spec(gradients=...)",
        )
    parameters = benchmark.parameters or _parameters(benchmark, op)
    unknown = [name for name in gradients.arguments or () if op is not None and name not in parameters]
    if unknown:
        raise SpecError(
            f"{files.spec}: the benchmark '{benchmark.name}' has no argument {unknown[0]} to differentiate",
            f"its arguments are {', '.join(parameters)}: name them in Benchmark(parameters=...) or state gradients",
        )
    return replace(benchmark, gradients=gradients, parameters=parameters)


def _port(files: OpFiles) -> Implementation | None:
    """None if it cannot be loaded: the port's rows then say why."""
    from trifold.implementation import load_port

    try:
        return load_port(files)
    except Exception:
        return None


def _parameters(benchmark: Benchmark, op: Implementation | None) -> tuple[str, ...]:
    """Parameters of ``call`` after the function; if none is stated, of the op's public function."""
    plain: Callable[..., Any] = Benchmark.call
    if benchmark.call is not plain:
        return tuple(inspect.signature(benchmark.call).parameters)[1:]
    return () if op is None else tuple(inspect.signature(op.function).parameters)


def split(arguments: Arguments) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments."""
    return ([], dict(arguments)) if isinstance(arguments, Mapping) else (list(arguments), {})


def attached(
    arguments: Arguments, gradients: Gradients, parameters: Sequence[str] = ()
) -> tuple[list[Any], dict[str, Any], dict[str, Tensor]]:
    """The arguments, detached, and those that require a gradient, by name: ``x``, or ``xs[1]`` in a list."""
    leaves: dict[str, Tensor] = {}

    def attach(value: Any, parameter: str, name: str) -> Any:
        if isinstance(value, list | tuple):
            return [attach(one, parameter, f"{name}[{i}]") for i, one in enumerate(value)]
        if not isinstance(value, Tensor):
            return value
        leaf = value.detach()
        wanted = gradients.arguments is None or parameter in gradients.arguments
        if wanted and (leaf.is_floating_point() or leaf.is_complex()):
            leaves[name] = leaf.requires_grad_()
        return leaf

    args, kwargs = split(arguments)
    names = [*parameters, *(f"argument {i}" for i in range(len(parameters), len(args)))]
    args = [attach(value, name, name) for value, name in zip(args, names, strict=False)]
    return args, {name: attach(value, name, name) for name, value in kwargs.items()}, leaves


def differentiable_results(result: Any, gradients: Gradients) -> list[int]:
    """The positions of results with a gradient among :func:`tensors` of ``result``.

    Raises:
        ValueError: none has one, or a stated one has none.
    """
    having = [position for position, one in enumerate(tensors(result)) if one.requires_grad]
    if not having:
        raise ValueError("no result has a gradient: it is computed without autograd")
    if gradients.results is None:
        return having
    lacking = [position for position in gradients.results if position not in having]
    if lacking:
        raise ValueError(f"result {lacking[0]} has no gradient, and the spec states one")
    return list(gradients.results)


def tensors(value: Any) -> list[Tensor]:
    """The tensors in a result, with lists and tuples unpacked."""
    if isinstance(value, tuple) and all(isinstance(one, Tensor) for one in value):
        return list(value)  # the common case, since this is part of the timed code
    if isinstance(value, list | tuple):
        return [tensor for one in value for tensor in tensors(one)]
    return [value] if isinstance(value, Tensor) else []


def require_all(made: Sequence[Tensor | None], leaves: Mapping[str, Tensor]) -> None:
    """Raise ValueError if an argument has no gradient: that pass would do less than the others'."""
    missing = [name for name, gradient in zip(leaves, made, strict=True) if gradient is None]
    if missing:
        raise ValueError(
            f"its results do not depend on {', '.join(missing)}: state the others in Benchmark(gradients=...)"
        )
