"""Writes a table of compute-sanitizer's findings in the pairs, on this machine's GPU, and of the CPU checks' findings.

``python -m tests.cpu.catalogue.asynchronous FILE.json`` runs each right and each wrong kernel under the four tools, and
under the checks with 20 schedules.
"""

from __future__ import annotations

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from benchmarks.records import sources
from tests.cpu.catalogue.agreement import on_gpu, row_of
from tests.cpu.catalogue.asynchronous.agreement import document, on_cpu, subject_of, write_program
from tests.cpu.catalogue.asynchronous.catalogue import PAIRS
from tests.cpu.catalogue.asynchronous.checks import op_of_pairs
from tests.cpu.catalogue.asynchronous.kernels import KERNELS, Kernel
from tests.cpu.catalogue.asynchronous.pair import Pair
from trifold import compute_sanitizer
from trifold.build import toolchain
from trifold.implementation import load_checked_port
from trifold.machine.environment import environment

ROOT = Path(__file__).parents[4]
LIMIT_S = 12.0


def main() -> None:
    (file,) = sys.argv[1:]
    cases: list[Kernel | Pair] = [*KERNELS.values(), *PAIRS]
    subjects = [subject_of(case) for case in cases]
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as other:
        folder = Path(name)
        for part in ("program", "tapes", "op"):
            (folder / part).mkdir()
        write_program(folder / "program")
        running = other.submit(on_gpu, subjects, folder / "tapes", folder / "program", limit_s=LIMIT_S, every_tool=True)
        start = load_checked_port(op_of_pairs(folder / "op", KERNELS.values(), PAIRS)).function
        cpu = {subject.name: on_cpu(start, case) for subject, case in zip(subjects, cases, strict=True)}
        runs = running.result()
    rows = [row_of(subject, cpu[subject.name].findings, runs[subject.name]) for subject in subjects]
    facts = environment(ROOT, torch.device("cuda")) | {
        "compute-sanitizer": compute_sanitizer.version(compute_sanitizer.find()),
        "nvcc": toolchain.dotted(toolchain.nvcc_version(toolchain.find_nvcc().path)),
        "sources": sources("cpu/asynchronous.json"),
    }
    record = {"environment": facts, **document(rows, cpu)}
    Path(file).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print({key: value for key, value in record.items() if isinstance(value, int)})


if __name__ == "__main__":
    main()
