"""What an op finds in its process: nothing that judges it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.isolation.probes import ADD, FOREIGN, replace_function
from tests.wrong.entry import copy_of_gallery
from trifold.isolation import nursery
from trifold.verification.job import Job
from trifold.verification.remote import OpProcess
from trifold.verification.runner import run_cell


def test_the_op_runs_there(process: OpProcess, x: Tensor, y: Tensor) -> None:
    assert torch.equal(process.function(x, y), x + y)


def test_a_second_process_runs_under_a_tool_and_ends_with_its_context(
    process: OpProcess, x: Tensor, y: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, announced = tmp_path / "tool", list[int]()
    tool.write_text('#!/bin/sh\nout=$1; shift\n"$@"\necho "$TOLD" > "$out"\n')
    tool.chmod(0o755)
    monkeypatch.setattr(process, "announced", announced.append)
    with process.another([str(tool), str(tmp_path / "out")], {"TOLD": "after it"}, slower=2.0) as other:
        assert torch.equal(other.function(x, y), x + y)
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out").read_text() == "after it\n"
    assert process._process is not None
    assert announced[1:] == [process._process.pid]  # which is ended with the judge
    assert torch.equal(process.function(x, y), x + y)


def test_nothing_of_the_judge_is_there(process: OpProcess, x: Tensor, y: Tensor) -> None:
    with pytest.raises(RuntimeError, match=r"^foreign modules: \[\]$"):
        process.function(x, y, "foreign")


def test_the_reference_is_not_there(process: OpProcess, x: Tensor, y: Tensor) -> None:
    with pytest.raises(RuntimeError, match="the reference is the judge's: it cannot be called where the op runs"):
        process.function(x, y, "reference")


def test_nothing_of_the_judge_is_in_a_process_that_the_nursery_forks(tmp_path: Path) -> None:
    workspace = copy_of_gallery("add", tmp_path)
    replace_function(workspace, FOREIGN + "\n\ndef add(x, y):\n    foreign()\n\n\n")
    spec = workspace.files("add").spec
    spec.write_text(
        "import torch\nfrom trifold.spec import Property, Spec, elementwise, elementwise_smooth\n\n\n"
        "def _foreign(function, device):\n"
        "    from trifold.isolation import nursery\n"
        "    assert nursery._ops, 'this worker was forked'\n"
        "    try:\n        function(torch.ones(2), torch.ones(2))\n"
        "    except RuntimeError as error:\n        assert str(error) == 'foreign modules: []', str(error)\n"
        "    else:\n        raise AssertionError('nothing was raised')\n\n\n"
        "foreign = Property('foreign', _foreign, 'why')\n"
        "spec = Spec(calls=elementwise(2), smooth=elementwise_smooth(2), properties=[foreign])\n",
        encoding="utf-8",
    )
    with nursery.opened():
        (row,) = run_cell(Job(str(workspace.root), ADD, ("property: foreign",)), timeout=60)
    assert row.outcome == "passed", row.failures
