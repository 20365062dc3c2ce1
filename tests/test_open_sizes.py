"""The row `fake` of ops whose results have sizes that depend on numbers in tensors, as in torch.masked_select."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.drawn_specs import cell_here
from trifold.spec import Call, Limits, Spec, TensorCase
from trifold.verification.calls import Search
from trifold.verification.checks import CHECKS
from trifold.verification.outcomes import CheckFailed

_WAITS = "the size of the result is a count"


@st.composite
def _calls(draw: st.DrawFn, limits: Limits) -> Call:
    shape = (draw(st.integers(1, min(limits.elements, 40))), 3)
    return Call((TensorCase(shape, seed=1), TensorCase(shape[:1], torch.bool, seed=draw(st.integers(0, 9)))))


def _kept(x: Tensor, mask: Tensor) -> Tensor:
    return x[mask]


def _open(x: Tensor, mask: Tensor) -> Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size(), 3)


def _open_in_each_dimension(x: Tensor, mask: Tensor) -> Tensor:
    return x.new_empty([torch.library.get_ctx().new_dynamic_size() for _ in range(2)])


def _open_in_another_dimension(x: Tensor, mask: Tensor) -> Tensor:
    return x.new_empty(3, torch.library.get_ctx().new_dynamic_size())


def _of_another_dtype(x: Tensor, mask: Tensor) -> Tensor:
    return mask.new_empty(torch.library.get_ctx().new_dynamic_size(), 3)


def _column_major(x: Tensor, mask: Tensor) -> Tensor:
    return x.new_empty(3, torch.library.get_ctx().new_dynamic_size()).t()


def _all(x: Tensor, mask: Tensor) -> Tensor:
    return torch.empty_like(x)


SPEC = Spec(calls=_calls, waits_for_gpu=_WAITS)


@pytest.fixture
def with_fake() -> Iterator[Callable[[Callable[..., Any], Callable[..., Any]], Callable[..., Tensor]]]:
    """Returns a function that makes an operator of a computation and a fake."""
    with torch.library._scoped_library("trifold_tests", "DEF") as library:

        def define(compute: Callable[..., Any], fake: Callable[..., Any]) -> Callable[..., Tensor]:
            library.define("kept(Tensor x, Tensor mask) -> Tensor")
            library.impl("kept", compute, "CPU")
            torch.library.register_fake("trifold_tests::kept", fake, lib=library)
            made: Callable[..., Tensor] = torch.ops.trifold_tests.kept.default
            return made

        yield define


def _judge(spec: Spec, reference: Callable[..., Any], function: Callable[..., Any]) -> None:
    search, limits = Search(8), Limits(4000)
    cell = cell_here(function, reference, spec, files="kept", search=search, limits=limits, differentiable=False)
    for name in ("values", "fake"):
        next(one for one in CHECKS if one.name == name).run(cell)


def test_a_fake_leaves_open_what_depends_on_numbers(with_fake: Any) -> None:
    _judge(SPEC, _kept, with_fake(_kept, _open))


def test_an_open_size_needs_the_statement_that_a_call_waits(with_fake: Any) -> None:
    with pytest.raises(CheckFailed, match=r"leaves a size open .*: Spec\(waits_for_gpu=\.\.\.\)"):
        _judge(replace(SPEC, waits_for_gpu=""), _kept, with_fake(_kept, _open))


@pytest.mark.parametrize(
    ("fake", "message"),
    [
        (_open_in_another_dimension, "the result's shape is"),
        (_of_another_dtype, "the result's dtype is torch.bool"),
        (_column_major, "the result's strides are"),
        (_all, "the result's shape is"),
        (_open_in_each_dimension, "the size of dimension 1 is left open, .* the same for other numbers"),
    ],
)
def test_what_does_not_depend_on_numbers_is_compared(with_fake: Any, fake: Callable[..., Any], message: str) -> None:
    with pytest.raises(CheckFailed, match=message):
        _judge(SPEC, _kept, with_fake(_kept, fake))
