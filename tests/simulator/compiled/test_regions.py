"""Without checks, blocks run region by region (trifold/draft/regions.py) where that changes no result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba.core import types

from tests.simulator.compiled import region_kernels as kernels
from trifold import KernelFault, simulator
from trifold.simulator.compiled import interpreted
from trifold.simulator.compiled.drafts import Draft, draft_of
from trifold.simulator.compiled.request import request_for

INTEGERS = types.Array(types.int64, 1, "C")


def named(kernel: Any) -> str:
    name: str = kernel.fn.__name__
    return name


def by_regions(kernel: Any) -> str:
    draft = draft_of(request_for(kernel.fn, [INTEGERS, INTEGERS]))
    assert isinstance(draft, Draft), draft
    return draft.by_regions


@pytest.mark.parametrize("kernel", kernels.BY_REGIONS, ids=named)
def test_these_run_by_regions(kernel: Any) -> None:
    text = by_regions(kernel).splitlines()
    head = next(number for number, line in enumerate(text) if line.startswith("inline void"))
    directive, line, _ = text[head + 1].split()
    assert directive == "#line"  # before what is the block's own: a debugger that stops there shows the first line
    assert kernel.fn.__code__.co_firstlineno + 2 <= int(line) <= kernel.fn.__code__.co_firstlineno + 3


@pytest.mark.parametrize("kernel", kernels.ON_STACKS, ids=named)
def test_threads_that_come_to_barriers_in_different_ways_have_stacks(kernel: Any) -> None:
    assert by_regions(kernel) == ""


def results(kernel: Any, *, compiled: bool) -> list[list[int]]:
    x, out = np.arange(3, 3 + kernels.THREADS), np.zeros(kernels.THREADS, np.int64)
    with simulator.options(compiled=compiled, checks="none"):
        for _ in range(2):  # the second launch goes the way of the first one
            kernel[2, kernels.THREADS](x, out)
    return [x.tolist(), out.tolist()]


@pytest.mark.parametrize("kernel", kernels.BY_REGIONS, ids=named)
def test_the_results_are_the_interpreters_in_the_natural_order(kernel: Any) -> None:
    assert results(kernel, compiled=True) == results(kernel, compiled=False)
    assert not any(each.startswith(f"{named(kernel)} at ") for each in interpreted())


@pytest.mark.parametrize("shorter", ["x", "out"])
def test_an_index_out_of_bounds_is_told_with_its_thread_and_its_function(shorter: str) -> None:
    found = []
    for compiled in (True, False):
        lengths = {name: kernels.THREADS - 3 * (name == shorter) for name in ("x", "out")}
        arrays = [np.arange(3, 3 + lengths[name]) for name in ("x", "out")]
        with simulator.options(compiled=compiled, checks="none"), pytest.raises(KernelFault) as fault:
            kernels.kept[1, kernels.THREADS](*arrays)
        (finding,) = fault.value.findings
        (access,) = finding.accesses
        found.append((finding.array, finding.index, access.thread, access.line, access.function))
    assert found[0] == found[1]
