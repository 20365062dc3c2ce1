"""Drafts of kernels with explicit signatures: numbers are converted as Numba converts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.draft.operators import drafted_operators
from tests.draft.test_refusals import drafting

PROTOTYPE = Path(__file__).with_name("typed.py")
# Of the kernel's signatures: the text that is replaced, and by which; what is said.
REFUSED = (
    (', "void(float64[:], float64[:], float64, int32)"', "", "no signature of divide_kernel takes (array(float64"),
    (
        '["void(',
        '["void(float32[:], float32[:], float32, int64)", "void(',
        "several signatures of divide_kernel take (arr",
    ),
)


@pytest.fixture(scope="module")
def op(quick_builds: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The operators of typed.py."""
    return drafted_operators(PROTOTYPE, tmp_path_factory.mktemp("workspace"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_have_the_types_of_the_signature(op: Any, dtype: torch.dtype) -> None:
    x = torch.linspace(-1, 1, 100, dtype=dtype)
    scale = np.float32(0.1) if dtype == torch.float32 else np.float64(0.1)
    expected = ((x.numpy() * scale).astype(np.float32).astype(np.float64) / 3).astype(np.float32)
    got = op.typed(x, 0.1, 90).numpy()
    assert np.array_equal(got[:90], expected[:90].astype(got.dtype))
    assert not got[90:].any()


@pytest.mark.parametrize(("old", "new", "says"), REFUSED, ids=["none", "several"])
def test_signatures_that_do_not_decide_are_refused(old: str, new: str, says: str, tmp_path: Path) -> None:
    text = PROTOTYPE.read_text(encoding="utf-8")
    assert text.count(old) == 1
    for folder in ("prototypes", "verify", "ports", "cuda_src"):
        (tmp_path / folder).mkdir()
    (tmp_path / "verify" / "typed.py").touch()
    (tmp_path / "prototypes" / "typed.py").write_text(text.replace(old, new), encoding="utf-8")
    done = drafting("files", "typed", str(tmp_path))
    assert done.returncode == 1
    assert says in done.stderr
