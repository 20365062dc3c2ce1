"""In which order the cells of a run start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wrong.entry import GALLERY
from trifold.cells import CELLS, CellName, Device
from trifold.machine.cells import Machine
from trifold.verification.durations import durations, keep_durations
from trifold.verification.job import Job
from trifold.verification.schedule import in_order, worker_pool
from trifold.workspace import Workspace

OPS = [op.name for op in GALLERY.select(())]
ALL = [Job(str(GALLERY.root), CellName(op, kind, device)) for kind, device in CELLS for op in OPS]


def test_every_cell_starts_once() -> None:
    assert sorted(map(str, in_order(GALLERY, ALL))) == sorted(map(str, ALL))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_of_each_device_the_longest_port_starts_first(device: Device) -> None:
    ports = [job.cell.op for job in in_order(GALLERY, ALL) if job.cell == CellName(job.cell.op, "port", device)]
    assert ports[0] == "layer_norm"
    assert set(ports[-3:]) <= {"add", "mul", "sigmoid", "round_ste", "transpose", "embedding", "histogram"}


def test_cells_of_both_devices_run_side_by_side() -> None:
    devices = [job.cell.device for job in in_order(GALLERY, ALL)]
    quarter = len(devices) // 4
    *earlier, last = (devices[begin : begin + quarter] for begin in range(0, len(devices), quarter))
    assert all(quarter / 4 <= some.count("cpu") <= 3 * quarter / 4 for some in earlier)
    assert set(last[-quarter // 2 :]) == {"cpu"}  # the shortest


@pytest.mark.parametrize(
    ("machine", "workers"),
    [
        (Machine("", "torch is a CPU build", ()), 16),
        (Machine("", "", (), 80 * 2**30), 20),
        (Machine("", "", (), 24 * 2**30), 12),
        (Machine("", "", (), 2**30), 2),
    ],
)
def test_more_workers_than_cores_where_some_wait_for_a_gpu_with_memory_for_them(
    machine: Machine, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    with worker_pool(machine) as pool:
        assert pool._max_workers == workers


def test_cells_that_have_been_measured_start_by_their_seconds() -> None:
    slow, quick = CellName("add", "prototype", "cpu"), CellName("layer_norm", "port", "cpu")
    on_cpu = [job for job in ALL if job.cell.device == "cpu"]
    some = [job.cell for job in in_order(GALLERY, on_cpu, {slow: 400.0, quick: 1.0})]
    assert some[0] == slow
    assert some[-1] == quick
    seconds = {job.cell: float(7 * number % len(on_cpu)) for number, job in enumerate(on_cpu)}
    assert [job.cell for job in in_order(GALLERY, on_cpu, seconds)] == sorted(seconds, key=lambda cell: -seconds[cell])


def test_a_run_that_took_no_time_says_nothing_of_the_order() -> None:
    on_cpu = [job for job in ALL if job.cell.device == "cpu"]
    assert len(in_order(GALLERY, on_cpu, {job.cell: 0.0 for job in on_cpu})) == len(on_cpu)


def test_the_longest_cell_has_the_highest_priority() -> None:
    seconds = {job.cell: float(1 + number) for number, job in enumerate(ALL)}
    on_cpu = [job for job in ALL if job.cell.device == "cpu"]
    jobs = in_order(GALLERY, on_cpu, seconds, with_priorities=True)
    nice = {job.cell: job.nice for job in jobs}
    assert nice[max(nice, key=seconds.__getitem__)] == 0
    assert 5 <= max(nice.values()) <= 10
    assert sorted(nice, key=seconds.__getitem__) == sorted(nice, key=lambda cell: (-nice[cell], seconds[cell]))


def test_seconds_are_kept_with_those_of_other_cells(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    one, other = ALL[0].cell, ALL[-1].cell
    assert durations(workspace) == {}
    keep_durations(workspace, {one: 1.5, other: 2.0})
    keep_durations(workspace, {other: 3.0})
    assert durations(workspace) == {one: 1.5, other: 3.0}
    (tmp_path / ".trifold" / "durations.json").write_text("[[1]]")
    assert durations(workspace) == {}
