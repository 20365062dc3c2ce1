"""The compilers and tools that are found, and the errors for missing and unsuitable ones."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

from trifold.build import recipe, toolchain
from trifold.errors import ToolchainError


@pytest.fixture(autouse=True)
def only_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all of PATH."""
    for variable in ("CXX", "CC", "CUDA_HOME", "CUDA_PATH", "TORCH_CUDA_ARCH_LIST"):
        monkeypatch.delenv(variable, raising=False)
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(path: Path, says: str, status: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    path.chmod(0o755)
    return path


def test_no_compiler() -> None:
    with pytest.raises(ToolchainError, match=r"g\+\+ is not on PATH\n  apt-get install g\+\+"):
        toolchain.find_gxx()


def test_a_numbered_compiler_stands_in_and_cxx_decides(only_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (program(only_path / name, "g++ (GCC) 12.1.0") for name in ("g++-11", "g++-12"))
    assert toolchain.find_gxx() == new
    monkeypatch.setenv("CXX", "g++-11")
    assert toolchain.find_gxx() == old
    monkeypatch.setenv("CXX", "g++-9")
    with pytest.raises(ToolchainError, match=r"CXX is 'g\+\+-9', which is not a program on PATH"):
        toolchain.find_gxx()


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ("g++ (Debian 12.2.0-14+deb12u1) 12.2.0", (12, 2, 0)),
        ("g++ (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", (11, 4, 0)),
        ("g++ (GCC) 11.5.0 20240719 (Red Hat 11.5.0-2)", (11, 5, 0)),
        ("x86_64-conda-linux-gnu-c++ (conda-forge gcc 13.3.0-1) 13.3.0", (13, 3, 0)),
    ],
)
def test_versions_of_gxx(only_path: Path, says: str, version: tuple[int, ...]) -> None:
    gxx = program(only_path / "g++", says)
    assert toolchain.gxx_version(gxx) == version
    toolchain.require_gxx(gxx)


@pytest.mark.parametrize(
    ("says", "status", "problem"),
    [
        ("g++ (Ubuntu 9.4.0-1ubuntu1) 9.4.0", 0, r"is version 9\.4\.0; .* needs g\+\+ 11 or newer"),
        ("Ubuntu clang version 18.1.3 (1ubuntu1) 1.0", 0, r"is not g\+\+: it says 'Ubuntu clang"),
        ("something else", 0, r"is not g\+\+: it says 'something else'"),
        ("", 1, "fails with exit status 1"),
    ],
    ids=["too old", "clang", "no version", "fails"],
)
def test_a_compiler_that_does_not_do(only_path: Path, says: str, status: int, problem: str) -> None:
    with pytest.raises(ToolchainError, match=problem):
        toolchain.require_gxx(program(only_path / "g++", says, status))


def test_ninja_is_found_beside_a_python_that_is_not_activated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    venv = tmp_path / "venv" / "bin"
    beside = program(venv / "ninja", "1.13")
    monkeypatch.setattr(sys, "executable", str(venv / "python"))
    monkeypatch.setattr(sysconfig, "get_path", lambda *_, **__: str(tmp_path / "nowhere"))
    assert toolchain.find_ninja() == beside
    beside.unlink()
    with pytest.raises(
        ToolchainError, match=r"ninja is neither on PATH nor in the folder of this Python\n  pip install ninja"
    ):
        toolchain.find_ninja()


def test_the_compilers_find_that_ninja_last_on_their_path(only_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gxx = program(only_path / "g++", "g++ (GCC) 12.1.0")
    ninja = program(only_path.parent / "elsewhere" / "ninja", "1.13")
    monkeypatch.setattr(toolchain, "find_ninja", lambda: ninja)
    (only_path / "x.cu").touch()
    environment = recipe.for_cpu(only_path / "x.cu", "a").environment
    assert environment["PATH"] == f"{only_path}{os.pathsep}{ninja.parent}"
    assert environment["CXX"] == str(gxx)
    shutil.copy(ninja, only_path / "ninja")
    assert "PATH" not in recipe.for_cpu(only_path / "x.cu", "a").environment


@pytest.mark.parametrize(("version", "flags"), [("2.11.0+cu130", ["-std=c++20"]), ("2.12.1", []), ("2.13.0+cpu", [])])
def test_the_standard_is_named_only_where_torch_would_choose_an_older_one(
    only_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, flags: list[str]
) -> None:
    program(only_path / "g++", "g++ (GCC) 12.1.0")
    monkeypatch.setattr(torch, "__version__", version)
    (only_path / "x.cu").touch()
    facts = recipe.for_cpu(only_path / "x.cu", "a").facts
    assert [fact for fact in facts if fact.startswith("-std")] == flags


def test_the_toolkit_of_an_nvcc_on_path_is_where_its_headers_are(only_path: Path, tmp_path: Path) -> None:
    real = program(tmp_path / "cuda" / "bin" / "nvcc", "release 13.0, V13.0.88")
    (tmp_path / "cuda" / "include").mkdir()
    (tmp_path / "cuda" / "include" / "cuda_runtime.h").touch()
    (only_path / "nvcc").symlink_to(real)
    assert toolchain.find_nvcc() == toolchain.Nvcc(real, tmp_path / "cuda")
    assert toolchain.nvcc_version(real) == (13, 0)


def test_a_cuda_home_without_nvcc_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"CUDA_HOME is .*, which has no bin/nvcc\n  unset CUDA_HOME"):
        toolchain.find_nvcc()


def test_nvcc_must_have_the_major_version_of_torch(only_path: Path) -> None:
    nvcc = program(only_path / "nvcc", "Cuda compilation tools, release 12.8, V12.8.61")
    for fits in (None, "12.6", "12.8"):
        toolchain.require_nvcc(nvcc, fits)
    with pytest.raises(ToolchainError, match=r"is CUDA 12\.8, but torch was built with CUDA 13\.0") as caught:
        toolchain.require_nvcc(nvcc, "13.0")
    assert "https://download.pytorch.org/whl/cu128" in caught.value.remedy


@pytest.mark.parametrize(
    ("devices", "architectures"),
    [
        ([(9, 0)], "9.0"),
        ([(9, 0), (8, 0), (9, 0)], "8.0;9.0"),
        ([(12, 1)], "12.0+PTX"),  # newer than torch was built for
    ],
)
def test_architectures_are_those_of_the_visible_devices(
    monkeypatch: pytest.MonkeyPatch, devices: list[tuple[int, int]], architectures: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(devices))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: devices[index])
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80", "sm_90", "sm_120", "compute_120"])
    assert recipe.architectures() == architectures
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.6")
    assert recipe.architectures() == "8.6"


def test_without_a_device_the_architecture_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ToolchainError, match="set TORCH_CUDA_ARCH_LIST"):
        recipe.architectures()
