"""Shared by the norms: second derivatives, by torch's operators, and the parts into which rows are divided for sums."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ports._norms import norm_backward_of_backward
from prototypes._norms import share_rows
from verify._norms import norm_far_from_zero, norm_one_pass

ROWS, COLUMNS, EPS = (2, 3), 4, 0.1


def _mean(values: Tensor) -> Tensor:
    return values.mean(-1, keepdim=True)


def _rstd(x: Tensor, centred: bool) -> Tensor:
    difference = x - _mean(x) if centred else x
    return (_mean(difference.square()) + EPS).rsqrt().squeeze(-1)


def _backward(grad: Tensor, x: Tensor, weight: Tensor, centred: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Backward of a norm as torch's autograd has it, differentiable in turn."""
    with torch.enable_grad():
        bias = torch.zeros_like(weight).requires_grad_()
        difference = x - _mean(x) if centred else x
        y = difference * _rstd(x, centred).unsqueeze(-1) * weight + bias
        of_x, of_weight, of_bias = torch.autograd.grad(y, (x, weight, bias), grad, create_graph=True)
    return of_x, of_weight, of_bias


def _numbers() -> list[Tensor]:
    """grad, x, weight, and upstream gradients of what backward makes of them."""
    generator = torch.Generator().manual_seed(1)
    shapes = [(*ROWS, COLUMNS)] * 2 + [(COLUMNS,)] + [(*ROWS, COLUMNS)] + [(COLUMNS,)] * 2
    return [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("parameters", [True, False])
def test_second_derivatives_are_those_of_autograd(centred: bool, parameters: bool) -> None:
    grad, x, weight, *upstream = _numbers()
    used = upstream if parameters else upstream[:1]
    results = _backward(grad, x, weight, centred)[: len(used)]
    want = torch.autograd.grad(results, (grad, x, weight), used)
    got = norm_backward_of_backward(
        grad, x, weight, _rstd(x, centred), *used, *[None] * (3 - len(used)), centred=centred
    )
    torch.testing.assert_close(got, want)


def test_a_norm_without_weight_has_no_gradient_for_it() -> None:
    grad, x, weight, *upstream = _numbers()
    ones = torch.ones_like(weight).requires_grad_()
    want = norm_backward_of_backward(grad, x, ones, _rstd(x, True), *upstream, centred=True)
    got = norm_backward_of_backward(grad, x, None, _rstd(x, True), *upstream, centred=True)
    torch.testing.assert_close(got[:2], want[:2])
    assert got[2] is None


@pytest.mark.parametrize("centred", [True, False])
def test_third_derivatives_go_through_the_statistics(centred: bool) -> None:
    """rstd is handed over as a number that nothing depends on: a gradient that took it so would fail here."""

    def second(grad: Tensor, x: Tensor, weight: Tensor, *upstream: Tensor) -> list[Tensor]:
        rstd = _rstd(x.detach(), centred)
        derivatives = norm_backward_of_backward(grad, x, weight, rstd, *upstream, centred=centred)
        return [derivative for derivative in derivatives if derivative is not None]

    assert torch.autograd.gradcheck(second, _numbers(), fast_mode=True)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(rows=st.integers(0, 1 << 24), columns=st.integers(0, 1 << 20))
def test_shares_hold_every_row_once(rows: int, columns: int) -> None:
    parts, rows_a_part = share_rows(rows, columns)
    assert parts >= 1
    assert parts * rows_a_part >= rows
    assert parts == 1 or (parts - 1) * rows_a_part < rows
    assert parts == 1 or parts * -(-columns // 32) <= 8 * 132


@pytest.mark.parametrize("forgotten", ["a row", "a column", "nothing"])
def test_the_check_of_one_pass_finds_what_a_gradient_forgets(forgotten: str) -> None:
    """As of the first shape, whose gradient of the weight is wrong in one term, or in one column."""

    class Forgetful(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):  # type: ignore[no-untyped-def]
            ctx.save_for_backward(x, weight)
            return _rms_norm(x, weight)

        @staticmethod
        def backward(ctx, grad):  # type: ignore[no-untyped-def]
            with torch.enable_grad():
                of_x, of_weight = torch.autograd.grad(_rms_norm(*ctx.saved_tensors), ctx.saved_tensors, grad)
                if forgotten == "a row":
                    of_weight = torch.autograd.grad(_rms_norm(*ctx.saved_tensors)[1:], ctx.saved_tensors, grad[1:])[1]
            if forgotten == "a column":
                of_weight[-1] = 0
            return of_x, of_weight

    shapes = ((9000, 96), (40, 9))
    check = norm_one_pass(("weight",), _rms_norm, shapes=tuple((shape, "contiguous") for shape in shapes)).check
    if forgotten == "nothing":
        check(Forgetful.apply, "cpu")
    else:
        with pytest.raises(AssertionError, match=r"\(9000, 96\) torch.float32: gradient of weight"):
            check(Forgetful.apply, "cpu")


def _rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, 1e-6)


@pytest.mark.parametrize("cancels", [True, False])
def test_the_check_far_from_0_finds_a_variance_that_cancels(cancels: bool) -> None:
    """E[x²] - E[x]² in float32 is off by a hundredth and more where the mean is 1,000 times the deviation."""

    def norm(x: Tensor) -> Tensor:
        numbers = x.float()
        mean = _mean(numbers)
        variance = _mean(numbers.square()) - mean.square() if cancels else _mean((numbers - mean).square())
        return ((numbers - mean) * (variance + 1e-5).rsqrt()).to(x.dtype)

    def eager(x: Tensor) -> Tensor:
        return torch.nn.functional.layer_norm(x, x.shape[-1:])

    check = norm_far_from_zero(eager, shapes=(((9, 7001), "contiguous"),)).check
    if cancels:
        with pytest.raises(AssertionError, match=r"\(9, 7001\) torch.float16"):
            check(norm, "cpu")
    else:
        check(norm, "cpu")
