"""What torch requires of an operator: opcheck on every operator that the op calls, and torch.compile as one graph.

opcheck runs in the op's process, and its verdict is trusted. For fakes, the process returns shapes, strides and dtypes;
for a compiled op, its results.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from trifold.isolation.tensors import form_of
from trifold.spec import Call, Limits
from trifold.verification.calls import FORMS, FORMS_LIMITS, FORMS_SALT, is_ordinary
from trifold.verification.cell import Cell, Remote
from trifold.verification.checks.contract import others
from trifold.verification.checks.differentiation import (
    Differentiated,
    RightGradients,
    differentiate,
    in_dtype_of_spec,
    require_gradients,
    unit_upstream_gradient,
)
from trifold.verification.checks.dtypes import in_usual_dtype, taken
from trifold.verification.comparison import Expected
from trifold.verification.outcomes import CheckFailed
from trifold.verification.results import as_tuple
from trifold.verification.seeding import seed
from trifold.verification.tolerance import form_mismatch, same_bits

Form = dict[str, Any]  # of a tensor: see form_of
_Dimension = tuple[int, int]  # the position of a result, and the dimension

_FAKE_CALLS = 80
_OTHER_NUMBERS = 2  # for a call, to see whether a size depends on them
_SHAPES = 24  # drawn calls, to find another shape


def _with_gradients(cell: Cell, call: Call) -> tuple[list[Any], dict[str, Any]]:
    arguments = call.arguments(cell.device)
    require_gradients(arguments, call, cell.gradient_paths(call))
    seed(call.seed)
    return arguments


def opcheck(cell: Cell) -> None:
    """torch.library.opcheck on each operator, with the arguments that forward, backward and double backward pass to it.

    Small calls are made, the last one first, until each operator has been called.
    """
    assert isinstance(cell.implementation, Remote)
    unreached = set(cell.implementation.operators)
    cases = 0
    for call in reversed(cell.small_calls()):
        checked = _checked_operators(cell, in_usual_dtype(cell, call))
        unreached -= {name.split("::")[1].split(".")[0] for name in checked}
        cases += len(checked)
        if not unreached:
            cell.cases = cases
            return
    raise CheckFailed(
        f"forward and backward of the small calls (Spec(smooth=...), else samples) call no operator "
        f"{', '.join(sorted(unreached))}; add a call that does, or remove what is unused"
    )


def _checked_operators(cell: Cell, call: Call) -> list[str]:
    cell.begin(call, "smooth")
    answer, _ = cell.process.beside("opcheck", *_with_gradients(cell, call))
    problems: dict[str, str] = answer["problems"]
    for name, problem in problems.items():
        if problem:
            words = problem.partition(": ")[2].strip().splitlines()
            raise CheckFailed(f"{name}: {' '.join(words[:6])}"[:800], call)
    return list(problems)


def fake(cell: Cell) -> None:
    """Fakes have the shape, dtype and strides of the real results: forward and backward, in every layout."""
    if not cell.spec.random:  # a random op reads its generator, which does not exist for fake tensors
        _fake_function(cell)
    for call in _calls_of_each_form(cell):
        cell.begin(call)
        answer = _on_fakes(cell, call, "operators_on_fakes", _with_gradients(cell, call))
        for of_one in answer["operators"]:
            if of_one["elsewhere"]:
                raise CheckFailed(
                    f"{of_one['operator']}() under FakeTensorMode: a result is on torch's default device instead of "
                    "the arguments' device: make it with x.new_empty(...), or with device=x.device",
                    call,
                )
            for made, real in itertools.zip_longest(of_one["fake"], of_one["real"]):
                wrong = (
                    form_mismatch(_of_form(made, real), _of_form(real), "the real one") if made and real else "missing"
                )
                if wrong:
                    raise CheckFailed(f"{of_one['operator']}() under FakeTensorMode: {wrong}", call)


def _calls_of_each_form(cell: Cell) -> list[Call]:
    """Small calls of the spec: one for each dtype and layout of its tensors."""
    drawn = cell.drawn_calls(FORMS_LIMITS, FORMS, salt=FORMS_SALT)
    fixed = (call for _, call in cell.fixed_calls() if call.elements <= 64)
    chosen: dict[object, Call] = {}
    for call in (*cell.small_calls(), *fixed, *drawn):
        chosen.setdefault(tuple((case.dtype, case.layout) for _, case in call.cases()), call)
    return list(chosen.values())


def _on_fakes(cell: Cell, call: Call, what: str, arguments: tuple[list[Any], dict[str, Any]]) -> dict[str, Any]:
    """The answer of the op's process about fakes, which may leave sizes open if the spec says that calls wait."""
    try:
        answer, _ = cell.process.beside(what, *arguments, open_sizes=bool(cell.spec.waits_for_gpu))
    except Exception as error:
        if type(error).__name__ != "DynamicOutputShapeException":
            raise
        raise CheckFailed(
            "a fake leaves a size open (new_dynamic_size): if it depends on numbers in a tensor, which a call then has "
            "to read, say so and why: Spec(waits_for_gpu=...)",
            call,
        ) from None
    found: dict[str, Any] = answer
    return found


def _of_form(form: Form, real: Form | None = None) -> Tensor:
    """A tensor without memory, on the device of the form as far as torch supports that. What a fake leaves open is as
    in the real form."""
    dtype: torch.dtype = getattr(torch, form["dtype"])
    shape, stride = (_filled(form, real, name) for name in ("shape", "stride"))
    return torch.empty_strided(shape, stride, dtype=dtype, device="meta")


def _filled(form: Form, real: Form | None, name: str) -> list[int]:
    others = real[name] if real is not None and len(real[name]) == len(form[name]) else itertools.repeat(0)
    return [other if one is None else one for one, other in zip(form[name], others, strict=False)]


def _fake_function(cell: Cell) -> None:
    """Compare the public function on fake tensors with the reference, on the calls of the values check.

    A size that the fake leaves open must be another one for other numbers in some call's arguments.
    """
    if not cell.calls:
        raise CheckFailed("no case passed the values check, so there is none to fake")
    first_call: dict[_Dimension, Call] = {}
    dependent: set[_Dimension] = set()
    for call in cell.calls[:_FAKE_CALLS]:
        cell.begin(call)
        forms = _on_fakes(cell, call, "fake", call.arguments(cell.device))["forms"]
        results = as_tuple(cell.refer_whole(call))[: len(forms)]
        for form, real in zip(forms, results, strict=True):
            if form["device"] != str(real.device):
                raise CheckFailed(f"under FakeTensorMode, the result is on {form['device']}, not {real.device}", call)
            wrong = form_mismatch(_of_form(form, form_of(real)), real.to("meta"))
            if wrong:
                raise CheckFailed(f"under FakeTensorMode, {wrong}", call)
        left_open = {(i, d) for i, form in enumerate(forms) for d, size in enumerate(form["shape"]) if size is None}
        if left_open - dependent:
            dependent |= _depend_on_numbers(cell, call, results, left_open)
        first_call = dict.fromkeys(left_open, call) | first_call
    for result, dimension in sorted(first_call.keys() - dependent):
        raise CheckFailed(
            f"under FakeTensorMode, the size of dimension {dimension} is left open, but it is the same for other "
            "numbers: let the fake compute it from the arguments' sizes",
            first_call[result, dimension],
        )


def _depend_on_numbers(
    cell: Cell, call: Call, results: Sequence[Tensor], dimensions: Iterable[_Dimension]
) -> set[_Dimension]:
    """The dimensions among those given whose sizes change with the numbers in the call's arguments."""
    others_results = [as_tuple(cell.refer_whole(other)) for other in itertools.islice(others(call), _OTHER_NUMBERS)]
    return {
        (result, dimension)
        for result, dimension in dimensions
        if any(one[result].shape[dimension] != results[result].shape[dimension] for one in others_results)
    }


def small_call(cell: Cell) -> Call:
    """The last small call, in float32 if its tensors are floating and the op takes it. One in which each tensor has
    elements, if there is one: an op may launch nothing for the others."""
    calls = cell.small_calls()
    filled = [call for call in calls if all(math.prod(case.shape) > 0 for _, case in call.cases())]
    return in_usual_dtype(cell, (filled or calls)[-1])


def compiles(cell: Cell) -> str | None:
    """``torch.compile(fullgraph=True)`` of forward and backward: the same results as eager, for two shapes, and in a
    half type with tensors that are not contiguous, if the op takes them."""
    first = small_call(cell)
    for call in (first, _of_another_shape(cell, first), *_of_another_form(cell)):
        cell.begin(call, "smooth")
        before = _launches(cell)
        try:
            got = _compiled(cell, call)
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise CheckFailed(f"{type(error).__name__}: {' '.join(lines[:4])}"[:800], call) from error
        if cell.spec.random:
            _check_random(cell, call, got)
        else:
            _compare_compiled(cell, call, got)
        if _launches(cell) == before:
            raise CheckFailed(
                "under torch.compile no kernel of the op is launched: what computes the result is not what the other "
                "checks have seen",
                call,
            )
    return None


def _launches(cell: Cell) -> int:
    return sum(cell.process.branches().values())


def _of_another_shape(cell: Cell, first: Call) -> Call:
    """A small call of the spec with as many tensors, of as many dimensions, and other sizes."""

    def ranks(call: Call) -> list[int]:
        return [len(case.shape) for _, case in call.cases()]

    def shapes(call: Call) -> list[tuple[int, ...]]:
        return [case.shape for _, case in call.cases()]

    drawn = cell.drawn_calls(Limits(elements=256), _SHAPES, salt=4000)
    others = [
        in_usual_dtype(cell, call)
        for call in (*cell.small_calls(), *drawn)
        if shapes(call) != shapes(first) and is_ordinary(call)
    ]
    large = [call for call in others if all(0 not in shape for shape in shapes(call))]
    for call in (*(call for call in large if ranks(call) == ranks(first)), *large, *others):
        return call
    raise CheckFailed("the spec has no call of another shape than its first smooth one; draw sizes: Spec(calls=...)")


def _of_another_form(cell: Cell) -> Iterator[Call]:
    """A small call of the spec with a tensor that is not contiguous, in a half type if the op takes one.

    Not of a random op, which draws other numbers when compiled.
    """
    if cell.spec.random:
        return
    halves = [dtype for dtype in taken(cell) if dtype.itemsize == 2]
    for call in cell.drawn_calls(Limits(elements=256), 2 * _SHAPES, salt=4100):
        cases = [case for _, case in call.cases()]
        strided = any(case.layout not in ("contiguous", "offset") and math.prod(case.shape) > 1 for case in cases)
        if strided and is_ordinary(call) and all(0 not in case.shape for case in cases):
            yield in_dtype_of_spec(cell, call, halves[0]) if halves else call
            return


def _differentiated(cell: Cell, call: Call) -> Differentiated:
    function: Callable[..., Any] = cell.implementation.function
    return differentiate(cell, call, cell.gradient_paths(call), function, outer=unit_upstream_gradient)


def _compiled(cell: Cell, call: Call) -> Differentiated:
    with cell.process.running(form="compiled"):
        return _differentiated(cell, call)


def _compare_compiled(cell: Cell, call: Call, got: Differentiated) -> None:
    """Compare with the exact results and gradients, within the spec's bounds for the op itself."""
    if wrong := _wrong(cell, call, got):
        plainly = _wrong(cell, call, _differentiated(cell, call))
        raise CheckFailed(f"torch.compile changes {wrong}" if plainly is None else f"{wrong}, as in eager mode", call)


def _wrong(cell: Cell, call: Call, got: Differentiated) -> str | None:
    """What is wrong with a call's results and gradients."""
    paths = cell.gradient_paths(call)
    expected = Expected.of(cell, call)
    results = (*got.results, *expected.native[len(got.results) :])
    if len(results) != len(expected.native):
        return "the number of results"
    for number, (result, of_result) in enumerate(zip(results, expected.native, strict=True)):
        if wrong := form_mismatch(result, of_result) or expected.wrong(number, result):
            return f"the result: {wrong}"
    right = RightGradients.of(cell, call, paths, outer=unit_upstream_gradient)
    for path, grad in zip(paths, got.grads, strict=True):
        if right.native[path] is None or right.exact[path] is None:
            continue
        if wrong := "missing" if grad is None else right.wrong(path, grad):
            return f"the gradient of {cell.name(path)}: {wrong}"
    return None


def _check_random(cell: Cell, call: Call, first: Differentiated) -> None:
    """A compiled random op draws by torch.compile's own rules: the same numbers for the same seed, others in the next
    call."""
    again = _compiled(cell, call)
    if not all(same_bits(a, b) for a, b in zip(first.results, again.results, strict=True)):
        raise CheckFailed("torch.manual_seed does not repeat the compiled op", call)
    other = _compiled(cell, replace(call, seed=call.seed + 1))
    if same_bits(first.results[0], other.results[0]):
        raise CheckFailed("the compiled op draws the same numbers for another seed", call)
