"""A draft names the operations that Numba computes in float64 although their numbers are float32."""

from __future__ import annotations

import json

import pytest

from tests.draft.test_refusals import drafting

SAYS = "computed in float64, since {} is {}; for float32, write numpy.float32({})"
OPERANDS = {
    "one_plus": ("1", "an int64"),
    "half_of": ("0.5", "a float64"),
    "named_half_of": ("HALF", "a float64"),
    "variable_half_of": ("share", "a float64"),
    "by_a_function": ("2", "an int64"),
    "times_a_size": ("n", "an int64"),
    "by_an_argument": ("alpha", "a float64"),
}


@pytest.fixture(scope="module")
def remarks() -> dict[str, list[str]]:
    done = drafting("widened")
    assert done.returncode == 0, done.stderr
    return {name: [each.partition(": ")[2] for each in said] for name, said in json.loads(done.stdout).items()}


@pytest.mark.parametrize("name", OPERANDS)
def test_an_operand_that_makes_float64_is_named(name: str, remarks: dict[str, list[str]]) -> None:
    operand, kind = OPERANDS[name]
    assert remarks[name] == [SAYS.format(operand, kind, operand)]


def test_an_operand_without_a_name_is_said_to_be_one(remarks: dict[str, list[str]]) -> None:
    of_rest, of_product = SAYS.format("rest", "a float64", "rest"), SAYS.format("an operand", "a float64", "…")
    assert remarks["by_what_is_computed_of_it"] == [of_rest, of_product]


def test_what_is_float32_or_meant_to_be_wider_is_not(remarks: dict[str, list[str]]) -> None:
    others = {name: said for name, said in remarks.items() if name not in {*OPERANDS, "by_what_is_computed_of_it"}}
    assert len(others) >= 7
    assert not any(others.values()), others
