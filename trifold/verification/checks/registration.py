"""What torch asks of an operator: opcheck on every operator that the op calls, and torch.compile as a whole graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from trifold.spec import Call, TensorCase
from trifold.verification.cell import Cell, CheckFailed, NotRun, as_tuple
from trifold.verification.checks.differentiation import Forward, forward, in_dtype
from trifold.verification.tolerance import form_mismatch, mismatch, same_bits

OpCall = tuple[Any, tuple[Any, ...], dict[str, Any]]

_FAKE_CALLS = 80


class _Recorder(TorchDispatchMode):
    """Keeps the first call of each operator of one namespace, with detached arguments."""

    def __init__(self, namespace: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.namespace = namespace
        self.seen: dict[str, OpCall] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == self.namespace and func.name() not in self.seen:
            detached = tuple(a.detach().clone() if isinstance(a, Tensor) else a for a in args)
            self.seen[func.name()] = (func, detached, dict(kwargs or {}))
        return func(*args, **(kwargs or {}))


def opcheck(cell: Cell) -> None:
    """torch.library.opcheck on each operator, with the arguments that forward, backward and double backward give it."""
    call = in_dtype(cell.spec.smooth[-1], torch.float32)
    recorder = _Recorder(cell.implementation.operators.library.namespace)
    with recorder:
        _backward_twice(forward(cell, call, cell.implementation.function))
    unreached = set(cell.implementation.operators.schemas) - {
        name.split("::")[1].split(".")[0] for name in recorder.seen
    }
    if unreached:
        raise CheckFailed(
            f"forward and backward call no operator {', '.join(sorted(unreached))}; remove what is unused"
        )
    for name, (overload, args, kwargs) in recorder.seen.items():
        cell.cases += 1
        cell.announce(name, call.code(cell.op, cell.device))
        args = tuple(a.requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args)
        try:
            torch.library.opcheck(overload, args, kwargs)
        except Exception as error:
            first = str(error).strip().splitlines()
            raise CheckFailed(f"{name}: {' '.join(first[:6])}"[:800], call) from error


def fake(cell: Cell) -> None:
    """The fake's shape, dtype and strides are the real ones, on the calls of the values check."""
    if cell.spec.random:
        raise NotRun("a random op reads its generator, which fake tensors have none of; opcheck runs its operators")
    mode = FakeTensorMode()
    for call in cell.calls[:_FAKE_CALLS]:
        cell.begin(call)
        args, kwargs = call.arguments(cell.device)
        with mode:
            faked = [mode.from_tensor(value) if isinstance(value, Tensor) else value for value in args]
            results = as_tuple(cell.implementation.function(*faked, **kwargs))
        for result, real in zip(results, cell.refer(call), strict=True):
            wrong = form_mismatch(result, real)
            if wrong:
                raise CheckFailed(f"under FakeTensorMode, {wrong}", call)
    if not cell.cases:
        raise CheckFailed("the values check compared no case, so there is none to fake")


def _backward_twice(made: Forward) -> None:
    outer = [torch.ones_like(output).requires_grad_() for output in made.outputs]
    grads = torch.autograd.grad(made.outputs, made.inputs, outer, create_graph=True)
    differentiable_grads = [g for g in grads if g.requires_grad]
    if differentiable_grads:
        try:
            torch.autograd.grad([g.sum() for g in differentiable_grads], [*made.inputs, *outer], allow_unused=True)
        except RuntimeError as error:
            if "has no gradient" not in str(error):
                raise


def compiles(cell: Cell) -> str | None:
    """``torch.compile(fullgraph=True)`` of forward and backward: the same results as eager, for two shapes."""
    torch._dynamo.reset()
    compiled = torch.compile(cell.implementation.function, fullgraph=True)
    first = in_dtype(cell.spec.smooth[-1], torch.float32)
    for call in (first, _grown(first)):
        cell.begin(call, "smooth")
        try:
            got = forward(cell, call, compiled).values_and_gradients()
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise CheckFailed(f"{type(error).__name__}: {' '.join(lines[:4])}"[:800], call) from error
        if cell.spec.random:
            _check_random(cell, call, compiled, got)
            continue
        eager_values = forward(cell, call, cell.implementation.function).values_and_gradients()
        for compiled_value, eager in zip(got, eager_values, strict=True):
            wrong = mismatch(compiled_value, eager.double(), eager, None)
            if wrong:
                raise CheckFailed(f"torch.compile changes the result: {wrong}", call)
    return None


def _check_random(cell: Cell, call: Call, compiled: Callable[..., Any], first: list[Tensor]) -> None:
    """A compiled random op draws by torch.compile's own rules: repeatable by seed, different between calls."""
    again = forward(cell, call, compiled).values_and_gradients()
    if not all(same_bits(a, b) for a, b in zip(first, again, strict=True)):
        raise CheckFailed("torch.manual_seed does not repeat the compiled op", call)
    other = forward(cell, replace(call, seed=call.seed + 1), compiled).values_and_gradients()
    if same_bits(first[0], other[0]):
        raise CheckFailed("the compiled op draws the same numbers for another seed", call)


def _grown(call: Call) -> Call:
    """The call with each dimension one longer."""
    args = tuple(replace(v, shape=tuple(n + 1 for n in v.shape)) if isinstance(v, TensorCase) else v for v in call.args)
    return replace(call, args=args)
