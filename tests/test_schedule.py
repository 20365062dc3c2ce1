"""In which order the cells of a run start."""

from __future__ import annotations

import pytest

from tests.wrong.entry import GALLERY
from trifold.cells import CELLS, CellName, Device
from trifold.machine.cells import Machine
from trifold.verification.job import Job
from trifold.verification.schedule import in_order, worker_pool

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
    for begin in range(0, len(devices), quarter):
        assert quarter / 4 <= devices[begin : begin + quarter].count("cpu") <= 3 * quarter / 4


@pytest.mark.parametrize(
    ("machine", "workers"),
    [
        (Machine("", "torch is a CPU build", ()), 16),
        (Machine("", "", (), 80 * 2**30), 32),
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
