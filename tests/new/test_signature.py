"""Accepted and refused ``--signature``; each refusal says what to write instead."""

from __future__ import annotations

import pytest

from trifold.new import schema
from trifold.new.signature import Signature, SignatureError
from trifold.new.signature import parse as parse_elementwise


def parse(text: str, op: str) -> Signature:
    """Of an elementwise op; any other one is only read."""
    found = parse_elementwise(text, op)
    if found is None:
        schema.parse(text, op)
        raise AssertionError(f"{text} is not elementwise")
    return found


def test_every_kind_of_argument() -> None:
    signature = parse("(Tensor x, float a, Tensor y, Tensor? mask=None, *, int k=2, bool up=True) -> Tensor", "op1")
    assert [(each.kind, each.name) for each in signature.arguments] == [
        ("Tensor", "x"),
        ("float", "a"),
        ("Tensor", "y"),
        ("Tensor?", "mask"),
        ("int", "k"),
        ("bool", "up"),
    ]
    assert [each.default for each in signature.arguments] == [None, None, None, "None", "2", "True"]
    assert [each.cpp for each in signature.arguments][2:] == [
        "const Tensor& y",
        "std::optional<Tensor> mask",
        "int64_t k",
        "bool up",
    ]
    assert signature.parameters[4:] == ["*", "k: int = 2", "up: bool = True"]


@pytest.mark.parametrize("text", ["scale(Tensor x) -> Tensor", "  (Tensor x)->Tensor ", "scale (Tensor x) -> Tensor"])
def test_the_op_s_own_name_and_spaces_do_no_harm(text: str) -> None:
    assert [each.name for each in parse(text, "scale").arguments] == ["x"]


@pytest.mark.parametrize(
    ("text", "says", "remedy"),
    [
        ("Tensor x", "no brackets", '"(Tensor x, float alpha) -> Tensor"'),
        ("", "no brackets", "write it"),
        ("other(Tensor x) -> Tensor", "is of 'other'", "omit the name"),
        ("(Tensor x)", "does not say what the op returns", "-> Tensor"),
        ("(Tensor x -> Tensor", "is not a schema", "write it"),
        ("(Tensor 2) -> Tensor", "is not a schema", "write it"),
        ("(Tensor x, Tensor x) -> Tensor", "two arguments are called 'x'", "another name"),
        (
            "(Tensor x, float a=1, float b) -> Tensor",
            "is not a schema: Non-default positional argument follows",
            "write",
        ),
        ("(Tensor x) -> ()", "returns nothing and writes nothing", "-> Tensor"),
        ("(Tensor x) -> int", "a result is a int", "of shape ()"),
        ("(Tensor(a!) x) -> Tensor(a!)", "a result is an argument", "-> ()"),
        ("(Tensor(a) x) -> Tensor(a)", "a view of x", "a new Tensor"),
        ("(Tensor(a!) x) -> Tensor[]", "does not support a returned list together", "return Tensors"),
        ("(Tensor(a!)[] xs) -> ()", "xs is a Tensor[] that is written", "Tensor(a!) xs"),
        ("(Tensor(a!) x, str mode) -> ()", "call something else", "another name"),
        ("(Tensor x, Scalar a) -> Tensor", "a is a Scalar", "a float for a Scalar"),
        ("(Tensor x, Generator? g) -> Tensor", "g is a Generator?", "a seed for a Generator"),
        ("(Tensor x, int[][] a) -> Tensor", "a is a int[][]", "use Tensor"),
        ("(Tensor x, ScalarType a=float) -> Tensor", "a has a default", "remove it"),
        ("(Tensor x, str given) -> Tensor", "call something else", "another name"),
        ("(float a) -> Tensor", "no argument is certain to be a tensor", "begin with"),
        ("() -> Tensor", "no argument is certain", "begin with"),
        ("(Tensor? x, Tensor[]? y) -> Tensor", "no argument is certain", "begin with"),
        ("(Tensor x, float lambda) -> Tensor", "", ""),
        ("(Tensor x, float double) -> Tensor", "word of Python or C++", "another name"),
        ("(Tensor x, float grad) -> Tensor", "call something else", "another name"),
        ("(Tensor x, float op1) -> Tensor", "call something else", "another name"),
        ("(Tensor x, float Alpha) -> Tensor", "not in lower case", "another name"),
        ("(" + ", ".join(f"Tensor t{i}" for i in range(11)) + ") -> Tensor", "11 arguments", "by hand"),
        ("(" + ", ".join(f"Tensor a_rather_long_{i}" for i in range(8)) + ") -> Tensor", "more than 80", "shorten"),
    ],
)
def test_what_cannot_be_generated(text: str, says: str, remedy: str) -> None:
    with pytest.raises(SignatureError) as caught:
        parse(text, "op1")
    assert caught.value.problem.startswith("--signature: ")
    assert says in caught.value.problem
    assert remedy in caught.value.remedy
    assert caught.value.remedy
