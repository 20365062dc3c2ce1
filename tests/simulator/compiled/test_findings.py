"""The findings in a compiled kernel equal the interpreter's: kind, array, element, lines and words."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.simulator.compiled import kernels
from trifold import KernelFault, simulator
from trifold.findings import Finding, KernelWarning, collect
from trifold.simulator.compiled import interpreted


def found_in(launch: Callable[[], object], **options: Any) -> list[Finding]:
    with simulator.options(**options), collect() as found, warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        with contextlib.suppress(KernelFault):  # its findings are recorded
            launch()
    return found


def mistake(which: int) -> None:
    kernels.mistakes[1, 8](which, np.ones((8, 4), np.float32), np.zeros((8, 4), np.float32))


@pytest.mark.parametrize("which", kernels.MISTAKES)
def test_mistakes_are_found_as_the_interpreter_finds_them(which: int) -> None:
    interpreter = found_in(lambda: mistake(which))
    compiled = found_in(lambda: mistake(which), compiled=True)
    assert [_without_words(each) for each in compiled] == [_without_words(each) for each in interpreter]
    assert [each.message for each in compiled] == [each.message for each in interpreter]
    assert bool(compiled) == (which != 4)  # whose indices are negative, which is right
    assert not any(kernel.startswith("mistakes ") for kernel in interpreted())


@pytest.mark.parametrize("which", [1, 2, 3])
def test_mistakes_of_warps_and_device_functions(which: int) -> None:
    def launch() -> None:
        kernels.warps[1, 64](which, np.arange(64.0), np.zeros(65))

    interpreter, compiled = found_in(launch), found_in(launch, compiled=True)
    assert [_without_words(each) for each in compiled] == [_without_words(each) for each in interpreter]
    assert bool(compiled) == (which != 2)  # a lane that has ended is waited for no more


def _without_words(finding: Finding) -> Finding:
    """Nor with the lines of calls, which compiled code reports."""
    accesses = tuple(dataclasses.replace(access, callers=()) for access in finding.accesses)
    return dataclasses.replace(finding, message="", accesses=accesses)


def test_a_seed_orders_the_threads() -> None:
    """In another order of the blocks, another one is the first to be wrong."""
    x, y = np.ones((8, 4), np.float32), np.zeros((8, 4), np.float32)
    places = []
    for seed in range(4):
        options = [{"compiled": compiled, "seed": seed} for compiled in (False, True)]
        (one,), (other,) = (found_in(lambda: kernels.mistakes[8, 1](0, x, y), **each) for each in options)
        assert one == other
        places.append(one.accesses)
    assert len(set(places)) > 1


def test_without_checks_an_index_out_of_bounds_is_found() -> None:
    (finding,) = found_in(lambda: mistake(6), compiled=True, checks="none")
    assert (finding.kind, finding.array, finding.index) == ("out-of-bounds", "tile", (0, 4))
    assert found_in(lambda: mistake(5), compiled=True, checks="none") == []


def test_keeping_on_after_a_finding_is_the_interpreters() -> None:
    results = []
    for compiled in (False, True):
        y = np.zeros((8, 4), np.float32)
        x = np.ones((8, 4), np.float32)
        found = found_in(lambda x=x, y=y: kernels.mistakes[1, 8](1, x, y), compiled=compiled, keep_going=True)  # type: ignore[misc]
        results.append((y.tolist(), [(each.kind, each.count) for each in found]))
    assert results[0] == results[1]


# ------------------------------------------------------------------------------------------------ the screen

BLOCKS, THREADS, STEPS = 2, 2, 3
step = st.tuples(st.integers(0, kernels.OPERATIONS - 1), st.integers(0, 1))
programs = st.lists(step, min_size=BLOCKS * THREADS * STEPS, max_size=BLOCKS * THREADS * STEPS)


# One block reads x[1] and then adds to it by an atomic; the other one does the latter: the read races with that.
_READ_THEN_ATOMICS = [(0, 0), (1, 1), (5, 1), *[(0, 0)] * 8, (5, 1)]


@given(program=programs, aliased=st.booleans())
@example(program=_READ_THEN_ATOMICS, aliased=False)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_screen_misses_no_race(program: list[tuple[int, int]], aliased: bool) -> None:
    """Of accesses drawn at random, at least those that the interpreter refuses; and the results are the same."""
    steps = np.array(program, np.int32).reshape(BLOCKS, THREADS, STEPS, 2)
    outcomes = []
    for compiled in (False, True):
        x = np.arange(2, dtype=np.int32)
        sums = x if aliased else np.arange(5, 7, dtype=np.int32)
        out = np.zeros((BLOCKS, THREADS), np.int64)
        found = found_in(
            lambda x=x, sums=sums, out=out: kernels.accesses[BLOCKS, THREADS](steps, x, sums, out),  # type: ignore[misc]
            compiled=compiled,
        )
        errors = [each.kind for each in found if each.severity == "error"]
        outcomes.append((errors, [] if errors else [x.tolist(), out.tolist()]))
    assert outcomes[0] == outcomes[1]
