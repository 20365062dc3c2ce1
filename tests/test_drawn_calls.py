"""Which of a spec's calls are drawn: all kinds, and for the row ``rounding`` enough of floating-point numbers."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from hypothesis import strategies as st

from trifold.spec import Call, Limits, Spec, TensorCase, tensors
from trifold.spec.case import AliasCase
from trifold.verification.calls import CallSource, Search
from trifold.verification.checks.rounding import suitable_calls

SELDOM = (torch.float32, *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool) * 3)

THREE = (torch.float32, torch.float64, torch.bfloat16)


class Calls(CallSource):
    """Of a prototype in the simulator, which has the fewest calls."""

    kind = "prototype"

    def __init__(self, spec: Spec, seed: int) -> None:
        self.spec, self.device, self.search, self.limits = spec, "cpu", Search(8, seed), Limits()
        self._kept, self._strategies = {}, {}


def drawn_alone(limits: Limits) -> st.SearchStrategy[Call]:
    return tensors(st.just((limits.fewest,)), dtypes=SELDOM).map(lambda x: Call((x,)))


def drawn_dtype_first(limits: Limits) -> st.SearchStrategy[Call]:
    sizes = st.integers(limits.fewest, 8)
    return st.sampled_from(THREE).flatmap(
        lambda dtype: sizes.map(lambda size: Call((TensorCase((size,), dtype),))),
    )


def drawn_twice(limits: Limits) -> st.SearchStrategy[Call]:
    x = TensorCase((limits.fewest,), torch.float32)
    return st.sampled_from((Call((x, AliasCase(0))), Call((x, x))))


def test_the_first_of_what_a_spec_draws_first_comes_with_all_sizes() -> None:
    calls = Calls(Spec(calls=drawn_dtype_first), 0).drawn_calls(Limits(elements=8, fewest=1), 100, salt=1)
    drawn = {(call.dtype, call.elements) for call in calls}
    assert all(len({size for of, size in drawn if of == dtype}) >= 6 for dtype in THREE)


@pytest.mark.parametrize("seed", range(3))
def test_an_op_that_mostly_takes_integers_has_calls_of_floating_point_numbers(seed: int) -> None:
    found = list(islice(suitable_calls(Calls(Spec(calls=drawn_alone), seed), 256), 4))
    assert [call.dtype for _, call in found] == [torch.float32] * 4


def test_calls_with_one_tensor_given_twice_are_left_out() -> None:
    found = list(islice(suitable_calls(Calls(Spec(calls=drawn_twice), 0), 256), 4))
    assert len(found) == 4 and not any(isinstance(case, AliasCase) for _, call in found for case in call.args)
