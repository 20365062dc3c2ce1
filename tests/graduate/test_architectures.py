"""Architectures as the user writes them, and what nvcc knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.build.toolchain import Nvcc
from trifold.errors import GraduationError, ToolchainError
from trifold.graduate.architectures import DEFAULT, Targets, targets


@pytest.fixture
def nvcc(tmp_path: Path) -> Nvcc:
    """One that knows two architectures."""
    path = tmp_path / "bin" / "nvcc"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\necho sm_80\necho sm_90\necho sm_120\n")
    path.chmod(0o755)
    return Nvcc(path, tmp_path)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((), Targets(DEFAULT, "9.0")),
        (("9.0", "8.0", "9.0"), Targets(("8.0", "9.0"), "9.0")),
        (("12.0;9.0",), Targets(("9.0", "12.0"), "12.0")),
        (("8.0, 9.0a",), Targets(("8.0", "9.0a"), "8.0")),
        (("9.0a",), Targets(("9.0a",), "")),
    ],
)
def test_targets(wanted: tuple[str, ...], expected: Targets, nvcc: Nvcc) -> None:
    assert targets(wanted, nvcc) == targets(wanted, None) == expected


@pytest.mark.parametrize("arch", ["sm_90", "9", "9.0x", "ninety", "9.0.0", "-arch=sm_90"])
def test_another_form_is_refused(arch: str, nvcc: Nvcc) -> None:
    for compiler in (nvcc, None):
        with pytest.raises(GraduationError, match="an architecture has the form"):
            targets([arch], compiler)


@pytest.mark.parametrize("arch", ["9.9", "7.0", "8.0a"])
def test_what_nvcc_does_not_know_is_refused_with_what_it_knows(arch: str, nvcc: Nvcc) -> None:
    with pytest.raises(GraduationError, match=f"--arch {arch}: .*nvcc does not know it") as raised:
        targets([arch], nvcc)
    assert "8.0, 9.0, 12.0" in raised.value.remedy


def test_an_nvcc_that_does_not_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="does not say which architectures"):
        targets((), Nvcc(tmp_path / "nvcc", tmp_path))
