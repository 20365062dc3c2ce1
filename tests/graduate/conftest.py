"""One wheel of two ops, built once, for all tests of wheels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.graduate.verified import nothing_anew, share_a_module, verified_workspace
from trifold.graduate.graduate import Graduated, graduate
from trifold.workspace import Workspace

# One whose gradient is declared and which has a shared module, one that draws random numbers and has two operators.
OPS = ("round_ste", "normal_sample")
PACKAGE = "two-kernels"


@dataclass(frozen=True)
class Made:
    """A wheel, as it was made on a machine without nvcc whose cache cannot be used."""

    workspace: Workspace
    result: Graduated
    steps: tuple[str, ...]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, quick_gxx: Path) -> Made:
    folder = tmp_path_factory.mktemp("graduated")
    workspace = verified_workspace(folder / "workspace", *OPS)
    share_a_module(workspace)
    steps: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trifold.graduate.graduate.find_nvcc", lambda: None)
        patch.setattr("trifold.graduate.graduate.reverify", nothing_anew)
        patch.setenv("CXX", str(quick_gxx))
        # Neither of these is used: a build needs no cache of trifold's, and no index of pip's.
        patch.setenv("TRIFOLD_CACHE_DIR", "/dev/null/cache")
        patch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        result = graduate(
            OPS,
            folder / "out",
            workspace=workspace,
            name=PACKAGE,
            allow_unverified=["cuda"],
            on_step=steps.append,
        )
    return Made(workspace, result, tuple(steps))


@pytest.fixture
def wheel(made: Made) -> Path:
    return made.result.wheel
