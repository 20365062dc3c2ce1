"""Names that Python, pip or PyPI would refuse are refused before anything is written."""

from __future__ import annotations

import pytest

from trifold.errors import GraduationError
from trifold.graduate import names

REFUSED = [
    ("", "refused by PyPI"),
    ("-kernels", "refused by PyPI"),
    ("my kernels", "refused by PyPI"),
    ("_kernels", "refused by PyPI"),
    ("kérnels", "refused by PyPI"),
    ("a/b", "refused by PyPI"),
    ("2kernels", "not a Python identifier"),
    ("class", "keyword"),
    ("None", "keyword"),
    ("match", "keyword"),
    ("select", "standard library"),
    ("Queue", "standard library"),
    ("torch", "something that torch needs"),
    ("Torch", "something that torch needs"),
    ("jinja2", "something that torch needs"),
    ("typing-extensions", "something that torch needs"),
    ("trifold", "that of trifold"),
]
ACCEPTED = [("my-kernels", "my_kernels"), ("sigmoid_kernels", "sigmoid_kernels"), ("A.b", "A_b"), ("k2", "k2")]


@pytest.mark.parametrize(("name", "problem"), REFUSED, ids=repr)
def test_a_refused_name_says_why(name: str, problem: str) -> None:
    with pytest.raises(GraduationError, match=problem) as raised:
        names.require_package_name(name)
    assert "--name" in raised.value.remedy


@pytest.mark.parametrize(("name", "module"), ACCEPTED)
def test_an_accepted_name_can_be_imported(name: str, module: str) -> None:
    assert names.require_package_name(name) == module


def test_the_default_name_is_accepted() -> None:
    assert names.require_package_name(names.default_name(["add", "mul"])) == "add_mul_kernels"


@pytest.mark.parametrize("op", names.OWN_MODULES)
def test_an_op_cannot_hide_a_part_of_its_package(op: str) -> None:
    with pytest.raises(GraduationError, match=f"an op named '{op}'"):
        names.require_ops(["add", op])


@pytest.mark.parametrize("version", ["one", "", "1.0+cu13", "1..0"])
def test_a_wrong_version_is_refused(version: str) -> None:
    with pytest.raises(GraduationError, match="version"):
        names.require_version(version)


def test_a_version_gets_its_normal_form() -> None:
    assert names.require_version("v1.0.0rc1") == "1.0.0rc1"
