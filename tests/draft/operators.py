"""Drafts a prototype, and loads its operators."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import trifold
from tests.draft.test_refusals import drafting


def drafted_operators(prototype: Path, workspace: Path) -> Any:
    """The operators of a prototype, drafted in the empty folder ``workspace``."""
    for folder in ("prototypes", "cuda_src", "ports", "verify"):
        (workspace / folder).mkdir()
    shutil.copy(prototype, workspace / "prototypes")
    (workspace / "verify" / prototype.name).touch()
    done = drafting("files", prototype.stem, str(workspace))
    assert done.returncode == 0, done.stderr
    return sys.modules[trifold.load(prototype.stem, workspace=workspace).__module__].op
