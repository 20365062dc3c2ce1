"""The catalogue in C++: wrong kernels have the same finding as their prototypes in the simulator, right ones none.

``pytest tests/cpu/test_catalogue.py -k report -rP`` prints both reports of each kernel in two columns.
"""

from __future__ import annotations

import textwrap
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cpu.catalogue.checked import findings_in, op_in
from tests.cpu.catalogue.collectives import COLLECTIVES
from tests.cpu.catalogue.launcher import CpuKernel, Recorded, Start
from tests.cpu.catalogue.native import NATIVE, Native
from tests.cpu.catalogue.twins import (
    DIFFERENCES,
    WITHOUT_TWIN,
    Twin,
    marks,
    summary_of_prototype,
    summary_of_twin,
    twins,
)
from tests.simulator.catalogue import CASES
from trifold.cpu import runtime
from trifold.findings import Finding
from trifold.implementation import load_checked_port
from trifold.simulator import options

SEEDS = (0, 1, 2, 3)
WRONG = [twin for twin in twins() if twin.case.expected is not None]
RIGHT = [twin for twin in twins() if twin.case.expected is None]
ONLY_IN_CPP = (*NATIVE, *COLLECTIVES)
WRONG_IN_CPP = [case for case in ONLY_IN_CPP if case.found is not None]
RIGHT_IN_CPP = [case for case in ONLY_IN_CPP if case.found is None]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """The operator of the catalogue, in a checked build; the library is built once and cached."""
    function: Start = load_checked_port(op_in(tmp_path_factory.mktemp("catalogue"))).function
    return function


def _side_by_side(simulator: Finding, cpu: Finding) -> str:
    """Both reports in two columns."""
    columns = [
        [part for line in [title, "", *str(report).splitlines()] for part in textwrap.wrap(line, 76) or [""]]
        for title, report in (("simulator", simulator), ("cpu", cpu))
    ]
    return "\n".join(f"{left:<78}{right}" for left, right in zip_longest(*columns, fillvalue=""))


@pytest.mark.parametrize("twin", WRONG, ids=str)
def test_both_reports_are_the_same(twin: Twin, start: Start) -> None:
    """Kind, thread, block, element, barrier interval, operation, and the marked lines of both sources."""
    case = twin.case
    (simulator,) = findings_in(case, case.kernel, options(checks="all", seed=0))
    (cpu,) = findings_in(case, CpuKernel(start, twin.qualified, twin.more), runtime.schedules(1))
    print(_side_by_side(simulator, cpu))
    expected, found = summary_of_prototype(simulator, twin), summary_of_twin(cpu)
    difference = DIFFERENCES.get(case.name)
    if difference is not None:
        print(f"\nThey differ: {difference.reason}")
        assert found != expected, "the two are the same: the difference can go"
        expected = difference.applied_to(expected)
    assert found.without_marks() == expected.without_marks()
    for ours, theirs in zip(found.marks, expected.marks, strict=True):
        assert ours & theirs, f"{ours} is not {theirs}"


@pytest.mark.parametrize("twin", WRONG, ids=str)
def test_a_wrong_twin_is_found_in_another_order_too(twin: Twin, start: Start) -> None:
    """Another thread may be first, and the other side of the mistake may be found: at a marked line."""
    expected = twin.case.expected
    assert expected is not None
    kinds = {expected.kind, *expected.or_kinds}
    if twin.case.name in DIFFERENCES:
        kinds.add(DIFFERENCES[twin.case.name].cpu.get("kind", expected.kind))
    found = findings_in(twin.case, CpuKernel(start, twin.qualified, twin.more), runtime.schedules(1, seed=SEEDS[1]))
    if not found and expected.only_some_orders:
        return
    (finding,) = found
    assert finding.kind in kinds, str(finding)
    assert finding.seed == SEEDS[1]
    for access in finding.accesses:
        assert marks(Path(access.file))[access.line], str(finding)


@pytest.mark.parametrize("twin", RIGHT, ids=str)
def test_a_right_twin_has_no_finding_and_its_prototype_s_result(twin: Twin, start: Start) -> None:
    prototype = Recorded(twin.case.kernel)
    assert findings_in(twin.case, prototype, options(checks="all", seed=0)) == []
    for seed in SEEDS:
        kernel = CpuKernel(start, twin.qualified, twin.more)
        assert findings_in(twin.case, kernel, runtime.schedules(1, seed=seed)) == []
        if seed == 0:
            for ours, theirs in zip(kernel.results, prototype.results, strict=True):
                assert_same_numbers(ours, theirs)


def assert_same_numbers(ours: Any, theirs: Any) -> None:
    """Bit for bit in integers, within 2 ulp in floating point."""
    if ours.dtype.fields:
        for name in ours.dtype.fields:
            assert_same_numbers(ours[name], theirs[name])
    elif ours.dtype.kind == "f":
        np.testing.assert_array_max_ulp(ours, theirs, maxulp=2)
    else:
        np.testing.assert_array_equal(ours, theirs)


def nothing_more(*_: Any) -> tuple[int, ...]:
    return ()


@pytest.mark.parametrize("case", WRONG_IN_CPP, ids=str)
def test_a_mistake_that_only_cpp_has_is_found(case: Native, start: Start) -> None:
    (finding,) = findings_in(case, CpuKernel(start, case.qualified, nothing_more), runtime.schedules(1))
    expected = case.found
    assert expected is not None
    assert finding.kernel in case.qualified.split()
    accesses = list(reversed(finding.accesses))  # a finding names the later one first
    found = (finding.kind, finding.severity, finding.memory, finding.array, finding.index)
    wanted = (expected.kind, expected.severity, expected.memory, expected.array, expected.index)
    assert found == wanted, str(finding)
    assert tuple(access.interval for access in accesses) == expected.intervals
    for access, at in zip(accesses, expected.accesses, strict=True):
        assert (access.operation, access.thread, access.block) == (at.operation, at.thread, at.block), str(finding)
        assert at.mark in marks(Path(access.file))[access.line], str(finding)


@pytest.mark.parametrize("case", RIGHT_IN_CPP, ids=str)
def test_nothing_is_found_in_these(case: Native, start: Start) -> None:
    """Right kernels; and wrong ones that the checks cannot detect, each with the reason."""
    for seed in SEEDS:
        kernel = CpuKernel(start, case.qualified, nothing_more)
        assert findings_in(case, kernel, runtime.schedules(1, seed=seed)) == [], case.reason


def test_each_prototype_has_a_twin_or_a_reason() -> None:
    with_twin = {twin.case.name for twin in twins()}
    without = {name for names in WITHOUT_TWIN.values() for name in names}
    assert with_twin.isdisjoint(without)
    assert with_twin | without == {case.name for case in CASES}
    assert set(DIFFERENCES) <= {twin.case.name for twin in WRONG}


def test_enough_kernels() -> None:
    assert len(WRONG) >= 40
    assert len(RIGHT) >= 40
    assert len(WRONG_IN_CPP) >= 15
