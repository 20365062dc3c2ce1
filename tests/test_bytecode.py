"""Where a verification's processes keep bytecode."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from trifold.verification import bytecode


def torch_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    source = folder / "torch.py"
    source.write_text("")
    found = SimpleNamespace(origin=str(source))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    return source


def test_nothing_is_set_where_torch_has_bytecode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Path(importlib.util.cache_from_source(torch_at(tmp_path, monkeypatch)))
    compiled.parent.mkdir(parents=True, exist_ok=True)
    compiled.touch()
    assert bytecode.environment() == {}


def test_elsewhere_a_process_keeps_it_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = torch_at(tmp_path, monkeypatch)
    monkeypatch.setenv("TRIFOLD_CACHE_DIR", str(tmp_path / "cache"))
    forbidden = {"PATH": "", "PYTHONPATH": str(source.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", "import torch; print(torch.__cached__)"]
    done = subprocess.run(command, env=forbidden | bytecode.environment(), capture_output=True, text=True, check=True)
    kept = Path(done.stdout.strip())
    assert kept.is_file() and kept.is_relative_to(tmp_path / "cache" / "bytecode")
