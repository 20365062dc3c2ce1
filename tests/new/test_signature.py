"""What ``--signature`` may say; each refusal says what to write."""

from __future__ import annotations

import pytest

from trifold.new.signature import SignatureError, parse


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
        ("other(Tensor x) -> Tensor", "is of 'other'", "leave the name away"),
        ("(Tensor x)", "does not say what the op returns", "-> Tensor"),
        ("(Tensor x -> Tensor", "is not a schema", "write it"),
        ("(Tensor 2) -> Tensor", "is not a schema", "write it"),
        ("(Tensor x, Tensor x) -> Tensor", "two arguments are called 'x'", "another name"),
        (
            "(Tensor x, float a=1, float b) -> Tensor",
            "is not a schema: Non-default positional argument follows",
            "write",
        ),
        ("(Tensor x) -> (Tensor, Tensor)", "returns Tensor, Tensor", "-> Tensor"),
        ("(Tensor x) -> ()", "returns nothing", "-> Tensor"),
        ("(Tensor x) -> int", "returns int", "-> Tensor"),
        ("(Tensor(a!) x) -> Tensor(a!)", "only one new Tensor", "-> Tensor"),
        ("(Tensor(a!) x) -> Tensor", "written in place", "return a new Tensor"),
        ("(Tensor[] xs) -> Tensor", "xs is a List[Tensor]", "a fixed number of Tensors"),
        ("(Tensor x, str mode) -> Tensor", "mode is a str", "use Tensor, Tensor?, float, int and bool"),
        ("(Tensor x, Scalar a) -> Tensor", "a is a", "use Tensor"),
        ("(Tensor x, float? a) -> Tensor", "a is a float?", "use Tensor"),
        ("(Tensor x, int[2] k) -> Tensor", "k is a", "use Tensor"),
        ("(float a) -> Tensor", "must be a Tensor", "begin with"),
        ("() -> Tensor", "must be a Tensor", "begin with"),
        ("(Tensor? x, Tensor y) -> Tensor", "must be a Tensor", "begin with"),
        ("(Tensor x, float lambda) -> Tensor", "", ""),
        ("(Tensor x, float double) -> Tensor", "word of Python or C++", "another name"),
        ("(Tensor x, float grad) -> Tensor", "call something else", "another name"),
        ("(Tensor x, float op1) -> Tensor", "call something else", "another name"),
        ("(Tensor x, float Alpha) -> Tensor", "not in lower case", "another name"),
        ("(Tensor x, *, Tensor y) -> Tensor", "a tensor behind the '*'", "before the '*'"),
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
