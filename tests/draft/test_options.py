"""Drafts of launch functions with numbers that may be None: compiled for the CPU, with the wiring, against the
reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.draft.operators import drafted_operators
from tests.draft.options import reference

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def op(quick_builds: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The operators of options.py."""
    return drafted_operators(HERE / "options.py", tmp_path_factory.mktemp("workspace"))


@pytest.mark.parametrize("scale", [None, 2.5])
@pytest.mark.parametrize("limit", [None, 0.25])
def test_a_number_is_given_or_not(op: Any, drawn: torch.Generator, scale: float | None, limit: float | None) -> None:
    x = torch.randn(3, 5, generator=drawn, dtype=torch.float64)
    torch.testing.assert_close(op.options(x, scale, limit), reference(x, scale, limit))


def test_a_check_of_a_number_applies_where_it_is_given(op: Any) -> None:
    with pytest.raises(RuntimeError, match=r"options: scale must be positive, but is -2\."):
        op.options(torch.ones(2, 2), -2.0, None)


def test_its_gradient_passes_it_to_backward(op: Any, drawn: torch.Generator) -> None:
    for scale in (None, 2.5):
        x = torch.randn(3, 4, generator=drawn, dtype=torch.float64).requires_grad_()
        assert torch.autograd.gradcheck(lambda x, scale=scale: op.options(x, scale, None), x)
    with pytest.raises(RuntimeError, match="there is no gradient with a limit"):
        op.options(x, None, 0.25).sum().backward()


@pytest.mark.parametrize("negate", [None, False, True])
@pytest.mark.parametrize("times", [None, 1, 3])
def test_integers_and_flags_may_be_none(op: Any, times: int | None, negate: bool | None) -> None:
    x = torch.arange(4.0)
    expected = x.repeat_interleave(times or 1) * (-1 if negate and times is not None else 1)
    assert torch.equal(op.options_repeat(x, times, negate), expected)


def test_what_a_branch_requires_is_required_there_only(op: Any) -> None:
    with pytest.raises(RuntimeError, match="times is required of more than 4 elements"):
        op.options_repeat(torch.arange(5.0), None, True)
    with pytest.raises(RuntimeError, match="times must be 3 or less, but is 4"):
        op.options_repeat(torch.arange(5.0), 4, True)
    assert op.options_repeat(torch.arange(2.0), 4, None).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_list_is_given_or_not(op: Any) -> None:
    x = torch.arange(4.0)
    expected = x[torch.arange(12) * 4 // 12]
    assert torch.equal(op.options_stretch(x, [3, 4], None), expected.view(3, 4))
    assert torch.equal(op.options_stretch(x, None, 3), expected.view(3, 4))
    with pytest.raises(RuntimeError, match="options_stretch: size must have 2 numbers, but their number is 3"):
        op.options_stretch(x, [3, 4, 5], None)
    with pytest.raises(RuntimeError, match="options_stretch: size or factor must be given"):
        op.options_stretch(x, None, None)
