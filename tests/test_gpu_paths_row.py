"""The row of the kernels that a port takes on a GPU alone: which ports have it, and what it asks of their specs.

That it finds a mistake in such a kernel is shown by tests/wrong/softmax.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.drawn_specs import HereProcess
from tests.wrong.entry import GALLERY, copy_of_gallery
from trifold.acceptance import read_comments
from trifold.build.library import Manifest
from trifold.build.paths import PATHS
from trifold.build.sources import INCLUDE_ROOT, chooses_paths, included_sources, own_sources
from trifold.cells import ImplementationKind
from trifold.findings import Finding
from trifold.implementation import reference
from trifold.spec import Call, Limits, Sample, TensorCase
from trifold.spec.load import load_spec
from trifold.verification.calls import Search
from trifold.verification.cell import Cell, Remote
from trifold.verification.checks.gpu_paths import gpu_paths
from trifold.verification.outcomes import Absence, CheckFailed, NotRun


def test_the_gallerys_row_ops_have_kernels_for_a_gpu_alone() -> None:
    assert {op.name for op in GALLERY.select(()) if chooses_paths(op.binding)} == {
        "cross_entropy",
        "layer_norm",
        "rms_norm",
        "softmax",
    }


class _Paths(HereProcess):
    """Softmax in two kernels on the CPU, and in two more where a GPU's are asked for: of long rows, and of none."""

    def __init__(self, *of_gpu: str) -> None:
        super().__init__(self.softmax)
        self.counts = Counter(dict.fromkeys(("few", "many", *of_gpu), 0))
        self.usual = {"few": 0, "many": 0}

    def load(self, *, build: bool, form: str = "plain") -> Any: ...

    def softmax(self, x: Tensor) -> Tensor:
        kernel = "few" if x.shape[-1] < 100 else "cluster" if "cluster" in self.counts else "many"
        self.counts[kernel] += 1
        return torch.softmax(x, -1)

    def branches(self, form: str = "plain") -> dict[str, int]:
        return self.usual if form == "plain" else dict(self.counts)

    def left_out(self, form: str = "plain") -> dict[str, str]:
        return {"Choice<8>": "Choice<4>"}


def _cell(process: HereProcess, op: str = "softmax", kind: ImplementationKind = "port", **stated: Any) -> Cell:
    files = GALLERY.op(op)
    untyped: Any = process
    remote = Remote(kind, files, untyped, (op,), differentiable=False)
    spec = replace(load_spec(files), samples=(), edges=(), smooth=(_call(8),), gpu_edges=(), **stated)
    return Cell(spec, remote, "cpu", reference(files), Search(1), Limits(4000), lambda sample: None)


def _call(columns: int) -> Call:
    return Call((TensorCase((2, columns), torch.float32),))


@pytest.mark.parametrize(("op", "kind"), [("softmax", "prototype"), ("add", "port")])
def test_the_same_kernels_need_no_row(op: str, kind: ImplementationKind) -> None:
    with pytest.raises(NotRun, match=Absence.SAME_KERNELS):
        gpu_paths(_cell(_Paths("cluster"), op, kind))


def test_a_build_that_has_no_other_kernel_needs_no_row() -> None:
    with pytest.raises(NotRun, match=Absence.SAME_KERNELS):
        gpu_paths(_cell(_Paths()))


def test_calls_are_made_until_each_kernel_has_been_launched() -> None:
    process = _Paths("cluster")
    samples = [Sample(f"{n}", _call(n), "of its size") for n in (8, 200, 9)]
    cell = _cell(process)
    cell.spec = replace(cell.spec, samples=samples)
    remark = gpu_paths(cell)
    assert remark.startswith("1 kernel that only a GPU uses, each launched")
    assert "left out, with the code of Choice<4>: Choice<8>" in remark
    assert cell.cases == 2
    assert process.counts == {"few": 1, "many": 0, "cluster": 2}


def test_a_kernel_that_no_call_launches_is_named() -> None:
    with pytest.raises(CheckFailed, match=r"no case reaches stream, which a GPU uses.*Spec\(gpu_edges=...\)"):
        gpu_paths(_cell(_Paths("stream")))


def test_a_spec_states_calls_of_a_gpu_where_its_kernels_run() -> None:
    cell = _cell(_Paths("cluster"))
    cell.spec = replace(cell.spec, gpu_edges=[_call(200)])
    assert list(cell.fixed_calls()) == []
    cell.device = "cuda"
    assert list(cell.fixed_calls()) == [("edge of a GPU", _call(200))]


def test_a_finding_has_a_program_that_runs_the_kernels_in_which_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = _cell(_Paths("cluster"))
    assert isinstance(cell.implementation, Remote)
    cell.implementation = replace(cell.implementation, differentiable=True)
    race = Finding("race", "error", "cluster", "global", "y", (0,), "a race", (), seed=3)

    def program(check: str, *findings: Finding) -> str:
        return cell.failure(CheckFailed("wrong", _call(8), findings=findings), check).code

    sets, checked = 'import os\nos.environ["TRIFOLD_PATHS"] = "gpu"\nimport torch\n', "checks=True, seed=3)"
    found = program("gpu paths", race)
    assert found.startswith(sets)
    assert checked in found
    assert "trifold.gradients(" in found  # the row runs backward kernels, too
    assert program("gpu paths").startswith(sets)
    monkeypatch.setenv(PATHS, "")
    assert program("findings", race).startswith("import torch")
    monkeypatch.setenv(PATHS, "gpu")
    assert program("values").startswith(sets)
    gradients = [check for check in ("values", "compile", "findings") if "trifold.gradients(" in program(check)]
    assert gradients == ["compile", "findings"]
    cell.device = "cuda"
    assert program("values").startswith("import torch")


def test_comments_of_trifolds_headers_accept_and_are_not_missed(tmp_path: Any) -> None:
    files = copy_of_gallery("add", tmp_path).op("add")
    copy = files.binding.parent / "trifold" / "vector.cuh"
    copy.parent.mkdir()
    copy.write_text((INCLUDE_ROOT / "trifold" / "vector.cuh").read_text() + "// trifold: allow race, all the same\n")
    included = included_sources(files.binding)
    assert copy in included
    assert INCLUDE_ROOT / "trifold" / "vector.cuh" not in included
    assert read_comments(copy)
    assert own_sources(files.binding) == (files.binding, files.header)


def test_a_library_says_what_it_lacks() -> None:
    text = "branch\tadd_kernel<float>\t3\nleft out\tChoice<8>\tChoice<4>\n"
    assert Manifest.parse(text) == Manifest({}, {"add_kernel<float>": 3}, {"Choice<8>": "Choice<4>"})
