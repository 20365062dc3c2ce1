"""The bound of results in float64, in which the reference is as inexact as what it is compared with."""

from __future__ import annotations

import torch
from torch import Tensor

from trifold.spec import Call, TensorCase
from trifold.verification.noise import Evaluations, mismatch_beyond_noise, similar_calls

ROUND_OFF = 2.0**-53
X = torch.tensor([4.0])


def by_difference(x: Tensor) -> Tensor:
    """The derivative of x / (1 + x) as autograd has it: the difference of two numbers, of which a 25th is left."""
    return 1 / (1 + x) - x / (1 + x) / (1 + x)


def evaluations() -> Evaluations:
    numbers = torch.linspace(3, 5, 100)
    yield by_difference(numbers.double()), by_difference(numbers), None


def wrong(relative_error: float, noise: Evaluations, dtype: torch.dtype = torch.float64) -> str | None:
    exact = by_difference(X.double())
    got = (exact * (1 + relative_error)).to(dtype)
    return mismatch_beyond_noise(got, exact, exact.to(dtype), None, lambda: noise, 4.0)


def test_a_result_may_differ_by_what_the_reference_is_inexact() -> None:
    assert wrong(6 * ROUND_OFF, ()) is not None
    assert wrong(6 * ROUND_OFF, evaluations()) is None


def test_the_references_own_error_counts_besides() -> None:
    """Of results that are accurate in float32, 4 round-offs are an implementation's and 2 the reference's."""
    numbers = torch.linspace(3, 5, 100)
    accurate: Evaluations = [(numbers.double(), numbers, None)]
    assert wrong(5 * ROUND_OFF, accurate) is None
    assert wrong(7 * ROUND_OFF, accurate) is not None


def test_it_may_not_differ_by_more() -> None:
    said = wrong(100 * ROUND_OFF, evaluations())
    assert said is not None and "unit round-offs of float64" in said


def test_the_scale_of_a_complex_result_is_that_of_both_parts() -> None:
    """It is real, as the size of summands is: abs(x) * abs(y)."""
    numbers = torch.linspace(3, 5, 100).to(torch.complex64) * (1 + 1j)
    of_products = [(numbers.to(torch.complex128) ** 2, numbers**2, numbers.abs() ** 2)]
    exact = torch.tensor([4 + 4j], dtype=torch.complex128) ** 2
    for error, allowed in ((1, True), (100, False)):
        got = exact * (1 + error * ROUND_OFF)
        said = mismatch_beyond_noise(got, exact, exact, exact.abs(), lambda: of_products, 1.0)
        assert (said is None) == allowed
        assert said is None or "unit round-offs of float64" in said


def test_narrower_results_are_compared_with_exact_ones() -> None:
    assert wrong(100 * 2.0**-24, evaluations(), torch.float32) is not None


def test_similar_calls_are_in_float32_with_other_numbers_of_the_same_fill() -> None:
    call = Call((TensorCase((3,), torch.float64, fill="exact"), TensorCase((3,), torch.bfloat16), 2.0))
    calls = list(similar_calls(call))
    assert len(calls) == 16
    assert {(x.dtype, x.fill, y.dtype, z) for x, y, z in (each.args for each in calls)} == {
        (torch.float32, "exact", torch.bfloat16, 2.0)
    }
    assert len({each.args[0].seed for each in calls}) == 16
    assert len(list(similar_calls(Call((TensorCase((100_000,), torch.float64),))))) == 16
    assert len(list(similar_calls(Call((TensorCase((1 << 22,), torch.float64),))))) == 1
