"""Reports of calls that fail."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.wrong.entry import GALLERY
from trifold.spec import Call, Limits, Spec, elementwise
from trifold.verification.calls import Search
from trifold.verification.cell import Cell
from trifold.verification.outcomes import CheckFailed


def failure_of(test: Callable[[Call], None], reference: Callable[..., Any] = lambda x: x) -> CheckFailed:
    """Of a check on drawn calls of one tensor."""
    never_called = cast(Any, SimpleNamespace(files=GALLERY.op("add")))
    spec = Spec(calls=elementwise(1))
    cell = Cell(spec, never_called, "cpu", reference, Search(4), Limits(elements=100), lambda sample: None)
    with pytest.raises(CheckFailed) as caught:
        cell.for_each_call(test, fixed=())
    return caught.value


def test_a_failing_call_is_shrunk() -> None:
    def test(call: Call) -> None:
        if call.elements > 2:
            raise CheckFailed("three or more", call)

    failed = failure_of(test)
    assert failed.message == "three or more"
    assert failed.call is not None
    assert failed.call.elements == 3


def test_a_call_that_passes_when_it_is_repeated_is_reported_as_it_failed_first() -> None:
    failed: list[Call] = []

    def test(call: Call) -> None:
        if call.elements > 2 and not failed:
            failed.append(call)
            raise CheckFailed("only once", call)

    error = failure_of(test)
    assert error.message.startswith("only once\nWhen the call was repeated, it did not fail, or failed differently")
    assert error.call == failed[0]


def test_a_call_that_fails_in_another_way_each_time_is_reported_as_it_failed_first() -> None:
    times = 0

    def test(call: Call) -> None:
        nonlocal times
        times += 1
        if times % 2:
            raise CheckFailed(f"number {times}", call)
        raise ValueError(f"number {times}")

    message = failure_of(test).message
    assert message.startswith("number 1\nWhen the call was repeated")
    assert "hypothesis" not in message.lower()


def test_a_call_with_other_arguments_than_the_reference_has_is_the_specs_mistake() -> None:
    def test(call: Call) -> None:
        raise TypeError("op() missing 1 required positional argument: 'bins'")

    message = failure_of(test, reference=lambda x, bins: x).message
    assert message.startswith("the spec makes a call that does not fit the reference's parameters (x, bins): missing")
    assert failure_of(test).message.endswith("TypeError: op() missing 1 required positional argument: 'bins'")
