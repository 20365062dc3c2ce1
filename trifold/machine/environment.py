"""The machine, versions and sources of a run."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from trifold.machine.packages import installed_version


def environment(root: Path, device: torch.device) -> dict[str, Any]:
    """For the JSON: what the figures depend on. ``root`` is the workspace; ``commit`` is None outside git.

    A tree that was copied to another machine without its history is identified by $TRIFOLD_COMMIT, set by the user.
    """
    cuda = device.type == "cuda"
    vouched = os.environ.get("TRIFOLD_COMMIT")
    status = "" if vouched else _output("git", "-C", str(root), "status", "--porcelain")
    return {
        "trifold": installed_version("trifold"),
        "device": torch.cuda.get_device_name(device) if cuda else _processor(),
        "device_type": device.type,
        "driver": _output("nvidia-smi", "--id=0", "--query-gpu=driver_version", "--format=csv,noheader")
        if cuda
        else None,
        "l2_bytes": torch.cuda.get_device_properties(device).L2_cache_size if cuda else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "numba": installed_version("numba"),
        "numba_cuda": installed_version("numba-cuda"),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "commit": vouched or _output("git", "-C", str(root), "rev-parse", "HEAD"),
        "dirty": None if status is None else bool(status),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def describe(facts: dict[str, Any]) -> str:
    """A line of these facts, for the head of a table."""
    commit = str(facts.get("commit") or "no commit")[:12] + (" with changes" if facts.get("dirty") else "")
    driver = f", driver {facts['driver']}" if facts.get("driver") else ""
    cuda = f", CUDA {facts['cuda']}" if facts.get("cuda") else ""
    return f"{facts['device']}{driver}, torch {facts['torch']}{cuda}, {commit}, {facts['date']}"


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} ({len(names)} threads)" if names else platform.machine()
