"""How far the CPU's results of the gallery's ports are from a GPU's, in units in the last place.

``NVCC_APPEND_FLAGS=--fmad=false python -m tests.host.both_devices FILE.json [op...]`` writes one row for each op, dtype
and result. nvcc then rounds each operation once, as g++ does; without it a multiply and an add may be one rounding.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import hypothesis
import torch
from hypothesis import Phase, settings
from torch import Tensor

from trifold.environment import environment
from trifold.implementation import Implementation, load_port
from trifold.spec import Call, Limits, Spec
from trifold.verification.load_spec import load_spec
from trifold.workspace import Workspace

DRAWN = 40  # calls of each op beside its samples and edges
_LIMITS = Limits(elements=1 << 17)


@dataclass
class Row:
    """The worst of one result of one op in one dtype.

    Attributes:
        result: ``forward`` or ``gradient``, with the position among several.
        calls, elements: how many were compared.
        other_bits: elements whose bits differ.
        ulp: the largest distance, in numbers of the dtype between the two (0 and -0 are one apart).
        ulp_of_largest: likewise in units in the last place of the largest element of the result, for those that
            cancel.
        call: the one with the largest distance.
    """

    op: str
    dtype: str
    result: str
    calls: int = 0
    elements: int = 0
    other_bits: int = 0
    ulp: int = 0
    ulp_of_largest: float = 0.0
    call: str = ""

    def add(self, ours: Tensor, theirs: Tensor, call: Call) -> None:
        self.calls += 1
        self.elements += ours.numel()
        if ours.numel() == 0:
            return
        apart = _distance(ours, theirs)
        self.other_bits += int((apart != 0).sum())
        worst = int(apart.max())
        if worst > self.ulp:
            self.ulp, self.call = worst, call.code(self.op)
        finite = torch.where(ours.isfinite() & theirs.isfinite(), ours, 0).double()
        size = float(finite.abs().max())
        unit = max(size, torch.finfo(ours.dtype).smallest_normal) * torch.finfo(ours.dtype).eps
        other = torch.where(ours.isfinite() & theirs.isfinite(), theirs, 0).double()
        self.ulp_of_largest = max(self.ulp_of_largest, float((finite - other).abs().max()) / unit)


def _distance(ours: Tensor, theirs: Tensor) -> Tensor:
    """How many numbers of the dtype lie between two, as int64; at most 2^62. A nan is where the other's is."""
    integers = {8: torch.int64, 4: torch.int32, 2: torch.int16}[ours.dtype.itemsize]

    def place(values: Tensor) -> Tensor:
        bits = values.contiguous().view(integers).long()
        return torch.where(bits < 0, -(bits & torch.iinfo(integers).max) - 1, bits)

    a, b = place(ours), place(theirs)
    far = ((a < 0) != (b < 0)) & ((a.abs() > 2**61) | (b.abs() > 2**61))  # their difference may not fit
    return torch.where(far, 2**62, torch.where(far, 0, a - torch.where(far, a, b)).abs()).masked_fill(
        ours.isnan() & theirs.isnan(), 0
    )


def calls_of(spec: Spec) -> Iterator[Call]:
    """The spec's samples, edges and smooth calls, and drawn ones: the same for every run."""
    yield from (sample.call for sample in spec.samples)
    yield from spec.edges
    yield from spec.smooth
    drawn: list[Call] = []

    @settings(max_examples=DRAWN, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    @hypothesis.given(spec.calls(_LIMITS))
    def draw(call: Call) -> None:
        drawn.append(call)

    draw()
    yield from drawn


def compare(implementation: Implementation, spec: Spec) -> list[Row]:
    rows: dict[tuple[str, str], Row] = {}
    for call in calls_of(spec):
        if call.dtype.is_floating_point:
            for (name, ours), (_, theirs) in zip(
                _results(implementation, call, "cpu"), _results(implementation, call, "cuda"), strict=True
            ):
                dtype = str(ours.dtype).removeprefix("torch.")
                row = rows.setdefault((dtype, name), Row(implementation.files.name, dtype, name))
                row.add(ours, theirs.cpu(), call)
    return list(rows.values())


def _results(implementation: Implementation, call: Call, device: str) -> list[tuple[str, Tensor]]:
    """Results and gradients; the upstream gradient is the same on both devices."""
    args, kwargs = call.arguments(device)
    given = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor) and a.is_floating_point()]
    inputs = [a.detach().requires_grad_() for a in given]
    replaced = {id(a): b for a, b in zip(given, inputs, strict=True)}
    made = implementation.function(
        *(replaced.get(id(a), a) for a in args), **{name: replaced.get(id(a), a) for name, a in kwargs.items()}
    )
    outputs = made if isinstance(made, tuple) else (made,)
    # A permutation of a few numbers of ordinary size.
    upstream = [(torch.arange(o.numel(), device=device) * 5 % 7 - 3).to(o.dtype).reshape(o.shape) / 2 for o in outputs]
    grads = torch.autograd.grad(outputs, inputs, upstream, allow_unused=True)
    named = [(f"forward {i}", o.detach()) for i, o in enumerate(outputs)]
    return named + [(f"gradient {i}", g) for i, g in enumerate(grads) if g is not None]


def _same_noise(implementation: Implementation) -> None:
    """A draw is named alike on both devices: torch's generators of one seed differ between them."""
    names = implementation.function.__globals__
    if "philox_state" in names:
        names["philox_state"] = lambda device, generator=None: (1234, 4, None)


def main() -> None:
    file, *ops = sys.argv[1:]
    workspace = Workspace.find()
    rows: list[Row] = []
    for op in ops or workspace.ops():
        files = workspace.op(op)
        implementation, spec = load_port(files), load_spec(files)
        if not spec.not_on_cpu:
            _same_noise(implementation)
            rows += compare(implementation, spec)
    facts = environment(workspace.root, torch.device("cuda")) | {"nvcc": os.environ.get("NVCC_APPEND_FLAGS", "")}
    Path(file).write_text(json.dumps(facts | {"rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
