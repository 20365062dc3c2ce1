"""The references of gradients, for unusual calls."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

from tests.drawn_specs import cell_here
from tests.wrong.entry import GALLERY
from trifold.implementation import reference
from trifold.spec import AliasCase, Call, Sample, Spec, TensorCase
from trifold.spec.load import load_spec
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import (
    RightGradients,
    differentiate,
    exactly,
    gradient_scales,
    in_dtype_of_spec,
    special_upstream_gradient,
    upstream_gradient,
)
from trifold.verification.checks.gradcheck import gradcheck_float32
from trifold.verification.checks.gradients import _compare_specials
from trifold.verification.outcomes import CheckFailed


def _cell(op: str, function: Any = None) -> Cell:
    """A cell whose implementation is ``function``, or else the reference."""
    files = GALLERY.op(op)
    right = reference(files)
    return cell_here(function or right, right, load_spec(files), files=files)


def test_a_call_of_integers_has_no_gradient_and_no_scale_of_one() -> None:
    """The spec of cumsum states the scale by the upstream gradient, which there is none of."""
    call = Call((TensorCase((2, 5), torch.int64, fill="exact"),))
    assert RightGradients.of(_cell("cumsum"), call, ()).scale == {}


def test_the_scale_of_a_softmax_whose_row_has_minus_inf_is_a_number() -> None:
    call = Call((TensorCase((3, 17), torch.float64, fill="masked", seed=3),))
    (scale,) = gradient_scales(_cell("softmax"), call, ((0,),))
    assert scale is not None
    assert bool(scale.isfinite().all())
    assert bool((call.arguments("cpu")[0][0] == -torch.inf).any())


@pytest.mark.parametrize(
    ("shape", "stride", "offset"),
    [
        ((4, 4), (0, 0), 0),
        ((13,), (0,), 0),
        ((5, 4), (1, 5), 0),
        ((9, 9), (12, 1), 3),
        ((4, 6), (6, 1), 0),
        ((2, 3, 4), (12, 4, 1), 0),
        ((11,), (2,), 1),
        ((65, 65), (0, 1), 0),
        ((63, 105), (105, 1), 0),
    ],
)
def test_an_upstream_gradient_is_contiguous_expanded_transposed_or_a_part(
    shape: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> None:
    grad = upstream_gradient(torch.empty(shape), torch.float32, 1)
    assert (tuple(grad.shape), grad.stride(), grad.storage_offset()) == (shape, stride, offset)


def test_parameters_that_are_wider_than_half_rows_in_the_spec_remain_so() -> None:
    def call(*dtypes: torch.dtype) -> Call:
        return Call(tuple(TensorCase((3,), dtype) for dtype in dtypes))

    single, half = torch.float32, torch.float16
    cell = _cell("mul")
    cell.spec = dataclasses.replace(
        cell.spec,
        calls=lambda limits: st.just(call(half, single)),
        samples=[Sample("half", call(half, single), "")],
        edges=(),
    )
    assert in_dtype_of_spec(cell, call(single, single), half) == call(half, single)
    assert in_dtype_of_spec(cell, call(half, single), torch.float64) == call(torch.float64, torch.float64)


@pytest.mark.parametrize(("grad", "right"), [(torch.inf, True), (-torch.inf, True), (torch.nan, True), (1.0, False)])
def test_a_difference_of_infinities_may_be_one_of_them(grad: float, right: bool) -> None:
    undefined, scale = torch.tensor([torch.nan, 2.0]), torch.ones(2, dtype=torch.float64)
    of_x = RightGradients(4.0, {(0,): undefined}, {(0,): undefined.double()}, {(0,): scale}, 1.0, lambda path: ())
    assert (of_x.wrong((0,), torch.tensor([grad, 2.0])) is None) == right
    assert of_x.wrong((0,), torch.tensor([torch.nan, torch.inf])) is not None


def test_the_gradient_of_a_tensor_that_is_two_arguments_is_a_sum_of_rounded_terms() -> None:
    """The gradients for weight and bias cancel at some of the columns."""
    cell, half = _cell("layer_norm"), torch.bfloat16
    x = TensorCase((2, 2048), half, "offset", seed=1954, offset=7)
    weight = TensorCase((2048,), half, "innermost", fill="tiny", seed=18197, offset=1)
    call, apart = (Call((x, weight, third), {"eps": 0.25}) for third in (AliasCase(1), weight))
    right = RightGradients.of(cell, call, ((0,), (1,)))
    terms = differentiate(cell, apart, ((1,), (2,)), cell.reference, convert=exactly(cell)).grads
    first, second = (term for term in terms if term is not None)
    rounded = first.to(half) + second.to(half)
    exact = first + second
    assert bool(((rounded - exact).abs() > 100 * torch.finfo(half).eps * exact.abs()).any())
    assert right.wrong((1,), rounded) is None
    assert right.wrong((1,), rounded + (first.abs() / 16).to(half)) is not None


@pytest.mark.parametrize(
    ("off", "fill", "seed"),
    [(1 - 2.0**-24, "wide", 0), (1 + 2.0**-23, "normal", 0), (1 - 2.0**-24, "normal", 33), (1 + 2.0**-23, "wide", 47)],
)
def test_the_sign_of_infinity_times_a_rounding_error_is_free(off: float, fill: Any, seed: int) -> None:
    """In rows of one number, x - mean is an error of rounding; an infinite upstream gradient passes its sign on to the
    gradient of weight. (In the last two, eight multiples of the row have an error of the same sign.)"""

    def another_mean(x: torch.Tensor, weight: torch.Tensor, bias: Any, eps: float = 1e-5) -> torch.Tensor:
        centered = x - x.mean(-1, keepdim=True) * off
        return centered * (centered.square().mean(-1, keepdim=True) + eps).rsqrt() * weight

    x = TensorCase((3, 10), torch.float32, "expanded", fill, seed=seed, dim=1)
    call = Call((x, TensorCase((10,), torch.float32, seed=seed), None), seed=seed)
    _compare_specials(_cell("layer_norm", another_mean), call, special_upstream_gradient)


class _InfinitelySteep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * 2.0**-10 * factor

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grads[0] * torch.inf, None


@pytest.mark.parametrize(("share", "right"), [(1, True), (0.9, False)])
def test_a_gradient_may_overflow_where_the_references_just_does_not(share: float, right: bool) -> None:
    factor = torch.finfo(torch.float32).max * share
    call = Call((TensorCase((4,), torch.float32),))
    cell = cell_here(
        lambda x: _InfinitelySteep.apply(x, factor),  # type: ignore[no-untyped-call]
        lambda x: x * 2.0**-10 * factor,
        Spec(calls=lambda limits: st.just(call)),
        files="op",
    )
    with contextlib.nullcontext() if right else pytest.raises(CheckFailed, match="inf where the exact one is"):
        _compare_specials(cell, call, lambda result, dtype, seed: torch.ones_like(result))


def test_a_smooth_call_next_to_a_kink_is_told_from_a_wrong_gradient() -> None:
    def clipped(x: torch.Tensor) -> torch.Tensor:
        return x.clamp(min=float(CORNER.make()[1]))

    smooth = (Call((CORNER,)),)
    spec = Spec(calls=lambda limits: st.sampled_from(smooth), smooth=smooth)
    with pytest.raises(
        CheckFailed, match=r"Jacobian mismatch(.|\n)*so does the reference: it has no derivative within"
    ):
        gradcheck_float32(cell_here(clipped, clipped, spec, files="clipped"))
    with pytest.raises(CheckFailed, match="Jacobian mismatch") as wrong:
        gradcheck_float32(cell_here(lambda x: x + x.detach(), lambda x: 2 * x, spec, files="doubled"))
    assert "reference" not in wrong.value.message


CORNER = TensorCase((3,), torch.float64, seed=4)
