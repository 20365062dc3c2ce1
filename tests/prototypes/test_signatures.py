"""A kernel's prototype and its port have the same name and arguments, in one order, so that they read side by side."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from trifold.workspace import Workspace

ROOT = Path(__file__).parents[2]
OPS = [files.name for files in Workspace.at(ROOT).select([])]
ROW_OPS = ("softmax", "layer_norm", "rms_norm", "cross_entropy")

# Where elements lie in memory, which an array of Numba knows itself.
LAYOUT = re.compile(r"(\w+_)?stride|apart|[qk]_heads")
# Template parameters that a prototype takes as its last arguments; a Choice has, among others, a team.
TEMPLATE = {"team": ("int team", "class Choice"), "capacity": ("int capacity",), "pack": ("int pack",)}
# What the port has in one struct: the elements as vectors and edges, and the numbers that make a bin.
STRUCTS = {"share": ("n",), "range": ("low", "high", "factor")}
# Arguments of another name: matmul_tiled's prototype takes b transposed, so that one function loads both tiles.
RENAMED = {("matmul_tiled_kernel", "b_transposed"): "b"}

KERNEL = re.compile(
    r"(?:template\s*<(?P<template>[^;{}]*?)>\s*)?"
    r"__global__\s+void\s+(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*)?(?P<name>\w+)\((?P<arguments>[^)]*)\)\s*\{"
)


@cache
def port_kernels() -> dict[str, tuple[str, list[str]]]:
    """The template parameters and the names of the arguments of each kernel of the gallery and of its headers."""
    found = {}
    for path in chain(ROOT.glob("cuda_src/**/*.cuh"), ROOT.glob("trifold/include/trifold/*.cuh")):
        text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
        for kernel in KERNEL.finditer(text):
            arguments = [one for one in re.split(r",(?![^<]*>)", kernel["arguments"]) if one.strip()]
            found[kernel["name"]] = kernel["template"] or "", [re.findall(r"\w+", one)[-1] for one in arguments]
    return found


def prototype_kernels(path: Path) -> dict[str, list[str]]:
    """The names of the arguments of each kernel in a prototype."""
    functions = [one for one in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(one, ast.FunctionDef)]
    return {
        one.name: [argument.arg for argument in one.args.args]
        for one in functions
        if any(ast.unparse(decorator) == "cuda.jit" for decorator in one.decorator_list)
    }


def differences(name: str, prototype: list[str], template: str, port: list[str]) -> str:
    """How the arguments differ; empty: they do not, but for what an array holds and what is a template parameter."""
    port = [argument for argument in port if not LAYOUT.fullmatch(argument)]
    own = [RENAMED.get((name, argument), argument) for argument in prototype]
    expected = list(chain.from_iterable(STRUCTS.get(one, (one,)) if one not in own else (one,) for one in port))
    while own and own[-1] not in expected and any(one in template for one in TEMPLATE.get(own[-1], ())):
        own.pop()
    return "" if own == expected else f"{name}: the prototype has ({', '.join(own)}), the port ({', '.join(expected)})"


@pytest.mark.parametrize("op", OPS)
def test_prototype_and_port_have_the_same_kernels(op: str) -> None:
    kernels = prototype_kernels(ROOT / "prototypes" / f"{op}.py")
    assert kernels, "a prototype has a kernel"
    assert [name for name in kernels if name not in port_kernels()] == []
    found = [differences(name, own, *port_kernels()[name]) for name, own in kernels.items()]
    assert [text for text in found if text] == []


def test_kernels_that_ops_share_are_compared_too() -> None:
    (shared,) = prototype_kernels(ROOT / "prototypes/_norms.py").items()
    assert differences(*shared, *port_kernels()[shared[0]]) == ""


@pytest.mark.parametrize("op", ROW_OPS)
def test_row_ops_show_a_row_in_registers_beside_the_plain_kernel(op: str) -> None:
    assert {f"{op}_kernel", f"{op}_rows_kernel"} <= prototype_kernels(ROOT / "prototypes" / f"{op}.py").keys()


@pytest.mark.parametrize(
    ("prototype", "found"),
    [
        pytest.param(["x", "y", "columns", "rows"], True, id="another order"),
        pytest.param(["x", "y", "columns"], True, id="one is missing"),
        pytest.param(["x", "y", "rows", "columns", "more"], True, id="one more"),
        pytest.param(["x", "y", "rows", "columns"], False, id="strides are the array's"),
        pytest.param(["x", "y", "rows", "columns", "team"], False, id="a template parameter comes last"),
    ],
)
def test_what_differs_is_found(prototype: list[str], found: bool) -> None:
    port = "class T, int team", ["x", "x_stride", "y", "rows", "columns"]
    assert bool(differences("a_kernel", prototype, *port)) is found
