"""The doctor finds each lack that is made for it, names the command that mends it, and never raises."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import filelock
import pytest
from rich.console import Console

from trifold import compute_sanitizer
from trifold.machine import probe
from trifold.machine.diagnosis import Diagnosis
from trifold.machine.examine import examine
from trifold.machine.render import render

H200 = {
    "name": "NVIDIA H200",
    "capability": [9, 0],
    "multiprocessors": 132,
    "shared_bytes": 227 * 1024,
    "bytes": 140 * 2**30,
}
HEALTHY_TORCH = {"torch": "2.12.0", "cuda": "13.0", "driver": "13.0", "gpus": [H200]}
HEALTHY_NUMBA = {"numba": "0.68.1", "works": True}
HEALTHY_VERSIONS = {"torch": "2.12.0", "numba": "0.68.1", "numba-cuda": "0.30.2", "numpy": "2.4.6"}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which everything runs; its programs lie in the folder ``bin`` of this one."""
    programs = {"g++": "g++ (GCC) 12.1.0", "nvcc": "release 13.0, V13.0.88", "ninja": "1.13"}
    for name, says in (programs | dict.fromkeys(("gdb", "cuda-gdb", "compute-sanitizer"), "")).items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{says}'\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("TRIFOLD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(compute_sanitizer, "_of_package", list)
    answered(monkeypatch)
    installed(monkeypatch)
    return tmp_path


def answered(monkeypatch: pytest.MonkeyPatch, torch: dict[str, Any] | None = None, **numba: Any) -> None:
    """The answers of the processes that import torch and Numba."""
    answers = {probe.TORCH_PROBE: torch or HEALTHY_TORCH, probe.NUMBA_PROBE: numba or HEALTHY_NUMBA}
    monkeypatch.setattr(probe, "ask", lambda script, environment: answers[script])


def installed(monkeypatch: pytest.MonkeyPatch, **changes: str | None) -> None:
    """The installed versions; None for not installed."""
    versions = HEALTHY_VERSIONS | {name.replace("_", "-"): version for name, version in changes.items()}

    def version(name: str) -> str:
        if versions[name] is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return str(versions[name])

    monkeypatch.setattr(importlib.metadata, "version", version)


def runs(diagnosis: Diagnosis) -> set[str]:
    return {f"{cell.implementation} {cell.device}" for cell in diagnosis.cells if cell.runs}


ALL = {"prototype cpu", "prototype cuda", "port cpu", "port cuda"}
CPU = {"prototype cpu", "port cpu"}


def test_a_healthy_machine_runs_every_cell(machine: Path) -> None:
    diagnosis = examine()
    assert runs(diagnosis) == ALL
    assert {part.state for part in diagnosis.parts} == {"ok"}
    assert json.loads(json.dumps(diagnosis.to_json()))["cells"][0] == {
        "implementation": "prototype",
        "device": "cpu",
        "lacks": [],
        "runs": True,
    }
    assert "To mend it" not in text(diagnosis)


CPU_TORCH: dict[str, Any] = {"torch": "2.12.0+cpu", "cuda": None, "driver": None, "gpus": []}


@pytest.mark.parametrize(
    ("torch", "state", "says", "remedy"),
    [
        (CPU_TORCH, "absent", "there is no CUDA driver", ""),
        (CPU_TORCH | {"driver": "13.0"}, "fault", "torch is a CPU build", "pip install --force-reinstall torch"),
        (HEALTHY_TORCH | {"gpus": [], "driver": "12.4"}, "fault", "CUDA 12.4, torch needs 13.0", "whl/cu126"),
        (HEALTHY_TORCH | {"gpus": []}, "absent", "torch sees no device", ""),
    ],
    ids=["no driver", "a CPU build of torch", "an old driver", "no visible device"],
)
def test_without_a_usable_gpu_the_cpu_cells_run(
    machine: Path, monkeypatch: pytest.MonkeyPatch, torch: dict[str, Any], state: str, says: str, remedy: str
) -> None:
    answered(monkeypatch, torch)
    diagnosis = examine()
    assert runs(diagnosis) == CPU
    assert diagnosis["GPU"].state == state
    assert says in diagnosis["GPU"].found
    assert remedy in diagnosis["GPU"].remedy


@pytest.mark.parametrize(
    ("versions", "part", "says", "remedy", "left"),
    [
        ({"torch": None}, "torch", "not installed", "pip install 'torch>=2.11,<2.14'", set()),
        ({"torch": "2.10.1"}, "torch", "2.10.1, which", "pip install 'torch>=2.11,<2.14'", set()),
        ({"numba": "0.61.0"}, "numba", "0.61.0, which", "pip install 'numba>=0.68,<0.69'", {"port cpu", "port cuda"}),
        (
            {"numba_cuda": None},
            "numba-cuda",
            "not installed",
            "pip install 'numba-cuda>=0.30,<0.31' 'numpy<2.5'",
            ALL - {"prototype cuda"},
        ),
        (
            {"numpy": "2.5.0"},
            "numba-cuda",
            "0.30.2 fails with NumPy 2.5.0",
            "pip install 'numpy<2.5'",
            ALL - {"prototype cuda"},
        ),
    ],
)
def test_packages(
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
    versions: dict[str, str | None],
    part: str,
    says: str,
    remedy: str,
    left: set[str],
) -> None:
    installed(monkeypatch, **versions)
    diagnosis = examine()
    assert runs(diagnosis) == left
    assert diagnosis[part].state == "fault"
    assert says in diagnosis[part].found
    assert diagnosis[part].remedy == remedy
    assert remedy in text(diagnosis)


@pytest.mark.parametrize(
    ("program", "remedy", "left"),
    [
        ("g++", "apt-get install g++", {"prototype cpu", "prototype cuda"}),
        ("ninja", "pip install ninja", {"prototype cpu", "prototype cuda"}),
        ("nvcc", "unset CUDA_HOME", ALL - {"port cuda"}),
    ],
)
def test_programs(machine: Path, monkeypatch: pytest.MonkeyPatch, program: str, remedy: str, left: set[str]) -> None:
    (machine / "bin" / program).unlink()
    monkeypatch.setattr(sys, "executable", str(machine / "bin" / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda *_, **__: str(machine / "nowhere"))
    diagnosis = examine()
    assert runs(diagnosis) == left
    assert diagnosis[program].state == "fault"
    assert remedy in diagnosis[program].remedy


@pytest.mark.parametrize(
    ("program", "remedy"),
    [
        ("gdb", "apt-get install gdb"),
        ("cuda-gdb", "apt-get install cuda-gdb"),
        ("compute-sanitizer", "apt-get install cuda-sanitizer"),
    ],
)
def test_what_a_command_needs_and_no_cell(
    machine: Path, monkeypatch: pytest.MonkeyPatch, program: str, remedy: str
) -> None:
    (machine / "bin" / program).unlink()
    diagnosis = examine()
    assert runs(diagnosis) == ALL
    assert diagnosis[program].state == "absent"
    assert diagnosis[program].remedy.startswith(remedy)
    answered(monkeypatch, CPU_TORCH)
    assert bool(examine()[program].remedy) == (program == "gdb"), "without a GPU its tools are not missed"


def test_the_gpu_s_limits(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, HEALTHY_TORCH | {"gpus": [H200, H200]})
    assert examine()["GPU"].found == (
        "2 × NVIDIA H200 (compute capability 9.0, 132 multiprocessors, 227 KiB of shared memory a block, 140 GiB); "
        "the driver supports CUDA 13.0"
    )


def test_an_nvcc_of_another_major_version(machine: Path) -> None:
    (machine / "bin" / "nvcc").write_text("#!/bin/sh\necho 'release 12.4, V12.4.1'\n")
    diagnosis = examine()
    assert runs(diagnosis) == ALL - {"port cuda"}
    assert "torch was built with CUDA 13.0" in diagnosis["nvcc"].found


def test_a_simulator_that_does_not_work(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, error="ImportError: no")
    diagnosis = examine()
    assert diagnosis["numba simulator"].found == "ImportError: no"
    assert runs(diagnosis) == ALL - {"prototype cpu"}


def test_the_cache_and_what_lies_in_it(machine: Path) -> None:
    assert "not yet there" in examine()["cache"].found
    builds = machine / "cache" / "builds"
    builds.mkdir(parents=True, mode=0o700)
    (builds / "big").write_bytes(bytes(2**20))
    assert "1.0 MiB" in examine()["cache"].found

    name = f"add-cpu-{20 * '1'}"
    (builds / f"{name}.partial-x").mkdir()
    (builds / f"{name}.lock").touch()
    with filelock.FileLock(builds / f"{name}.lock"):
        assert examine()["builds"].found == f"under way: {name}"
    left = examine()["builds"]
    assert left.state == "fault"
    assert left.found.startswith("1 left half-way")
    assert left.remedy.startswith("trifold clean")

    builds.chmod(0o770)
    diagnosis = examine()
    assert "others can write" in diagnosis["cache"].found
    assert "chmod -R go-w" in diagnosis["cache"].remedy
    assert runs(diagnosis) == {"prototype cpu", "prototype cuda"}


def test_whatever_breaks_is_a_fault_of_its_part_only(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("trifold.build.toolchain.find_gxx", broken)
    answered(monkeypatch, {"error": "Python ends without an answer"})
    diagnosis = examine()
    assert diagnosis["g++"].found == "ZeroDivisionError: oh"
    assert diagnosis["torch"].found == "Python ends without an answer"
    assert diagnosis["ninja"].state == "ok"
    assert runs(diagnosis) == set()


def test_a_probe_that_crashes_or_hangs_or_babbles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "LIMIT_S", 0.3)
    assert probe.ask("import time; time.sleep(9)", {}) == {"error": "no answer within 0.3 s"}
    monkeypatch.setattr(probe, "LIMIT_S", 20.0)
    for script in ("import os; os.abort()", "print('babble')", "print(1)", ""):
        assert "error" in probe.ask(script, {})
    assert probe.ask("import os; print('babble'); print('{\"a\": ' + os.environ['X'] + '}')", {"X": "1"}) == {"a": 1}


def test_this_machine_without_importing_numba_or_torch(tmp_path: Path) -> None:
    script = """
import json, sys, time
started = time.monotonic()
from trifold.machine.examine import examine
answer = examine().to_json()
answer["seconds"] = time.monotonic() - started
answer["imported"] = [name for name in ("torch", "numba") if name in sys.modules]
print(json.dumps(answer))
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TRIFOLD_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    answer = json.loads(done.stdout)
    assert answer["imported"] == []
    parts = {part["name"]: part["state"] for part in answer["parts"]}
    assert parts["Python"] == parts["torch"] == parts["numba"] == parts["numba simulator"] == "ok"
    assert answer["seconds"] < 10  # 1.4 s on two idle cores; other tests may run beside this one


def text(diagnosis: Diagnosis) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render(diagnosis))
    return capture.get()
