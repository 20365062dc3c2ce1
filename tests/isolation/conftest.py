"""An op's process with the probes, shared by the tests of a file, and arguments for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from tests.isolation.probes import ADD, PROBES, replace_function
from tests.wrong.entry import copy_of_gallery
from trifold.verification.job import Job
from trifold.verification.remote import OpProcess
from trifold.verification.worker import _starter


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpProcess]:
    workspace = copy_of_gallery("add", tmp_path_factory.mktemp("workspace"))
    replace_function(workspace, PROBES)
    made = OpProcess(_starter(Job(str(workspace.root), ADD)), timeout=20)
    made.load(build=True)
    yield made
    made.close()


@pytest.fixture
def x() -> Tensor:
    return torch.tensor([1.0, 2.0, 3.0, 4.0])


@pytest.fixture
def y() -> Tensor:
    return torch.tensor([0.5, 0.25, 2.0, -1.0])
