"""Clusters, barriers in shared memory and asynchronous copies: for each pair, one kernel has no finding, and one
has."""

from __future__ import annotations

import ctypes
import dataclasses
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from tests.cpu.catalogue.agreement import row_of
from tests.cpu.catalogue.asynchronous.agreement import document, on_cpu, subject_of, write_program
from tests.cpu.catalogue.asynchronous.catalogue import CLASSES, PAIRS, WITHOUT_PAIR
from tests.cpu.catalogue.asynchronous.checks import SEEDS, cpu_kernel, findings, op_of_pairs
from tests.cpu.catalogue.asynchronous.kernels import KERNELS, TEXTS, Kernel
from tests.cpu.catalogue.asynchronous.pair import Pair, qualified
from tests.cpu.catalogue.gpu import GpuKernel, build
from tests.cpu.catalogue.launcher import Start
from trifold.build.sources import INCLUDE_ROOT
from trifold.compute_sanitizer import TOOLS, ToolRun
from trifold.compute_sanitizer.report import ToolReport
from trifold.implementation import load_checked_port, load_port

# It reads before the copies have completed, also without checks.
(LATE,) = [pair for pair in PAIRS if pair.name == "the own arrival, in place of that of the copies"]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Start:
    function: Start = load_checked_port(
        op_of_pairs(tmp_path_factory.mktemp("checked"), KERNELS.values(), PAIRS)
    ).function
    return function


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Start:
    function: Start = load_port(op_of_pairs(tmp_path_factory.mktemp("plain"), KERNELS.values(), [LATE])).function
    return function


@contextmanager
def os_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def test_the_list_covers_the_classes() -> None:
    assert len(PAIRS) >= 45 and len({pair.text for pair in PAIRS}) == len(PAIRS)
    assert len({pair.space for pair in PAIRS}) == len(PAIRS)
    with_pair = {pair.number for pair in PAIRS} - {0}
    assert with_pair.isdisjoint(WITHOUT_PAIR)
    assert with_pair | set(WITHOUT_PAIR) == set(CLASSES)
    assert KERNELS.keys() == TEXTS.keys()


def test_the_twins_differ_by_one_line() -> None:
    for pair in PAIRS:
        right, wrong = (text.splitlines() for text in (TEXTS[pair.kernel], pair.text))
        assert sum(old != new for old, new in zip(right, wrong, strict=True)) == 1, pair


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=str)
def test_nothing_is_found_in_the_right_twin(kernel: Kernel, checked: Start) -> None:
    """A seed decides for each operation whether it ends at its start, late, or in between, in parts."""
    for seed in SEEDS:
        assert findings(checked, kernel, seed) == [], seed


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_wrong_twin_is_found_by_kind_and_line(pair: Pair, checked: Start) -> None:
    shown = 0
    for seed in SEEDS:
        found = findings(checked, pair, seed)
        if not found and pair.hidden:
            continue
        (finding,) = found
        assert any(expected.is_in(finding) for expected in pair.found), f"seed {seed}: {finding}"
        shown += 1
    assert shown > len(SEEDS) * 3 // 4


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=str)
def test_the_right_twin_runs_without_checks(kernel: Kernel, threads: int, plain: Start) -> None:
    with os_threads(threads):
        kernel.run(cpu_kernel(plain, kernel), times=64)


def test_operations_are_late_where_nothing_waits_for_them(plain: Start) -> None:
    with pytest.raises(AssertionError, match="not equal"):
        LATE.right.run(cpu_kernel(plain, LATE))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
@pytest.mark.extended
def test_nvcc_compiles_all(tmp_path: Path) -> None:
    write_program(tmp_path)
    options = ("-std=c++20", "-arch=sm_90", "-Xptxas=-O0", "--expt-relaxed-constexpr", f"-I{INCLUDE_ROOT}")
    command = ["nvcc", *options, "-c", str(tmp_path / "replay.cu"), "-o", str(tmp_path / "replay.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_table_of_what_compute_sanitizer_finds(checked: Start) -> None:
    """For two kernels, with the results of one tool that found the race, and of another one whose process did not
    end."""
    right, wrong = KERNELS["store"], PAIRS[0]
    subjects = [subject_of(right), subject_of(wrong)]
    cpu = {subjects[0].name: on_cpu(checked, right), subjects[1].name: on_cpu(checked, wrong)}
    hazard = dataclasses.replace(cpu[str(wrong)].findings[0], kernel=wrong.qualified)
    runs = [
        ToolRun(tool, 0, tool != "synccheck", "", ToolReport((hazard,) if tool == "racecheck" else (), (), True))
        for tool in TOOLS
    ]
    made = document([row_of(each, cpu[each.name].findings, runs) for each in subjects], cpu)
    assert (made["found by both"], made["false alarms of compute-sanitizer"], made["false alarms of cpu"]) == (1, 0, 0)
    row = made["kernels"][1]
    assert row["class"] == 1 and row["wrong line"] != row["right line"] == "FENCE(); // by each writer"
    assert row["schedules as expected"] == made["kernels"][0]["schedules as expected"] == "20 of 20"


def test_each_launch_is_written_down_for_a_gpu() -> None:
    cases: list[Kernel | Pair] = [*KERNELS.values(), *PAIRS]
    for case in cases:
        subject = subject_of(case)
        *memory, launch = subject.tape().splitlines()
        assert all(line.startswith("memory ") for line in memory)
        assert launch.split()[:2] == ["launch", subject.kernels]


@pytest.fixture(scope="module")
def gpu_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("gpu")
    write_program(folder)
    return build(folder, folder)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=str)
def test_the_right_twin_gives_the_same_on_a_gpu(kernel: Kernel, gpu_library: ctypes.CDLL) -> None:
    """The same bits as on the CPU, as both are compared with one result."""
    kernel.run(GpuKernel(gpu_library, qualified(kernel), lambda *_: ()))
