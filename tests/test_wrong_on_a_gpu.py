"""Faults of synchronisation and of bounds in the code of a GPU's paths: each is rejected there by the row that its
entry names, and the right op passes on the same calls. Some are tried on the CPU, whose checks find them.

``python -m tests.wrong.try_faults`` says of each fault what all rows say, or with ``--device cpu`` those checks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.wrong import few_dtypes, on_the_cpu
from tests.wrong.entry import Edit, edited_copy
from tests.wrong.fault import KINDS, Fault, outcome, right_op, rows_of, there_are
from tests.wrong.faults import FAULTS
from tests.wrong.few_kernels import launched_by
from tests.wrong.on_the_cpu import Planted
from trifold.build import build
from trifold.errors import TrifoldError
from trifold.implementation import reference
from trifold.spec import Limits
from trifold.spec.load import load_spec
from trifold.verification.calls import Search
from trifold.verification.cell import Cell, Remote

OPS = sorted({planted.op for planted in FAULTS})

# Four tools slow each call down; a second build is several times as large. Seconds, beside other tests.
SLOW_ROWS = {"findings": 200, "jitter": 90}
_OTHERS = 60
#: Of a fault that makes a kernel wait forever, which the runner ends after some times its limit.
_WAITING = 120


# Of softmax on the CPU, and what kinds of finding show it.
SOME = {
    "the warps' messages are read before they have come": ("uninitialised read", "race"),
    "a mailbox expects the bytes of one block's warps": ("uninitialised read", "race"),
    "a mailbox is made for two arrivals, and one comes": ("deadlock",),
}


def _on_right_ops() -> list[tuple[str, str, list[Fault]]]:
    """Each op, each row that rejects faults of it, and these faults; for ``findings``, under which a call takes
    minutes, the faults of equal calls, so that workers share the row."""
    found = []
    for op in OPS:
        for row in rows_of(op, FAULTS):
            faults = [one for one in FAULTS if (one.op, one.row) == (op, row)]
            of_calls: dict[str, list[Fault]] = {}
            for one in faults:
                of_calls.setdefault(repr(one.calls) if row == "findings" else "", []).append(one)
            found += [(op, row, those) for those in of_calls.values()]
    return found


RIGHT = _on_right_ops()


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory, quick_builds: None) -> dict[str, frozenset[str]]:
    """The kernels of some faults, by their names, while builds are quick."""
    faults = [planted for planted in FAULTS if planted.name in SOME]
    runs = [(planted.cpu_call, planted.in_pass) for planted in faults]
    kernels = launched_by("softmax", runs, tmp_path_factory.mktemp("without"))
    return {planted.name: names for planted, names in zip(faults, kernels, strict=True)}


def _marks(planted: Fault) -> list[pytest.MarkDecorator]:
    missed = [pytest.mark.xfail(reason=planted.missed, strict=False)] if planted.missed else []
    waiting = planted.seconds < Fault.seconds
    seconds = max(SLOW_ROWS.get(planted.row, 0), _WAITING if waiting else 0, _OTHERS if planted.missed else 0)
    return [*missed, *([pytest.mark.slow(seconds=seconds)] if seconds else [])]


@pytest.mark.gpu
@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize("planted", [pytest.param(one, id=str(one), marks=_marks(one)) for one in FAULTS])
def test_a_fault_is_rejected(planted: Fault, tmp_path: Path) -> None:
    """If the row that the entry names accepts the fault, the test reports the outcome of each other row."""
    workspace = planted.write(tmp_path)
    first, *others = planted.rows()
    said = {first: outcome(planted.op, first, workspace, seconds=planted.seconds)}
    if said[first].verdict != "rejected" and not planted.missed:
        said |= {row: outcome(planted.op, row, workspace, seconds=planted.seconds) for row in there_are(others)}
    print("rejected by:", ", ".join(row for row, one in said.items() if one.verdict == "rejected") or "none")
    assert said[first].verdict == "rejected", "\n".join(
        f"{row}, {one.verdict}: {one.message}" for row, one in said.items()
    )


@pytest.mark.gpu
@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize(
    ("op", "row", "faults"),
    [
        pytest.param(
            op, row, faults, id=f"{op}-{row}", marks=pytest.mark.slow(seconds=max(SLOW_ROWS.get(row, 0), _OTHERS))
        )
        for op, row, faults in RIGHT
    ],
)
def test_the_right_op_passes_on_the_same_calls(op: str, row: str, faults: list[Fault], tmp_path: Path) -> None:
    """In each row that rejects a fault of the op, on the calls of the row's faults."""
    said = outcome(op, row, right_op(op, row, faults, tmp_path))
    assert said.verdict == "passed", said.message


def test_each_kind_is_planted_in_both_passes() -> None:
    assert len(FAULTS) >= 25
    assert {(planted.kind, planted.in_pass) for planted in FAULTS} == {
        (kind, in_pass) for kind in KINDS for in_pass in ("forward", "backward")
    }


def test_hardware_can_show_all_but_some_fences_early_messages_and_a_warp_in_step() -> None:
    missed = [planted for planted in FAULTS if planted.missed]
    assert len(missed) <= len(FAULTS) // 10
    assert {planted.name for planted in missed if planted.kind != "fence"} == {
        "a row is copied to where other lanes still read its edge",
        "copies to all blocks of a cluster begin before these have made their mailboxes",
        "messages are sent to blocks that may not have begun",
    }


@pytest.mark.parametrize("name", SOME)
def test_the_cpu_shows_a_fault(name: str, few: dict[str, frozenset[str]]) -> None:
    (planted,) = (one for one in FAULTS if one.name == name)
    said = on_the_cpu.of_fault(planted, few[name], seeds=2)
    assert said["as expected"], said
    assert all(way.startswith(SOME[name]) for way in said["ways"]), said


def test_names_are_unique() -> None:
    names = [str(planted) for planted in FAULTS]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("planted", [pytest.param(one, id=str(one)) for one in FAULTS])
def test_a_fault_has_its_place_and_its_calls(planted: Fault, tmp_path: Path) -> None:
    """The replaced text occurs once in the current source; the spec has the fault's calls, and no others."""
    files = planted.write(tmp_path).files(planted.op)
    assert Planted.of(planted, tmp_path).lines
    spec = load_spec(files)
    assert [sample.call for sample in spec.samples] == list(planted.calls)
    assert not spec.edges
    assert not spec.gpu_edges


@pytest.mark.parametrize("op", OPS)
def test_all_that_a_row_calls_is_compiled(op: str, tmp_path: Path) -> None:
    """Of faulty ops and the right one: what is fixed, small, drawn or swept has a dtype that the port dispatches."""
    of_op = {few_dtypes.dtypes_of(planted.calls): planted for planted in FAULTS if planted.op == op}
    workspaces = [(dtypes, planted.write(tmp_path / f"{n}")) for n, (dtypes, planted) in enumerate(of_op.items())]
    for row in rows_of(op, FAULTS):
        dtypes = few_dtypes.dtypes_of(call for one in FAULTS if (one.op, one.row) == (op, row) for call in one.calls)
        workspaces.append((dtypes, right_op(op, row, FAULTS, tmp_path / row)))
    for dtypes, workspace in workspaces:
        files = workspace.files(op)
        dispatch = (files.binding.parent / "trifold" / "binding.h").read_text()
        compiled = re.findall(r"case ScalarType::(\w+): return f\.template", dispatch)
        assert compiled == [few_dtypes.SCALARS[dtype][0] for dtype in dtypes]
        process: Any = None
        remote = Remote("port", files, process, (op,), differentiable=True)
        cell = Cell(load_spec(files), remote, "cuda", reference(files), Search(1), Limits(), lambda sample: None)
        calls = [*(call for _, call in cell.fixed_calls()), *cell.small_calls(), *cell.swept_calls()]
        calls += [*cell.drawn_calls(Limits(), 10), *cell.drawn_calls(Limits(elements=64), 10, salt=2000)]
        assert len(calls) > 20
        assert {case.dtype for call in calls for _, case in call.floating()} == set(dtypes)


def test_an_edited_header_is_the_one_that_is_compiled(tmp_path: Path) -> None:
    once = Edit("trifold/vector.cuh", "#pragma once\n", '#pragma once\n#error "the edited one"\n')
    workspace = edited_copy("add", (once,), tmp_path)
    with pytest.raises(TrifoldError, match="the edited one"):
        build(workspace.files("add"), "cpu", "edited")
