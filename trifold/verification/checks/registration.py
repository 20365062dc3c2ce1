"""What torch asks of an operator: opcheck on every operator that the op calls, and torch.compile as a whole graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from trifold.spec import DTYPES, LAYOUTS, Call, TensorCase
from trifold.spec.case import AnyCase, Layout
from trifold.verification.cell import Cell, CheckFailed, as_tuple
from trifold.verification.checks.differentiation import Forward, forward, in_dtype
from trifold.verification.recorder import Recorder
from trifold.verification.tolerance import form_mismatch, mismatch, same_bits

_FAKE_CALLS = 80


def opcheck(cell: Cell) -> None:
    """torch.library.opcheck on each operator, with the arguments that forward, backward and double backward give it.

    Backward runs once more without a graph of its own: only then may it write over what was kept.
    """
    call = in_dtype(cell.spec.smooth[-1], torch.float32)
    recorder = Recorder(cell.implementation.operators.library.namespace)
    with recorder:
        _backward_twice(forward(cell, call, cell.implementation.function))
        forward(cell, call, cell.implementation.function).values_and_gradients()
    unreached = set(cell.implementation.operators.schemas) - {
        name.split("::")[1].split(".")[0] for name in recorder.seen
    }
    if unreached:
        raise CheckFailed(
            f"forward and backward call no operator {', '.join(sorted(unreached))}; remove what is unused"
        )
    for name, (overload, args, kwargs) in recorder.seen.items():
        cell.cases += 1
        cell.announce(name, call.code(cell.op, cell.device, cell.kind))
        if not overload._schema.is_mutable:
            args = tuple(a.requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args)
        try:
            torch.library.opcheck(overload, args, kwargs)
        except Exception as error:
            first = str(error).strip().splitlines()
            raise CheckFailed(f"{name}: {' '.join(first[:6])}"[:800], call) from error


def fake(cell: Cell) -> None:
    """Fakes have the shape, dtype and strides of the real results: forward and backward, in every layout."""
    if not cell.spec.random:  # a random op reads its generator, which fake tensors have none of
        _fake_function(cell)
    for layout, dtype in zip(LAYOUTS, itertools.cycle(DTYPES)):
        call = _in_layout(in_dtype(cell.spec.smooth[-1], dtype), layout)
        cell.begin(call, "smooth")
        beside = _FakeBeside(cell.implementation.operators.library.namespace)
        with beside:
            _backward_twice(forward(cell, call, cell.implementation.function))
        if beside.wrong:
            raise CheckFailed(beside.wrong, call)


def _fake_function(cell: Cell) -> None:
    """The public function on fake tensors, against the reference on the calls of the values check."""
    if not cell.calls:
        raise CheckFailed("the values check compared no case, so there is none to fake")
    mode = FakeTensorMode()
    for call in cell.calls[:_FAKE_CALLS]:
        cell.begin(call)
        args, kwargs = call.arguments(cell.device)
        results = _on_fakes(cell.implementation.function, args, kwargs, mode)
        for result, real in zip(results, cell.refer(call), strict=True):
            wrong = form_mismatch(result, real)
            if wrong:
                raise CheckFailed(f"under FakeTensorMode, {wrong}", call)


def _on_fakes(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], mode: FakeTensorMode
) -> tuple[Tensor, ...]:
    with mode:
        return as_tuple(function(*[mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args], **kwargs))


class _FakeBeside(TorchDispatchMode):
    """Runs each operator of one namespace on fake tensors too, and keeps the first difference in form."""

    def __init__(self, namespace: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.namespace = namespace
        self.wrong = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace == self.namespace and not self.wrong:
            fakes = _on_fakes(func, args, kwargs or {}, FakeTensorMode())
            for made, real in zip(fakes, as_tuple(result), strict=True):
                wrong = form_mismatch(made, real, "the real one")
                if wrong:
                    self.wrong = f"{func.name()} under FakeTensorMode: {wrong}"
        return result


def _in_layout(call: Call, layout: Layout) -> Call:
    return replace(call, args=tuple(replace(v, layout=layout) if isinstance(v, TensorCase) else v for v in call.args))


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
    return replace(call, args=tuple(_grown_case(v) if isinstance(v, AnyCase) else v for v in call.args))


def _grown_case(case: AnyCase) -> AnyCase:
    return replace(case, shape=tuple(n + 1 for n in case.shape))
