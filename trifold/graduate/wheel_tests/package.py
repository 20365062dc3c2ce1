"""The tested package: the one that contains these tests."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

NAME = __name__.rpartition(".tests.")[0]
FOLDER = Path(__file__).resolve().parents[1]


def module(name: str = "") -> Any:
    """The package, or a module of it."""
    return importlib.import_module(f"{NAME}.{name}" if name else NAME)


def ops() -> tuple[str, ...]:
    names: tuple[str, ...] = module().package.ops
    return names


def function(op: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(module(), op)
    return found


def metadata() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "metadata.json").read_text(encoding="utf-8"))
    return found


def lacks(op: str, device: str) -> str:
    """Why the tests of ``op`` cannot run on ``device`` here; empty if they can."""
    kernels = module().package.kernels[op, device]
    if kernels.path is None:
        return str(kernels.reason)
    if device == "cuda" and not torch.cuda.is_available():
        return "torch finds no CUDA device"
    return ""


def cells() -> list[tuple[str, str]]:
    """Each op with each device on which it can be tested here."""
    return [(op, device) for op in ops() for device in ("cpu", "cuda") if not lacks(op, device)]
