"""The pytest plugin: verify/*.py of a workspace becomes tests, one for each check of each cell."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trifold
from tests.wrong.entry import copy_of_gallery
from trifold.verification.certificate import certificate_path
from trifold.workspace import Workspace

pytestmark = pytest.mark.usefixtures("quick_builds")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with the gallery's op add alone."""
    return copy_of_gallery("add", tmp_path).root


def run_pytest(workspace: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *arguments]
    return subprocess.run(command, cwd=workspace, capture_output=True, text=True, timeout=300)


def test_each_check_of_each_cell_is_a_test(workspace: Path) -> None:
    listed = run_pytest(workspace, "verify", "--collect-only", "-q").stdout.splitlines()
    assert "verify/add.py::gradcheck[port-cpu]" in listed
    assert "verify/add.py::stream[prototype-cuda]" in listed
    assert "verify/add.py::property: large[port-cuda]" in listed
    assert "verify/add.py::stream[port-cpu]" not in listed


def test_a_selection_runs_alone_and_what_cannot_run_is_skipped_with_its_reason(workspace: Path) -> None:
    result = run_pytest(workspace, "verify", "-k", "add and errors and port")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout
    if "1 skipped" in result.stdout:
        assert "torch is a CPU build" in result.stdout or "no CUDA device" in result.stdout


def test_a_wrong_kernel_fails_with_the_case_and_a_program_that_reproduces_it(workspace: Path) -> None:
    kernel = workspace / "prototypes" / "add.py"
    kernel.write_text(kernel.read_text().replace("x[i] + y[i]", "x[i] - y[i]"))
    result = run_pytest(workspace, "verify", "-k", "values and prototype and cpu", "--trifold-examples", "10")
    assert result.returncode == 1
    assert "elements differ" in result.stdout
    assert 'trifold.load("add", implementation="prototype", device="cpu")' in result.stdout


@pytest.mark.extended
def test_a_port_that_does_not_compile_fails_the_checks_that_it_keeps_from_running(workspace: Path) -> None:
    kernel = workspace / "cuda_src" / "add.cuh"
    kernel.write_text(kernel.read_text() + "syntax error\n")
    result = run_pytest(workspace, "verify", "-k", "errors and port and cpu")
    assert result.returncode == 1, result.stdout
    assert "add.cuh" in result.stdout


@pytest.fixture(scope="module")
def with_certificates(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of four workspaces in a folder, each with the gallery's op add and a certificate of its
    prototype: one as it was certified, and one for each of three reasons to run it again."""
    root = tmp_path_factory.mktemp("certified")
    as_it_was = copy_of_gallery("add", root / "as_it_was").root
    trifold.verify("add", workspace=as_it_was, implementations=["prototype"], devices=["cpu"], examples=1)
    for edit in ("kernel", "versions", "verdict"):
        shutil.copytree(as_it_was, root / edit)
    for workspace in sorted(root.iterdir()):
        edit = workspace.name
        path = certificate_path(Workspace.at(workspace), "add")
        certificate = json.loads(path.read_text())
        certificate["verdict"] = "verified"  # as if the port had been, too
        row = next(row for row in certificate["rows"] if row["check"] == "values")
        row["cases"], row["reason"] = 12345, "as certified"
        row["outcome"] = "failed" if edit == "verdict" else "not run"
        if edit == "versions":
            certificate["versions"]["torch"] = "0.0"
        path.write_text(json.dumps(certificate))
        if edit == "kernel":
            kernel = workspace / "prototypes" / "add.py"
            kernel.write_text(kernel.read_text() + "# edited\n")
    folders = [f"{workspace.name}/verify" for workspace in sorted(root.iterdir())]
    options = ("-k", "values and prototype and cpu", "--trifold-certified", "--trifold-examples", "1")
    return run_pytest(root, *folders, "-v", *options).stdout


@pytest.mark.parametrize("edit", ["as_it_was", "kernel", "versions", "verdict"])
def test_what_a_certificate_says_is_not_run_again_unless_something_changed(edit: str, with_certificates: str) -> None:
    (said,) = re.findall(rf"^{edit}/verify/add\.py::values\[prototype-cpu\] (.*)", with_certificates, re.MULTILINE)
    assert said.startswith("SKIPPED (as certified)" if edit == "as_it_was" else "PASSED"), with_certificates


def test_other_python_files_are_left_alone(workspace: Path) -> None:
    (workspace / "verify" / "_notes.py").write_text("raise RuntimeError\n")
    (workspace / "elsewhere").mkdir()
    (workspace / "elsewhere" / "verify.py").write_text("raise RuntimeError\n")
    assert run_pytest(workspace, "--collect-only", "-q").returncode == 0
