"""The headers of cuda_src/rows, each by itself: as they are, and with checks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cpu.workspace import op_of
from tests.wrong.entry import GALLERY
from trifold.findings import collect
from trifold.implementation import load_checked_port, load_port

Library = Callable[..., Any]
FORMS = ("port", "checked port")


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Library]:
    root = tmp_path_factory.mktemp("workspace")
    files = op_of("row_headers", root, Path(__file__).parent)
    shutil.copytree(GALLERY.root / "cuda_src/rows", root / "cuda_src/rows")
    return {"port": load_port(files).function, "checked port": load_checked_port(files).function}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_tensor_cores_sum_numbers_and_squares(forms: dict[str, Library], form: str, dtype: torch.dtype) -> None:
    x = ((torch.arange(4 * 256) * 7) % 15 - 5).to(dtype)  # whole numbers: sums are exact
    sums, squares = forms[form](x, "row_headers")
    assert sums.unique().tolist() == [float(x.double().sum())]
    assert squares.unique().tolist() == [float(x.double().square().sum())]


@pytest.mark.parametrize(
    ("team", "threads"), [(0, 8), (1, 32), (2, 64), (3, 128)], ids=["part", "warp", "block", "cluster"]
)
@pytest.mark.parametrize("form", FORMS)
def test_each_thread_of_a_team_gets_its_rows_sum(forms: dict[str, Library], form: str, team: int, threads: int) -> None:
    x = (torch.arange(512, dtype=torch.float32) * 7 % 64).reshape(-1, threads)
    sums = forms[form](x, "team_sums", team)
    assert torch.equal(sums, x.sum(1, keepdim=True).expand_as(x))


@pytest.mark.parametrize("columns", [4, 252, 508, 101, 254, 501])
@pytest.mark.parametrize("form", FORMS)
def test_rows_come_through_a_ring_one_after_the_other(forms: dict[str, Library], form: str, columns: int) -> None:
    """Of four clusters, so that rows of one that are not whole have the same offset from a boundary; 11 and 3 rows."""
    for rows in (11, 3):
        x = (torch.arange(rows * columns, dtype=torch.float32) * 7 % 16).reshape(rows, columns)
        with collect() as found:
            result = forms[form](x, "ring", 4)
        assert found == []
        assert torch.equal(result, x + x.sum(1, keepdim=True))


@pytest.mark.parametrize("columns", [1, 30, 128, 201])
@pytest.mark.parametrize("form", FORMS)
def test_moments_are_exact_far_from_zero(forms: dict[str, Library], form: str, columns: int) -> None:
    x = torch.arange(columns, dtype=torch.float32) % 3 + 2**10
    mean, squares = forms[form](x, "moments").double()
    assert float(mean) == pytest.approx(float(x.double().mean()), rel=2**-23)
    assert float(squares) == pytest.approx(float((x.double() - x.double().mean()).square().sum()), rel=2**-10, abs=1e-6)


@settings(deadline=None, derandomize=True, database=None, max_examples=300)
@given(
    rows=st.integers(1, 5000),
    columns=st.integers(1, 1_000_000),
    element=st.sampled_from([2, 4]),
    most=st.integers(1, 132),
    waves=st.booleans(),
)
def test_rows_of_a_stream_have_the_same_offset(
    forms: dict[str, Library], rows: int, columns: int, element: int, most: int, waves: bool
) -> None:
    clusters, share, boundary = forms["port"](torch.empty(0), "shares", rows, columns, element, most, waves)
    if clusters == 0:  # fewer clusters than rows are apart that have the same offset
        assert not waves
        return
    assert boundary * element in (16, 32, 64, 128)
    assert share >= columns
    if rows <= clusters:  # a row each
        return
    assert clusters * columns % boundary == 0  # from a cluster's row to its next one
    assert not waves or clusters >= most - most // 16  # hardly a place on the GPU is left empty
    assert clusters <= most or (waves and boundary * element == 16)
