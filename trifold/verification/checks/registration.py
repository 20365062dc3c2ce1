"""What torch asks of an operator: opcheck on every operator that the op calls, and torch.compile as a whole graph.

opcheck runs beside the op, and its verdict is trusted; of fakes the forms come back, of a compiled op its results.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from trifold.spec import DTYPES, LAYOUTS, Call, TensorCase
from trifold.spec.case import AnyCase, Layout
from trifold.verification.cell import Cell, CheckFailed, Remote
from trifold.verification.checks.differentiation import forward, in_dtype, require_gradients, tensor_positions
from trifold.verification.tolerance import form_mismatch, mismatch, same_bits

_FAKE_CALLS = 80


def _with_gradients(cell: Cell, call: Call) -> tuple[list[Any], dict[str, Any]]:
    args, kwargs = call.arguments(cell.device)
    require_gradients(args, call, tensor_positions(call))
    torch.manual_seed(call.seed)
    return args, kwargs


def opcheck(cell: Cell) -> None:
    """torch.library.opcheck on each operator, with the arguments that forward, backward and double backward give it."""
    call = in_dtype(cell.spec.smooth[-1], torch.float32)
    cell.begin(call, "smooth")
    told, _ = cell.process.beside("opcheck", *_with_gradients(cell, call))
    problems: dict[str, str] = told["problems"]
    assert isinstance(cell.implementation, Remote)
    unreached = set(cell.implementation.operators) - {name.split("::")[1].split(".")[0] for name in problems}
    if unreached:
        raise CheckFailed(
            f"forward and backward call no operator {', '.join(sorted(unreached))}; remove what is unused"
        )
    cell.cases = len(problems)
    for name, problem in problems.items():
        if problem:
            words = problem.partition(": ")[2].strip().splitlines()
            raise CheckFailed(f"{name}: {' '.join(words[:6])}"[:800], call)


def fake(cell: Cell) -> None:
    """Fakes have the shape, dtype and strides of the real results: forward and backward, in every layout."""
    if not cell.spec.random:  # a random op reads its generator, which fake tensors have none of
        _fake_function(cell)
    for layout, dtype in zip(LAYOUTS, itertools.cycle(DTYPES)):
        call = _in_layout(in_dtype(cell.spec.smooth[-1], dtype), layout)
        cell.begin(call, "smooth")
        told, _ = cell.process.beside("operators_on_fakes", *_with_gradients(cell, call))
        for of_one in told["operators"]:
            for made, real in itertools.zip_longest(of_one["fake"], of_one["real"]):
                wrong = form_mismatch(_of_form(made), _of_form(real), "the real one") if made and real else "missing"
                if wrong:
                    raise CheckFailed(f"{of_one['operator']}() under FakeTensorMode: {wrong}", call)


def _of_form(form: dict[str, Any]) -> Tensor:
    """A tensor without memory; on the device that the form names, as far as torch tells."""
    dtype: torch.dtype = getattr(torch, form["dtype"])
    return torch.empty_strided(form["shape"], form["stride"], dtype=dtype, device="meta")


def _fake_function(cell: Cell) -> None:
    """The public function on fake tensors, against the reference on the calls of the values check."""
    if not cell.calls:
        raise CheckFailed("the values check compared no case, so there is none to fake")
    for call in cell.calls[:_FAKE_CALLS]:
        cell.begin(call)
        told, _ = cell.process.beside("fake", *call.arguments(cell.device))
        for form, real in zip(told["forms"], cell.refer(call), strict=True):
            if form["device"] != str(real.device):
                raise CheckFailed(f"under FakeTensorMode, the result is on {form['device']}, not {real.device}", call)
            wrong = form_mismatch(_of_form(form), real.to("meta"))
            if wrong:
                raise CheckFailed(f"under FakeTensorMode, {wrong}", call)


def _in_layout(call: Call, layout: Layout) -> Call:
    return replace(call, args=tuple(replace(v, layout=layout) if isinstance(v, TensorCase) else v for v in call.args))


def compiles(cell: Cell) -> str | None:
    """``torch.compile(fullgraph=True)`` of forward and backward: the same results as eager, for two shapes."""
    first = in_dtype(cell.spec.smooth[-1], torch.float32)
    for call in (first, _grown(first)):
        cell.begin(call, "smooth")
        try:
            got = _compiled(cell, call)
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise CheckFailed(f"{type(error).__name__}: {' '.join(lines[:4])}"[:800], call) from error
        if cell.spec.random:
            _check_random(cell, call, got)
            continue
        eager_values = forward(cell, call, cell.implementation.function).values_and_gradients()
        for compiled_value, eager in zip(got, eager_values, strict=True):
            wrong = mismatch(compiled_value, eager.double(), eager, None)
            if wrong:
                raise CheckFailed(f"torch.compile changes the result: {wrong}", call)
    return None


def _compiled(cell: Cell, call: Call) -> list[Tensor]:
    function: Callable[..., Any] = cell.implementation.function
    with cell.process.running(form="compiled"):
        return forward(cell, call, function).values_and_gradients()


def _check_random(cell: Cell, call: Call, first: list[Tensor]) -> None:
    """A compiled random op draws by torch.compile's own rules: repeatable by seed, different between calls."""
    again = _compiled(cell, call)
    if not all(same_bits(a, b) for a, b in zip(first, again, strict=True)):
        raise CheckFailed("torch.manual_seed does not repeat the compiled op", call)
    other = _compiled(cell, replace(call, seed=call.seed + 1))
    if same_bits(first[0], other[0]):
        raise CheckFailed("the compiled op draws the same numbers for another seed", call)


def _grown(call: Call) -> Call:
    """The call with each dimension one longer."""
    return replace(call, args=tuple(_grown_case(v) if isinstance(v, AnyCase) else v for v in call.args))


def _grown_case(case: AnyCase) -> AnyCase:
    return replace(case, shape=tuple(n + 1 for n in case.shape))
