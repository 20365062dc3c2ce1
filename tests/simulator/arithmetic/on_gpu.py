"""Compiles recorded kernels with numba-cuda for the GPU of this machine, and records what they compute.

    python on_gpu.py CASES OUT [SECONDS]   CASES: what ``record.py write`` made; OUT: the results, an .npz

It needs nothing of trifold. Several processes compile at once: a kernel takes longer to compile than to run.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import sys
import time
from importlib import metadata
from typing import Any

import numpy as np


def run(case: dict[str, Any], inputs: list[np.ndarray[Any, Any]]) -> dict[str, Any]:
    """The rows of results of one kernel; a label that Numba refuses is an error instead, and its row zeros."""
    try:
        return _launch(case["source"], case["letters"], inputs)
    except Exception as error:
        answer: dict[str, Any] = {"errors": {"": _first_lines(error)}}
    if len(case["body"]) != len(case["labels"]):
        return answer
    shape = len(inputs[0])
    answer["errors"] = {}
    answer["f"] = np.zeros((max(1, case["letters"].count("f")), shape), np.float64)
    answer["i"] = np.zeros((max(1, case["letters"].count("i")), shape), np.int64)
    for statement, label, letter in zip(case["body"], case["labels"], case["letters"], strict=True):
        others = set(case["body"]) - {statement}
        kept = [line for line in case["source"].splitlines() if line.strip() not in others]
        row = int(statement[2 : statement.index(",")])
        try:
            alone = _launch("\n".join(kept) + "\n", case["letters"], inputs)
        except Exception as error:
            answer["errors"][label] = _first_lines(error)
        else:
            answer[letter][row] = alone[letter][row]
    return answer


def _first_lines(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _launch(source: str, letters: str, inputs: list[np.ndarray[Any, Any]]) -> dict[str, Any]:
    from numba import cuda
    from numba.cuda import libdevice

    names: dict[str, Any] = {"cuda": cuda, "math": math, "np": np, "libdevice": libdevice}
    exec(source, names)
    count = len(inputs[0])
    floats = np.zeros((max(1, letters.count("f")), count), np.float64)
    integers = np.zeros((max(1, letters.count("i")), count), np.int64)
    cuda.jit(names["kernel"])[(count + 127) // 128, 128](*inputs, floats, integers)
    return {"f": floats, "i": integers}


def _work(job: tuple[list[tuple[int, dict[str, Any], list[Any]]], float]) -> list[tuple[int, dict[str, Any]]]:
    cases, deadline = job
    late = {"errors": {"": "not run: the time was over"}}
    return [(number, run(case, inputs) if time.time() < deadline else late) for number, case, inputs in cases]


def main(source: str, target: str, seconds: float = 600, processes: int = 15) -> None:
    """Stops after so many seconds with what there is."""
    started = time.time()
    with np.load(source) as stored:
        cases = json.loads(str(stored["cases"]))
        columns = {name: stored[name] for name in stored.files if name != "cases"}
    numbered = [(n, case, [columns[name] for name in case["inputs"]]) for n, case in enumerate(cases)]
    jobs = [(numbered[start::processes], started + seconds) for start in range(processes)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        answers = [answer for part in pool.map(_work, jobs, chunksize=1) for answer in part]
    found: dict[str, Any] = {}
    errors: dict[str, str] = {}  # by case and label
    for number, answer in answers:
        errors.update({f"{number} {label}": text for label, text in answer.get("errors", {}).items()})
        found.update({f"{number} {letter}": answer[letter] for letter in "fi" if letter in answer})
    found["about"] = np.array(json.dumps({**_about(), "errors": errors}))
    np.savez_compressed(target, **found)
    print(f"{len(cases)} kernels, {len(errors)} refused, {time.time() - started:.0f} s")


def _about() -> dict[str, str]:
    from numba import cuda

    device = cuda.get_current_device()
    name = device.name.decode() if isinstance(device.name, bytes) else device.name
    versions = {package: metadata.version(package) for package in ("numba", "numba-cuda", "numpy")}
    capability = ".".join(map(str, device.compute_capability))
    return {"device": name, "compute capability": capability, **versions, "python": sys.version.split()[0]}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 600)
