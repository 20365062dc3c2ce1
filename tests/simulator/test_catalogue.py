"""Each wrong kernel of the catalogue is found as it must be; in the right ones nothing is found.

The kernels run in the natural order, where threads and lines are known, and in seeded ones, where the schedule decides
which of the threads and lines that a kernel marks are met first.
"""

from __future__ import annotations

import warnings

import pytest

from tests.simulator.catalogue import CASES
from tests.simulator.catalogue.case import At, Case, Expected
from trifold.findings import Access, Finding, KernelFault, KernelWarning, collect
from trifold.simulator import options

SEEDS = (1, 2, 3)
WRONG = [pytest.param(case, case.expected, id=case.name) for case in CASES if case.expected is not None]
RIGHT = [pytest.param(case, id=case.name) for case in CASES if case.expected is None]


def _findings(case: Case, seed: int) -> list[Finding]:
    """Return the findings of all checks; ``run`` compares the result if no finding stops the kernel."""
    with collect() as found, warnings.catch_warnings(), options(checks="all", seed=seed):
        if case.expected is not None:
            warnings.simplefilter("ignore", KernelWarning)
        try:
            case.run(case.kernel)
        except KernelFault as fault:
            return list(fault.findings)
    return [finding for finding in found if finding.severity != "lint"]


def _is_at(access: Access, expected: At, lines: dict[str, set[tuple[str, int]]]) -> bool:
    return (
        (access.file, access.line) in lines[expected.mark]
        and access.operation == expected.operation
        and expected.thread in (None, access.thread)
        and expected.block in (None, access.block)
    )


def _check_what(finding: Finding, case: Case, expected: Expected) -> None:
    assert finding.severity == expected.severity
    assert finding.kernel in case.kernels()
    assert finding.memory == (expected.memory or "")
    assert str(finding).startswith(finding.message)


@pytest.mark.parametrize(("case", "expected"), WRONG)
def test_wrong_kernel_in_natural_order(case: Case, expected: Expected) -> None:
    (finding,) = _findings(case, seed=0)
    _check_what(finding, case, expected)
    assert finding.kind == expected.kind, str(finding)
    assert finding.array == (expected.array or "")
    lines = case.lines()
    if finding.kind in ("race", "uninitialised read", "out-of-bounds", "misaligned"):
        accesses = list(reversed(finding.accesses))  # a finding names the later one first
        assert len(accesses) == len(expected.accesses)
        for access, at in zip(accesses, expected.accesses, strict=True):
            assert _is_at(access, at, lines), str(finding)
    else:
        for at in expected.accesses:
            assert any(_is_at(access, at, lines) for access in finding.accesses), str(finding)
    for access in finding.accesses:
        assert f"{access.line} in {access.function}" in finding.message


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("case", "expected"), WRONG)
def test_wrong_kernel_in_seeded_order(case: Case, expected: Expected, seed: int) -> None:
    found = _findings(case, seed)
    if not found and expected.only_some_orders:
        return
    (finding,) = found
    _check_what(finding, case, expected)
    assert finding.kind in (expected.kind, *expected.or_kinds), str(finding)
    assert expected.any_array or finding.array == (expected.array or "")
    assert finding.seed == seed
    marked = set().union(*case.lines().values())
    for access in finding.accesses:
        assert (access.file, access.line) in marked, str(finding)


@pytest.mark.filterwarnings("error::trifold.findings.KernelWarning")
@pytest.mark.parametrize("seed", [0, *SEEDS])
@pytest.mark.parametrize("case", RIGHT)
def test_right_kernel(case: Case, seed: int) -> None:
    assert _findings(case, seed) == []


def test_the_message_of_a_divergent_barrier_can_be_understood_alone() -> None:
    """Numba's own simulator accepts the program, and lets the threads of both barriers go on together."""
    case = next(case for case in CASES if case.name == "barrier_in_each_branch")
    (finding,) = _findings(case, seed=0)
    ((_, first),), ((_, second),) = case.lines()["first"], case.lines()["second"]
    for words in (
        f"threads (0..31, 0, 0) wait in syncthreads() at barriers.py:{first} in barrier_in_each_branch",
        f"threads (32..63, 0, 0) wait in syncthreads() at barriers.py:{second} in barrier_in_each_branch",
        "block (0, 0, 0)",
        "Every thread of a block has to come to the same barrier",
        "move the barrier out of the branch",
        "replay: --seed 0",
    ):
        assert words in str(finding)


def test_a_warning_points_at_the_kernel_s_line() -> None:
    case = next(case for case in CASES if case.name == "early_return_before_barrier")
    with pytest.warns(KernelWarning, match="have exited before") as caught, options(checks="all", seed=0):
        case.run(case.kernel)
    assert {(warning.filename, warning.lineno) for warning in caught} == case.lines()["first"]


def test_enough_kernels() -> None:
    assert len(WRONG) >= 40
    assert len(RIGHT) >= 40
    assert len({case.name for case in CASES}) == len(CASES)
