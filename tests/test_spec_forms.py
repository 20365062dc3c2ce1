"""Ops whose results are no new tensors: they write into an argument, return a view of one, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn_specs import cell_here
from trifold.errors import SpecError
from trifold.spec import Call, Gradients, IndexCase, Limits, Result, Spec, TensorCase, any_size
from trifold.verification.calls import Search
from trifold.verification.checks import CHECKS
from trifold.verification.outcomes import CheckFailed


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    rows = draw(any_size(limits.over(8)))
    dtype = draw(st.sampled_from((torch.float32, torch.float64)))
    # Slots differ: two rows in one of them would have no order.
    slots = IndexCase((min(rows, 3),), max(rows, 1), seed=1, order="permutation")
    return Call((TensorCase((rows, 4), dtype, seed=2), TensorCase((min(rows, 3), 4), dtype, seed=3), slots))


def _cache_write(cache: Tensor, new: Tensor, slots: Tensor) -> None:
    cache[slots] = new


def _judge(spec: Spec, reference: Callable[..., Any], function: Callable[..., Any], check: str = "values") -> None:
    cell = cell_here(
        function, reference, spec, files="form", search=Search(4), limits=Limits(4000), differentiable=False
    )
    next(one for one in CHECKS if one.name == check).run(cell)


_LARGE = Call((TensorCase((600, 4)), TensorCase((2, 4), seed=1), IndexCase((2,), 600, order="permutation")))
WRITES = Spec(calls=_calls, writes=("cache",), edges=[_LARGE])


@pytest.mark.parametrize("check", ["values", "repeatable"])
def test_what_an_op_writes_into_is_compared(check: str) -> None:
    _judge(WRITES, _cache_write, _cache_write, check)


def _misses_the_last(cache: Tensor, new: Tensor, slots: Tensor) -> None:
    cache[slots[:-1]] = new[:-1]


def _writes_beside(cache: Tensor, new: Tensor, slots: Tensor) -> None:
    cache[slots] = new
    cache[-1] = 7


def _writes_its_other_argument(cache: Tensor, new: Tensor, slots: Tensor) -> None:
    cache[slots] = new
    new += 1


def _returns_it(cache: Tensor, new: Tensor, slots: Tensor) -> Tensor:
    cache[slots] = new
    return cache


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_misses_the_last, "cache after the call: .* elements differ"),
        (_writes_beside, "cache after the call: .* elements differ"),
        (_writes_its_other_argument, "new was changed by the call"),
        (_returns_it, "a result lies in the memory of cache"),
    ],
)
def test_a_wrong_write_is_found(wrong: Callable[..., Any], message: str) -> None:
    with pytest.raises(CheckFailed, match=message):
        _judge(WRITES, _cache_write, wrong)


_LISTS = Call(
    (
        [TensorCase((700,), seed=1), TensorCase((3,), seed=2)],
        [TensorCase((700,), seed=3), TensorCase((3,), seed=4)],
        TensorCase((), seed=5),
    )
)
STEP = Spec(calls=lambda limits: st.just(_LISTS), writes=("steps", "params"))  # not in the order of the parameters


def _step(params: list[Tensor], grads: list[Tensor], steps: Tensor) -> None:
    for one, grad in zip(params, grads, strict=True):
        one -= grad
    steps += 1


def _leaves_the_last(params: list[Tensor], grads: list[Tensor], steps: Tensor) -> None:
    _step(params[:-1], grads[:-1], steps)


def _counts_twice(params: list[Tensor], grads: list[Tensor], steps: Tensor) -> None:
    _step(params, grads, steps)
    steps += 1


def test_lists_of_tensors_that_an_op_writes_into_are_compared() -> None:
    _judge(STEP, _step, _step)
    for wrong, name in ((_leaves_the_last, r"params\[1\]"), (_counts_twice, "steps")):
        with pytest.raises(CheckFailed, match=f"^{name} after the call: .* elements differ"):
            _judge(STEP, _step, wrong)


def test_a_scale_is_of_the_results_beside_any_number_of_tensors_that_are_written() -> None:
    def step_and_sum(params: list[Tensor], grads: list[Tensor], steps: Tensor) -> Tensor:
        _step(params, grads, steps)
        return steps.clone()

    scaled = replace(STEP, scale=lambda reference, params, grads, steps: steps.abs() + 1)
    _judge(scaled, step_and_sum, step_and_sum)


def test_a_write_that_the_spec_does_not_state_is_found() -> None:
    with pytest.raises(
        CheckFailed, match=r"cache was changed by the call; if the op writes into it, Spec\(writes=\(\"cache\""
    ):
        _judge(Spec(calls=_calls), _cache_write, _cache_write)


def _first_rows(cache: Tensor, new: Tensor, slots: Tensor) -> Tensor:
    return cache[: len(slots)]


def test_a_view_is_one_where_the_spec_says_so() -> None:
    views = Spec(calls=_calls, views={0: "cache"})
    _judge(views, _first_rows, _first_rows)
    with pytest.raises(CheckFailed, match="is no view of cache"):
        _judge(views, _first_rows, lambda *args: _first_rows(*args).clone())
    with pytest.raises(CheckFailed, match="a result lies in the memory of cache"):
        _judge(Spec(calls=_calls), _first_rows, _first_rows)


def test_results_that_are_missing_are_named() -> None:
    with pytest.raises(CheckFailed, match=r"the call returns \(a tensor, None\), the reference \(a tensor, a tensor\)"):
        _judge(Spec(calls=_calls), lambda *args: (args[1] * 2, args[1] + 1), lambda *args: (args[1] * 2, None))


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"writes": ["cach"]}, r"Spec\(writes=...\) names 'cach'"),
        ({"views": {0: "slot"}}, r"Spec\(views=...\) names 'slot'"),
        ({"ordered": {"deterministic": True}}, r"Spec\(ordered=...\) names 'deterministic'"),
        ({"gradients": Gradients(arguments=("q",))}, r"Spec\(gradients=Gradients\(arguments=...\)\) names 'q'"),
    ],
    ids=str,
)
def test_an_argument_that_the_reference_does_not_have_is_refused(stated: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=f"form.py: {says}, which is no parameter of the reference: cache, new, slots"):
        _judge(Spec(calls=_calls, **stated), _cache_write, _cache_write)


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"views": {1: "cache"}}, r"Spec\(views=...\) names result 1"),
        ({"gradients": Gradients(results=(0, 3))}, r"Spec\(gradients=Gradients\(results=...\)\) names result 3"),
        ({"results": (Result(), Result())}, r"Spec\(results=...\) names result 1"),
        ({"computed_by_torch": {"result 2": "sums"}}, r"Spec\(computed_by_torch=...\) names result 2"),
    ],
    ids=str,
)
def test_a_result_that_the_reference_does_not_have_is_refused(stated: dict[str, Any], says: str) -> None:
    with pytest.raises(CheckFailed, match=f"form.py: {says}; the reference has one result, 0\n.*correct the spec"):
        _judge(Spec(calls=_calls, **stated), _first_rows, _first_rows)


def test_results_whose_number_depends_on_the_call_are_not_counted() -> None:
    def parts(cache: Tensor, new: Tensor, slots: Tensor) -> list[Tensor]:
        return [2 * new for _ in slots]

    _judge(Spec(calls=_calls, computed_by_torch={"result 9": "sums"}), parts, parts)


def test_a_gradient_of_an_argument_that_the_reference_does_not_have_is_refused() -> None:
    with pytest.raises(SpecError, match="names 'gradient 3', but the reference has parameters 0 to 2: cache, new, slo"):
        _judge(Spec(calls=_calls, computed_by_torch={"gradient 3": "sums"}), _first_rows, _first_rows)


@pytest.mark.parametrize("stated", [{"views": {"cache": 0}}, {"gradients": Gradients(results=(-1,))}], ids=str)
def test_a_result_is_named_by_its_position(stated: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"names a result by its position, 0 for the first, not "):
        Spec(calls=_calls, **stated)


@st.composite
def _plain_calls(draw: st.DrawFn, limits: Limits) -> Call:
    dtype = draw(st.sampled_from((torch.float16, torch.bfloat16)))
    return Call((TensorCase((draw(any_size(limits)),), dtype, seed=draw(st.integers(0, 9))),))


def _half_and_sign(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x * 0.3, x > 0, (x * 0).long()


def test_only_floating_results_are_rounded() -> None:
    """Of an op with results of bools and integers, too."""
    spec = Spec(calls=_plain_calls, rounded_once="in float32")
    _judge(spec, _half_and_sign, lambda x: ((x.float() * 0.3).to(x.dtype), x > 0, (x * 0).long()), "rounding")
    with pytest.raises(CheckFailed, match="are not the exact ones rounded to nearest"):
        _judge(spec, _half_and_sign, lambda x: ((x.float() * 0.302).to(x.dtype), *_half_and_sign(x)[1:]), "rounding")


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        (lambda limits: st.just((TensorCase((2,)),)), r"what Spec\(calls=...\) drew is \(TensorCase.* is no Call"),
        (lambda limits: Call((TensorCase((2,)),)), r"Spec\(calls=...\) returned Call.* is no strategy of hypothesis"),
    ],
    ids=["no call", "no strategy"],
)
def test_calls_that_are_not_drawn_or_no_calls_are_refused(calls: Any, says: str) -> None:
    with pytest.raises((TypeError, SpecError), match=says):
        _judge(Spec(calls=calls), torch.neg, torch.neg)
