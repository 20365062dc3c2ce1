"""Errors of an op's process, in words for the judge."""

from __future__ import annotations

import pytest
import torch

from tests.wrong.entry import GALLERY
from trifold.isolation.op_errors import error_of


def test_an_operator_that_gets_empty_lists_of_tensors_is_told_so() -> None:
    with torch.library._scoped_library("trifold_tests", "DEF") as library:
        library.define("total(Tensor[] x) -> Tensor")
        library.impl("total", torch.cat, "CPU")
        with pytest.raises(NotImplementedError) as raised:
            torch.ops.trifold_tests.total([])
    described = error_of(raised.value, GALLERY.op("add"))
    assert described["kinds"][0] == "NotImplementedError"
    assert described["message"].startswith("an operator is called without a tensor, ")
    assert len(described["message"]) < 250
