"""Drafts of launch functions with dtypes that may be None: compiled for the CPU, with the wiring, against torch."""

from __future__ import annotations

import cmath
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.draft.dtypes import reference
from tests.draft.operators import drafted_operators

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def op(quick_builds: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The operators of dtypes.py."""
    return drafted_operators(HERE / "dtypes.py", tmp_path_factory.mktemp("workspace"))


@pytest.mark.parametrize("out_dtype", [None, torch.int8, torch.int16, torch.uint8], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_result_has_the_stated_dtype_and_its_limits(
    op: Any, drawn: torch.Generator, dtype: torch.dtype, out_dtype: torch.dtype | None
) -> None:
    x = (300 * torch.randn(5, 9, generator=drawn)).to(dtype)
    assert torch.equal(op.dtypes(x, 2.0, out_dtype), reference(x, 2.0, out_dtype))


def test_another_dtype_is_refused_by_name(op: Any) -> None:
    with pytest.raises(RuntimeError, match=r"out_dtype must be int8, int16 or uint8, not torch\.int32"):
        op.dtypes(torch.ones(2), 1.0, torch.int32)


@pytest.mark.parametrize("out_dtype", [None, torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_without_a_stated_dtype_it_is_the_argument_s(
    op: Any, drawn: torch.Generator, dtype: torch.dtype, out_dtype: torch.dtype | None
) -> None:
    x = torch.randn(70, 9, generator=drawn, dtype=dtype)
    for result in (op.dtypes_or(x, out_dtype, None), op.dtypes_or(x, out_dtype, 32), op.dtypes_branch(x, out_dtype)):
        assert torch.equal(result, x.to(out_dtype or dtype))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_numbers_are_pairs_of_real_ones(op: Any, drawn: torch.Generator, dtype: torch.dtype) -> None:
    x = torch.randn(4, 6, generator=drawn, dtype=dtype).T
    torch.testing.assert_close(op.dtypes_turned(x, 0.5), x * cmath.exp(0.5j))
    with pytest.raises(RuntimeError, match=r"x must be complex, not torch\.float32"):
        op.dtypes_turned(torch.ones(2), 0.5)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_a_launch_chooses_among_complex_dtypes_that_no_kernel_names(
    op: Any, drawn: torch.Generator, dtype: torch.dtype
) -> None:
    x = torch.randn(4, 6, generator=drawn, dtype=dtype)
    assert torch.equal(op.dtypes_conjugated(x), x.conj().resolve_conj())
