"""Ops of the gallery in one wheel for the CPU, whose own tests pass without trifold.

Some have several results, others no gradients, integer or boolean arguments, operators that write into their
arguments, or a header of another op: what graduation has for such ops is used here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.graduate.verified import nothing_anew, verified_workspace
from tests.wrong.entry import GALLERY
from trifold.graduate.graduate import graduate

OF_EACH_KIND = ("cross_entropy", "cumsum", "quantize_int8", "swiglu")


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param(OF_EACH_KIND, id="an op of each kind", marks=pytest.mark.extended),
        pytest.param(GALLERY.ops(), id="all", marks=[pytest.mark.extended, pytest.mark.slow(seconds=120)]),
    ],
)
@pytest.mark.usefixtures("quick_builds")
def test_the_gallery_graduates(ops: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trifold.graduate.graduate.find_nvcc", lambda: None)
    monkeypatch.setattr("trifold.graduate.graduate.reverify", nothing_anew)
    workspace = verified_workspace(tmp_path / "workspace", *ops)
    made = graduate(ops, tmp_path / "out", workspace=workspace, name="gallery", allow_unverified=["cuda"])
    assert (made.checked.ops, made.checked.devices) == (ops, ("cpu",))
    assert set(made.checked.not_run) == {f"{op} on cuda" for op in ops}
