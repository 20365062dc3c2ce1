"""What an op must not depend on, nor keep: torch's settings, the calling thread, what its parameters held before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from trifold.spec import Call
from trifold.verification.cell import Cell
from trifold.verification.checks.agreement import Run, require_same, runs_of
from trifold.verification.checks.differentiation import require_gradients
from trifold.verification.outcomes import CheckFailed
from trifold.verification.seeding import seed
from trifold.verification.tolerance import same_numbers

_HOOKS = "torch.autograd.graph.saved_tensors_hooks"
_OTHERS = {
    "default dtype": "with another default dtype (torch.set_default_dtype)",
    "thread": "in another thread",
    "deterministic": "with torch.use_deterministic_algorithms(True)",
    "matmul precision": "with torch.set_float32_matmul_precision('medium')",
    "autocast": "under torch.autocast",
}


def same_elsewhere(cell: Cell, call: Call) -> None:
    """The op depends on its arguments alone: not on torch's settings, nor on the thread that calls."""
    plain = Run.of(cell, call)
    others = [name for name in _OTHERS if name != "autocast" or not _is_cast(cell, call)]
    try:
        _same_with(cell, call, plain, others)
    except CheckFailed:
        for name in others:  # find which of them it is
            _same_with(cell, call, plain, [name])
        raise


def _is_cast(cell: Cell, call: Call) -> bool:
    """Whether torch's autocast changes the dtype of the reference's results, or refuses it: the op may do the same."""
    plain = cell.refer(call)
    try:
        with torch.autocast(cell.device):
            return any(a.dtype != b.dtype for a, b in zip(plain, cell.refer(call), strict=True))
    except CheckFailed:
        return True


def _same_with(cell: Cell, call: Call, plain: Run, others: Sequence[str]) -> None:
    where = " and ".join(_OTHERS[name] for name in others)
    try:
        with cell.process.running(others=tuple(others)):
            run = Run.of(cell, call)
    except Exception as error:
        raise CheckFailed(f"{where}, it fails: {error}", call) from error
    for a, b in zip(plain.results, run.results, strict=True):
        if a.dtype != b.dtype:
            raise CheckFailed(f"{where}, a result is {b.dtype}, not {a.dtype}", call)
    require_same(cell, call, plain, run, what="what an op must not depend on", where=("as it is", where))


def keeps_no_argument(cell: Cell, call: Call) -> None:
    """After a call, nothing but the caller holds an argument or a result, as an unbounded cache would; and the random
    states of Python and NumPy are unchanged."""
    arguments = call.arguments(cell.device)
    require_gradients(arguments, call, cell.gradient_paths(call))
    answer, _ = cell.process.beside("what_is_kept", *arguments)
    if answer["drawn"]:
        raise CheckFailed(
            f"a call draws or seeds the application's random numbers, those of {' and '.join(answer['drawn'])}",
            call,
        )
    for what, calls in (
        ("kept", "the call"),
        ("kept for gradients", "a call with gradients, without a backward pass,"),
    ):
        if answer[what]:
            raise CheckFailed(
                f"after {calls} the op still holds {answer[what]} of its arguments and results: a memory leak", call
            )


def leaks_nothing(cell: Cell, call: Call) -> None:
    """What calls allocate is freed once the caller has dropped the results."""
    arguments = call.arguments(cell.device)
    require_gradients(arguments, call, cell.gradient_paths(call))
    answer, _ = cell.process.beside("what_is_freed", *arguments)
    if answer["leaked"] > 0:
        raise CheckFailed(
            f"further calls allocate {answer['leaked']} bytes that are not freed once the caller has dropped the "
            "results: a memory leak",
            call,
        )


def follows_parameters(cell: Cell, call: Call) -> None:
    """After an ``nn.Parameter`` got other numbers in place, as from an optimizer, results and gradients are those of
    the new numbers."""
    _require_same_beside(
        cell,
        call,
        "changed_parameters",
        "after a parameter (torch.nn.Parameter) got other numbers in place, the result or a gradient is still made "
        "with the earlier ones: the op keeps a copy of it",
    )


def permits_hooks(cell: Cell, call: Call) -> None:
    """With hooks on the tensors saved for backward, as those of ``torch.autograd.graph.save_on_cpu``, results and
    gradients are the same, and backward does not change what the hooks return."""
    answer = _require_same_beside(
        cell,
        call,
        "hooks_on_saved_tensors",
        f"with hooks on saved tensors ({_HOOKS}) the result or a gradient is another one",
    )
    if answer["changed"]:
        raise CheckFailed(
            f"backward changes in place what a hook on saved tensors returned ({_HOOKS}): the memory is the hook's",
            call,
        )


def _require_same_beside(cell: Cell, call: Call, what: str, problem: str) -> Mapping[str, Any]:
    """Two runs of a call by a function of :mod:`trifold.isolation.beside` have the same results and gradients, unless
    their order is free; returns its answer."""
    arguments = call.arguments(cell.device)
    require_gradients(arguments, call, cell.gradient_paths(call))
    seed(call.seed)
    answer: Mapping[str, Any]
    answer, tensors = cell.process.beside(what, *arguments)
    for a, b in () if cell.is_unordered(call) else zip(*runs_of(answer, tensors), strict=True):
        if (a is None) != (b is None) or (a is not None and b is not None and not same_numbers(a, b)):
            raise CheckFailed(problem, call)
    return answer
