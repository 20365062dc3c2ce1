"""The job of a worker process, and the events that it sends back, as JSON lines."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from trifold.cells import CellName

WORKER = "trifold.verification.worker"  # the module whose work() does a job


@dataclass(frozen=True)
class Job:
    """Checks of one cell.

    Attributes:
        workspace: its folder.
        checks: names, in order; empty for all.
        skip: names that are not run (because a worker died in them).
        examples: calls for each check that draws; None: the cell's default.
        seed: of the draws; None: a constant, the same in every run.
        coverage: the folder for counts of the lines that run; None: nothing is counted.
        timeout: seconds that the op's process may take for one answer.
        nice: of its processes, from 0 to 19: how far they leave the cores to others.
        nonce: the worker's last event must have it.
    """

    workspace: str
    cell: CellName
    checks: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    examples: int | None = None
    seed: int | None = None
    coverage: str | None = None
    timeout: float = 120.0
    nice: int = 0
    nonce: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        data: dict[str, Any] = json.loads(text)
        data["cell"] = CellName(**data["cell"])
        data["checks"], data["skip"] = tuple(data["checks"]), tuple(data["skip"])
        return cls(**data)
