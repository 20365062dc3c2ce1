"""A property that needs much of a GPU's memory waits for it, and is not run where there is less."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import filelock
import pytest
import torch

from trifold.spec import Property
from trifold.verification import worker
from trifold.verification.cell import Cell
from trifold.verification.outcomes import Absence, CheckFailed, NotRun
from trifold.verification.remote_errors import raised
from trifold.verification.worker import property_check

GIB = 2**30
CELL = cast(
    Cell,
    SimpleNamespace(
        device="cuda",
        begin=lambda case, name: None,
        announce=lambda name: None,
        process=SimpleNamespace(settle=lambda: 0),
        implementation=SimpleNamespace(function=lambda: None),
    ),
)


def has(monkeypatch: pytest.MonkeyPatch, *free: int, total: int) -> list[int]:
    """A GPU of ``total`` GiB, of which these are free, one at each question; returns those that are left."""
    left = list(free)
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda: ((left.pop(0) if len(left) > 1 else left[0]) * GIB, total * GIB)
    )
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="of-tests"))
    return left


def run(check: Any, gpu_memory: int) -> None:
    stated = Property("large", check, "an index wraps", devices=("cuda",), gpu_memory=gpu_memory * GIB)
    property_check(stated).run(CELL)


def test_it_waits_until_other_cells_have_given_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    left = has(monkeypatch, 1, 2, 3, 40, 41, total=80)
    ran: list[int] = []
    run(lambda function, device: ran.extend(left), gpu_memory=36)
    assert ran == [41]


def test_while_others_have_their_turn_it_says_that_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as that is: the runner would take its silence for a kernel that hangs."""
    has(monkeypatch, 70, total=80)
    monkeypatch.setattr(worker, "_ANNOUNCED_S", 0.01)
    others = filelock.FileLock(Path(tempfile.gettempdir()) / f"trifold-gpu-of-tests-{os.getuid()}.lock")
    said: list[str] = []

    def announce(name: str) -> None:
        said.append(name)
        if len(said) == 3:
            others.release()

    monkeypatch.setattr(CELL, "announce", announce)
    ran: list[str] = []
    with others:
        run(lambda function, device: ran.append(device), gpu_memory=36)
    assert ran == ["cuda"]
    assert said == ["property, when those of other cells have ended"] * 3


def test_it_runs_once_more_after_others_took_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    left = has(monkeypatch, 40, 41, 3, 42, 43, total=80)
    ran: list[int] = []

    def check(function: Any, device: str) -> None:
        ran.append(left[0])
        if len(ran) == 1:
            kinds = ["OutOfMemoryError", "RuntimeError"]
            raise raised({"kinds": kinds, "message": "of the GPU", "place": "", "findings": []})

    run(check, gpu_memory=36)
    assert ran == [3, 43]


def test_a_call_for_more_memory_than_is_stated_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, 40, total=80)

    def check(function: Any, device: str) -> None:
        raise torch.OutOfMemoryError("of the GPU")

    with pytest.raises(torch.OutOfMemoryError):
        run(check, gpu_memory=36)


def test_on_a_smaller_gpu_it_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, 24, total=24)
    with pytest.raises(NotRun, match=f"^{Absence.SMALL_GPU}: 36 GiB are needed, and it has 24$"):
        run(lambda function, device: pytest.fail("it was run"), gpu_memory=36)


def test_a_property_cannot_say_so_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, 70, total=80)

    def claim(function: Any, device: str) -> None:
        raise NotRun(Absence.SMALL_GPU)

    with pytest.raises(CheckFailed, match="NotRun"):
        run(claim, gpu_memory=36)
