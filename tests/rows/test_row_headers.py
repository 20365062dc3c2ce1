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


@settings(deadline=None, derandomize=True, database=None, max_examples=300)
@given(
    rows=st.integers(1, 5000),
    columns=st.integers(1, 1_000_000),
    element=st.sampled_from([2, 4]),
    most=st.integers(1, 132),
)
def test_rows_of_a_team_of_a_stream_begin_alike(
    forms: dict[str, Library], rows: int, columns: int, element: int, most: int
) -> None:
    teams, classes, boundary = forms["port"](torch.empty(0), "shares", rows, columns, element, most)
    assert boundary in (16, 32, 64, 128)
    if rows <= most:  # a row each
        assert teams == rows
        return
    assert teams * columns * element % boundary == 0  # from a team's row to its next one
    assert teams % classes == 0  # classes have as many teams each
    assert classes * element <= 128  # a thread each sets their counters
    assert teams >= most - most // 16  # hardly a place on the GPU is left empty
    assert teams <= most or boundary == 16
