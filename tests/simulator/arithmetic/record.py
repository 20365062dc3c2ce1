"""Writes the kernels for a GPU to run, and puts what it computed beside them.

    python -m tests.simulator.arithmetic.record write CASES
    python on_gpu.py CASES RESULTS                            (on a machine with a GPU and numba-cuda)
    python -m tests.simulator.arithmetic.record keep CASES RESULTS h200.npz
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.simulator.arithmetic import cases, functions, programs

RECORDED = Path(__file__).with_name("h200.npz")


def all_cases() -> list[cases.Case]:
    """Every kernel of the comparison, in the order in which results are kept."""
    return [
        *cases.single_operations(),
        *functions.calls(),
        *programs.integer_programs(60),
        *programs.mixed_programs(60),
        *programs.chains(16),
    ]


def write(target: Path) -> None:
    described, columns = [], {}
    for number, case in enumerate(all_cases()):
        names = [f"in {number} {place}" for place in range(len(case.inputs))]
        columns.update(zip(names, case.inputs, strict=True))
        described.append(
            {
                "name": case.name,
                "source": case.source,
                "body": case.body,
                "labels": case.labels,
                "letters": case.letters,
                "inputs": names,
                "chain": case.name.startswith("chain"),
            }
        )
    np.savez_compressed(target, cases=np.array(json.dumps(described)), **columns)


def keep(source: Path, results: Path, target: Path) -> None:
    """One file, rows transposed to bytes of like significance: those compress."""
    stored: dict[str, Any] = {}
    with np.load(source) as given, np.load(results) as found:
        for archive in (given, found):
            stored.update({name: archive[name] for name in archive.files})
    np.savez_compressed(target, **stored)


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    {"write": write, "keep": keep}[command](*map(Path, paths))
