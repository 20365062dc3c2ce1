"""How far the CPU's results of the gallery's ports are from a GPU's, in units in the last place.

``NVCC_APPEND_FLAGS=--fmad=false python -m tests.cpu.both_devices FILE.json [op...]`` writes one row for each op, dtype
and result. With this flag nvcc rounds each operation once, as g++ does; otherwise a multiply and an add may be rounded
together. Ops are compared in processes of their own, several at once.
"""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.records import sources
from trifold.build import BuildRequest, Device, build_all
from trifold.implementation import Implementation, load_port, reference
from trifold.machine.environment import environment
from trifold.spec import Call, Limits, Spec
from trifold.spec.load import load_spec
from trifold.verification.calls import Search
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import differentiate, gradient_scales, stated_gradient_errors
from trifold.verification.comparison import scales
from trifold.verification.results import as_tuple
from trifold.workspace import Workspace

DEVICES: tuple[Device, Device] = "cpu", "cuda"
DRAWN = 40  # calls of each op in addition to its samples and edges
_LIMITS = Limits(elements=1 << 17)
_ROUND_OFF = 2.0**-24  # of float32


@dataclass
class Row:
    """The largest distance for one result of one op in one dtype.

    Attributes:
        result: ``forward`` or ``gradient``, and which.
        calls, elements: how many were compared.
        other_bits: elements whose bits differ.
        ulp: the largest distance, in numbers of the dtype between the two (0 and -0 are one apart).
        ulp_of_scale: the same in units in the last place of the result's scale (verify/<op>.py) if that is larger: for
            a sum that cancels, the size of its summands. For half types it is the excess over the error that the spec
            states before rounding, which includes that of the hardware's approximations.
        call: the one with the largest distance of the second kind.
    """

    op: str
    dtype: str
    result: str
    calls: int = 0
    elements: int = 0
    other_bits: int = 0
    ulp: int = 0
    ulp_of_scale: float = 0.0
    call: str = ""

    def add(self, ours: Tensor, theirs: Tensor, scale: Tensor | None, stated: Tensor | None, call: Call) -> None:
        self.calls += 1
        self.elements += ours.numel()
        if ours.numel() == 0:
            return
        apart = _distance(ours, theirs)
        self.other_bits += int((apart != 0).sum())
        self.ulp = max(self.ulp, int(apart.max()))
        if not ours.is_floating_point():
            return
        a, b = ours.double(), theirs.double()
        size = a.abs() if scale is None else torch.maximum(a.abs(), scale.double().abs().nan_to_num(nan=0.0))
        info = torch.finfo(ours.dtype)
        unit = torch.exp2(size.clamp(info.smallest_normal, info.max).log2().floor()) * info.eps
        off = (a - b).abs().nan_to_num(nan=torch.inf)
        if stated is not None and ours.dtype.itemsize == 2:
            off = (off - stated.double().abs().nan_to_num() * _ROUND_OFF).clamp(min=0)
        worst = float(torch.minimum(off / unit, apart.double()).max())
        if worst > self.ulp_of_scale:
            self.ulp_of_scale, self.call = worst, call.code(self.op)


def _distance(ours: Tensor, theirs: Tensor) -> Tensor:
    """How many numbers of the dtype are between two, as int64; at most 2^62. A nan must be where the other's is."""
    if ours.is_complex():
        return _distance(torch.view_as_real(ours), torch.view_as_real(theirs)).amax(-1)
    if not ours.is_floating_point():
        return (ours.long() - theirs.long()).abs()
    integers = {8: torch.int64, 4: torch.int32, 2: torch.int16}[ours.dtype.itemsize]

    def place(values: Tensor) -> Tensor:
        bits = values.contiguous().view(integers).long()
        return torch.where(bits < 0, -(bits & torch.iinfo(integers).max) - 1, bits)

    a, b = place(ours), place(theirs)
    far = ((a < 0) != (b < 0)) & ((a.abs() > 2**61) | (b.abs() > 2**61))  # their difference may not fit
    return torch.where(far, 2**62, torch.where(far, 0, a - torch.where(far, a, b)).abs()).masked_fill(
        ours.isnan() & theirs.isnan(), 0
    )


def compare(cpu: Cell, cuda: Cell) -> list[Row]:
    """Compare the spec's samples and edges, and drawn calls, the same in every run."""
    rows: dict[tuple[str, str], Row] = {}

    def both(call: Call) -> None:
        paths = cpu.gradient_paths(call)
        scale = (*scales(cpu, call), *gradient_scales(cpu, call, paths))
        both_results = zip(_results(cpu, call), _results(cuda, call), scale, _stated(cpu, call), strict=True)
        for (name, ours), (_, theirs), size, stated in both_results:
            if ours is not None and theirs is not None:
                dtype = str(ours.dtype).removeprefix("torch.")
                row = rows.setdefault((dtype, name), Row(cpu.op, dtype, name))
                row.add(ours, theirs.cpu(), size, stated, call)

    cpu.for_each_call(both)
    return list(rows.values())


def _results(cell: Cell, call: Call) -> list[tuple[str, Tensor | None]]:
    """Results and gradients, with the same upstream gradient on both devices."""
    made = differentiate(cell, call, cell.gradient_paths(call), cell.implementation.function)
    forward = [(f"forward {i}", o.detach()) for i, o in enumerate(made.results)]
    return [*forward, *((f"gradient {i}", g) for i, g in enumerate(made.grads))]


def _stated(cell: Cell, call: Call) -> list[Tensor | None]:
    """The error of results and gradients before they are rounded, as stated in the spec, in round-offs of float32."""
    spec, paths = cell.spec, cell.gradient_paths(call)
    of_results: list[Tensor | None] = [None] * len(scales(cell, call))
    of_gradients: list[Tensor | None] = [None] * len(paths)
    if spec.rounding_error is not None:
        args, kwargs = cell.converted(*call.arguments(cell.device))
        of_results = [*as_tuple(spec.rounding_error(cell.reference, *args, **kwargs))]
    if spec.gradient_rounding_error is not None and paths:
        of_path = stated_gradient_errors(cell, call, spec.gradient_rounding_error)
        of_gradients = [of_path[path] for path in paths]
    return [*of_results, *of_gradients]


def _same_noise(implementation: Implementation) -> None:
    """Makes random draws the same on both devices, where torch's generators differ even with the same seed."""
    names = implementation.function.__globals__
    if "philox_state" in names:
        names["philox_state"] = lambda device, generator=None: (1234, 4, None)


def _cell(implementation: Implementation, spec: Spec, device: str) -> Cell:
    plain = reference(implementation.files)
    return Cell(spec, implementation, device, plain, Search(DRAWN), _LIMITS, announce=lambda *what: None)


def _rows(op: str) -> list[Row]:
    torch.set_num_threads(1)
    files = Workspace.find().op(op)
    implementation, spec = load_port(files), load_spec(files)
    if spec.not_on_cpu:
        return []
    _same_noise(implementation)
    return compare(*(_cell(implementation, spec, device) for device in DEVICES))


def main() -> None:
    file, *ops = sys.argv[1:]
    workspace = Workspace.find()
    names = ops or workspace.ops()
    of_port = {files: load_port(files).overload().namespace for files in map(workspace.op, names)}
    build_all(BuildRequest(files, device, name) for files, name in of_port.items() for device in DEVICES)
    processes = max(1, min(len(names), len(os.sched_getaffinity(0)) // 2))
    with concurrent.futures.ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        rows = [row for of_op in pool.map(_rows, names, chunksize=1) for row in of_op]
    facts = environment(workspace.root, torch.device("cuda")) | {
        "nvcc": os.environ.get("NVCC_APPEND_FLAGS", ""),
        "sources": sources("cpu/ports-on-gpu.json"),
    }
    Path(file).write_text(json.dumps(facts | {"rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
