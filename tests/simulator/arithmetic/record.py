"""A recording of a GPU's results, in one file: kernels, operands, results.

python -m tests.simulator.arithmetic.record write CASES
python on_gpu.py CASES RESULTS                            (on a machine with a GPU and numba-cuda)
python -m tests.simulator.arithmetic.record keep CASES RESULTS
"""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.simulator.arithmetic import cases, functions, programs

RECORDED = Path(__file__).with_name("h200.xz")
_NARROWER = {"f": ("f2", "f4", "f8"), "i": ("i1", "i2", "i4", "i8")}


@dataclass
class Recorded:
    """A kernel and what the GPU gave.

    Attributes:
        rows: for each label the results, float64 or int64.
        errors: by label what Numba said where it refused; under "" of the whole kernel.
    """

    name: str
    source: str
    labels: list[str]
    letters: str
    inputs: list[np.ndarray[Any, Any]]
    rows: dict[str, np.ndarray[Any, Any]]
    errors: dict[str, str]


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
    """The kernels and operands, for ``on_gpu.py``."""
    described: list[dict[str, Any]] = []
    columns: dict[str, Any] = {}
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
            }
        )
    np.savez_compressed(target, cases=np.array(json.dumps(described)), **columns)


def keep(source: Path, results: Path, target: Path = RECORDED) -> None:
    """One compressed file: a JSON line, then all numbers, each row in the narrowest type that holds it."""
    with np.load(source) as given, np.load(results) as found:
        about = json.loads(str(found["about"]))
        errors = about.pop("errors")
        about["commit"] = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        described, blob = [], bytearray()
        for number, case in enumerate(json.loads(str(given["cases"]))):
            inputs = [given[name] for name in case["inputs"]]
            entry = {name: case[name] for name in ("name", "source", "labels", "letters")}
            entry["inputs"] = [column.dtype.str for column in inputs]
            entry["count"] = len(inputs[0])
            prefix = f"{number} "
            entry["errors"] = {k.removeprefix(prefix): v for k, v in errors.items() if k.startswith(prefix)}
            for column in inputs:
                blob += column.tobytes()
            if f"{number} f" in found.files:
                entry["rows"] = _pack(case["letters"], {x: found[f"{number} {x}"] for x in "fi"}, blob)
            described.append(entry)
    header = json.dumps({"about": about, "cases": described}).encode()
    target.write_bytes(lzma.compress(header + b"\n" + bytes(blob), preset=9))


def _pack(letters: str, arrays: dict[str, np.ndarray[Any, Any]], blob: bytearray) -> list[str]:
    """Appends the rows, in the labels' order; gives their types."""
    types = []
    for place, letter in enumerate(letters):
        row = arrays[letter][letters[:place].count(letter)]
        with np.errstate(over="ignore", invalid="ignore"):
            kind = next(k for k in _NARROWER[letter] if row.astype(k).astype(row.dtype).tobytes() == row.tobytes())
        blob += row.astype(kind).tobytes()
        types.append(kind)
    return types


def recorded(path: Path = RECORDED) -> tuple[dict[str, str], list[Recorded]]:
    """The device and the versions, and all kernels."""
    text, _, blob = lzma.decompress(path.read_bytes()).partition(b"\n")
    header = json.loads(text)
    numbers = memoryview(blob)
    position = 0

    def take(kind: str, count: int) -> np.ndarray[Any, Any]:
        nonlocal position
        column = np.frombuffer(numbers, kind, count, position)
        position += column.nbytes
        return column.copy()

    def rows(entry: dict[str, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        for label, letter, kind in zip(entry["labels"], entry["letters"], entry.get("rows", ()), strict=False):
            yield label, take(kind, entry["count"]).astype({"f": "f8", "i": "i8"}[letter])

    found = []
    for entry in header["cases"]:
        inputs = [take(kind, entry["count"]) for kind in entry["inputs"]]
        name, source, labels, letters = (entry[key] for key in ("name", "source", "labels", "letters"))
        found.append(Recorded(name, source, labels, letters, inputs, dict(rows(entry)), entry["errors"]))
    return header["about"], found


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    commands: dict[str, Callable[..., None]] = {"write": write, "keep": keep}
    commands[command](*map(Path, paths))
