"""An op that raises, hangs, ends its process or writes to its connection."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.isolation.probes import ADD, replace_function
from tests.wrong.entry import copy_of_gallery
from trifold.isolation import device_guard, server
from trifold.verification.job import Job
from trifold.verification.remote import OpProcess
from trifold.verification.remote_errors import OpDied
from trifold.verification.report import Row
from trifold.verification.runner import run_cell


def test_exceptions_keep_their_names(process: OpProcess, x: Tensor, y: Tensor) -> None:
    with pytest.raises(ValueError, match=r"^odd words$") as caught:
        process.function(x, y, "odd")
    assert type(caught.value).__name__ == "Odd"
    with pytest.raises(TypeError, match="the result is a Parameter, a subclass of"):
        process.function(x, y, "subclass")
    with pytest.raises(TypeError, match="a set cannot be sent"):
        process.function(x, {1})


@pytest.mark.parametrize(
    ("do", "says"),
    [
        ("exit", "^the process ended with status 0$"),
        ("write", "^the op's process wrote to the judge's connection what is no answer$"),
        ("sleep", "^no answer for 1 s: the kernel hangs, or is too slow for --timeout 1$"),
    ],
)
def test_after_a_death_the_next_call_has_another_process(
    do: str, says: str, process: OpProcess, x: Tensor, y: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.function(x, y)
    if do == "sleep":
        monkeypatch.setattr(process, "timeout", 1.0)
    with pytest.raises(OpDied, match=says):
        process.function(x, y, do)
    monkeypatch.undo()
    process.load(build=True)
    assert torch.equal(process.function(x, y), x + y)


def test_what_lived_in_a_process_that_died_has_no_gradient_any_more(process: OpProcess, x: Tensor, y: Tensor) -> None:
    x.requires_grad_()
    made = process.function(x, y, "cube")
    with pytest.raises(OpDied):
        process.function(x, y, "exit")
    with pytest.raises(KeyError):
        torch.autograd.grad(made.sum(), x)


ENDS = {
    "os._exit(0)": "the process ended with status 0",
    "os.kill(os.getpid(), 11)": "the process died of SIGSEGV",
    "os.kill(os.getpid(), 9)": "the process died of SIGKILL, as when the system has no memory left for it",
    "raise SystemExit(0)": "raises SystemExit, not RuntimeError, TypeError, ValueError or IndexError: 0",
    "[os.write(n, b'{}' * 8) for n in range(3, 64) if is_socket(n)]": "wrote to the judge's connection",
}


def rows_of(tmp_path: Path, end: str, *checks: str) -> list[Row]:
    """Of an op whose function does that."""
    workspace = copy_of_gallery("add", tmp_path)
    text = f"""
import os
import stat


def is_socket(number):
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False


def add(x, y):
    {end}
    raise ValueError("x, y, int64, float64, shape, dtype")


"""
    replace_function(workspace, text)
    return run_cell(Job(str(workspace.root), ADD, checks, examples=1), timeout=60)


@pytest.mark.parametrize("end", ENDS)
def test_an_op_that_ends_its_process_has_failed(end: str, tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, end, "errors")
    assert row.outcome == "failed"
    assert ENDS[end] in row.failures[0].message


def test_after_three_deaths_the_other_checks_are_given_up(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "os._exit(0)", "values", "rounding", "errors", "repeatable", "findings")
    assert [(row.check, row.outcome) for row in rows] == [
        ("values", "failed"),
        ("rounding", "failed"),
        ("errors", "failed"),
        ("other checks", "not run"),
    ]
    assert rows[-1].reason == "given up after the op's process died in: values, rounding, errors"


def test_a_process_under_a_tool_that_is_not_needed_any_more_ends_without_a_context_on_the_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a call that hangs, the tools that wait for their turn are not run."""

    def make_a_context() -> None:
        raise AssertionError("it would wait for its tool, which has ended")

    monkeypatch.setenv(device_guard.WHOLE_VECTORS, "1")
    monkeypatch.setattr(device_guard, "allocate_whole_vectors", make_a_context)
    ours, theirs = socket.socketpair()
    ours.close()
    server.work(server.Setup("", "add", "port", "cuda", connection=theirs.detach(), incoming=-1, outgoing=-1))
