"""The row ``rounding``: the mean error of results that are rounded once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.drawn_specs import cell_here
from tests.wrong.entry import GALLERY
from trifold.implementation import reference
from trifold.spec.load import load_spec
from trifold.verification.calls import Search
from trifold.verification.checks.rounding import _Bias, _Errors, rounding


def _layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """In float32, then rounded to the argument's type."""
    factor, summand = (None if each is None else each.float() for each in (weight, bias))
    return torch.nn.functional.layer_norm(x.float(), x.shape[-1:], factor, summand, eps).to(x.dtype)


def test_neighbouring_errors_of_one_call_are_no_bias() -> None:
    """Of this seed's calls one has two long rows whose standard deviation is nearly 1: neighbouring numbers have nearly
    the same error, and their mean is -0.045, 12 times what independent ones would have."""
    files = GALLERY.op("layer_norm")
    rounding(cell_here(_layer_norm, reference(files), load_spec(files), files=files, search=Search(100, seed=8038)))


@pytest.mark.parametrize(
    ("means", "biased"),
    [
        ([0.02, 0.02, 0.02, 0.02], True),
        ([0.08, 0.0, 0.0, 0.0], False),
        ([0.08, -0.03, -0.03, 0.0], False),
        ([0.0, 0.0, 0.0, 0.0], False),
        ([0.08], True),
    ],
)
def test_a_bias_shows_without_any_one_call(means: list[float], biased: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    bias = _Bias()
    for mean in means:
        errors = torch.rand(25_000, dtype=torch.float64, generator=generator) - 0.5
        bias.calls.append(_Errors.of(torch.arange(25_000.0), errors - errors.mean() + mean))
    assert bool(bias.message()) is biased
