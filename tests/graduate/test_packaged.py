"""The library that a graduated package loads, and the error if there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from trifold.graduate.backend import compilers
from trifold.port import packaged


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    for name in ("op.cpu.so", "op.cuda12.so", "op.cuda13.so", "other_op.cpu.so"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("op", "device", "cuda", "found"),
    [
        ("op", "cpu", None, "op.cpu.so"),
        ("op", "cuda", "12.8", "op.cuda12.so"),
        ("op", "cuda", "13.0", "op.cuda13.so"),
        ("op", "cuda", None, "is a build without CUDA"),
        ("op", "cuda", "14.1", "its kernels are for CUDA 12 and 13, torch is for CUDA 14.1"),
        ("other_op", "cuda", "13.0", "this build has no kernels for CUDA"),
        ("third", "cpu", None, "this op has no kernels for the CPU"),
    ],
)
def test_the_library_for_this_torch(
    op: str, device: str, cuda: str | None, found: str, libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    kernels = packaged._find(libraries, op, device)
    assert found in (kernels.reason if kernels.path is None else kernels.path.name)


def test_code_for_each_architecture_and_ptx_for_the_newest() -> None:
    assert compilers._gencode(("8.0", "9.0a", "12.0"), "12.0") == (
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_120,code=sm_120",
        "-gencode=arch=compute_120,code=compute_120",
    )
    assert compilers._gencode(("9.0a",), "") == ("-gencode=arch=compute_90a,code=sm_90a",)
