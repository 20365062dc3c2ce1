"""On a GPU: every op of the gallery in one wheel, with its CUDA part, whose tests pass on both devices."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tests.graduate.verified import certify, nothing_anew, verified_workspace
from tests.wrong.entry import GALLERY
from trifold.graduate.graduate import graduate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow(seconds=250),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]


def test_the_gallery_graduates_with_its_cuda_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trifold.graduate.graduate.reverify", nothing_anew)
    ops = GALLERY.ops()
    workspace = verified_workspace(tmp_path / "workspace", *ops)
    certify(workspace, *ops, devices=("cpu", "cuda"))
    major, minor = torch.cuda.get_device_capability()
    arch = os.environ.get("TORCH_CUDA_ARCH_LIST") or f"{major}.{minor}"
    made = graduate(ops, tmp_path / "out", workspace=workspace, name="gallery", arch=[arch.replace("+PTX", "")])
    assert made.checked.devices == ("cpu", "cuda")
    assert made.checked.not_run == {}
    assert made.checked.needs.cuda == int(str(torch.version.cuda).partition(".")[0])
    assert made.checked.device == torch.cuda.get_device_name()
    card = (made.folder / "CARD.md").read_text(encoding="utf-8")
    assert "Not verified" not in card
