"""Ops of signatures that hypothesis draws: their files agree with each other, and g++ compiles the port."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from typer.testing import CliRunner

from trifold.build import compile_commands
from trifold.cli import app
from trifold.new.render import op_texts
from trifold.port import Schema
from trifold.spec import Limits
from trifold.workspace import OpFiles, Workspace

_BASES = ("Tensor", "int", "float", "bool", "str", "ScalarType", "Device")
_CPP = {"int": "int64_t", "float": "double", "str": "std::string"} | {
    name: f"trifold::{name}" for name in ("ScalarType", "Device")
}
_FORMS = ("{}", "{}?", "{}[]", "{}?[]", "{}[]?")
_RESULTS = ("Tensor", "Tensor?", "Tensor[]", "Tensor?[]", "Tensor[]?")


@st.composite
def signatures(draw: st.DrawFn) -> str:
    kinds = [
        draw(st.sampled_from(_FORMS)).format(draw(st.sampled_from(_BASES))) for _ in range(draw(st.integers(1, 6)))
    ]
    arguments = [f"{kind} {letter * 3}" for kind, letter in zip(kinds, "bcdefh", strict=False)]
    arguments.insert(draw(st.integers(0, len(arguments))), draw(st.sampled_from(("Tensor a1", "Tensor[] a1"))))
    results = draw(st.lists(st.sampled_from(_RESULTS), min_size=1, max_size=3))
    if draw(st.booleans()):
        arguments.append("Tensor(w!) ww")
        results = [kind for kind in results[:-1] if "[]" not in kind]
    if draw(st.booleans()):
        arguments.insert(len(arguments) - 1, "*")
    return f"({', '.join(arguments)}) -> {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}"


def files_of(op: str) -> OpFiles:
    return Workspace(Path("/nowhere")).files(op)


def executed(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, "generated", "exec"), names)
    return names


def cpp_type(kind: str) -> str:
    """Of a type of a schema."""
    if kind.endswith("?"):
        return f"std::optional<{cpp_type(kind[:-1])}>"
    if kind.endswith("[]"):
        return f"std::vector<{cpp_type(kind[:-2])}>"
    return _CPP.get(kind, kind)


def results_of(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [] if made is None else [made]


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(signatures(), st.data())
def test_any_signature_gives_files_that_agree(signature: str, data: st.DataObject) -> None:
    """One schema in Python and C++, a spec whose calls the reference takes, and results of the types that it states."""
    prototype, _, binding, port, spec = op_texts(files_of("drawn"), "elementwise", signature).values()
    compile(port, "port", "exec")
    quoted = re.findall(r'"(drawn\((?:[^"]*)\) -> [^"]*)"', re.sub(r'"\s*\n\s*"', "", port))
    schema = Schema.parse(quoted[0])
    parameters = re.search(r"\bdrawn\(([^{]*)\) \{", re.sub(r"\s+", " ", binding))
    assert parameters is not None
    stripped = re.sub(r"\bconst |&", "", parameters[1])
    assert stripped == ", ".join(f"{cpp_type(kind)} {name}" for kind, name in schema.arguments)

    made = executed(spec)["spec"]
    assert list(made.writes) == [schema.arguments[position][1] for position in schema.written]
    args, kwargs = data.draw(made.calls(Limits(50))).arguments()
    results = results_of(executed(prototype)["reference"](*args, **kwargs))
    assert len(results) == len(schema.results)
    for result, kind in zip(results, schema.results, strict=True):
        assert isinstance(result, list if "[]" in kind else Tensor)
    for sample in made.samples:
        args, kwargs = sample.call.arguments()
        executed(prototype)["reference"](*args, **kwargs)


COMPILED = {
    "lists": "(Tensor x, Tensor?[] ys, Tensor[]? zs, int[2] k, float[]? w) -> (Tensor[], Tensor?[], Tensor[]?)",
    "values": "(Tensor x, str how, str? why, ScalarType? kind, Device place, bool[] up) -> Tensor?",
    "written": "(Tensor(a!) x, Tensor? y, Tensor(b!) z, int?[] k) -> ()",
    "no_tensor_but_a_list": "(Tensor[] xs, *, ScalarType kind) -> (Tensor, Tensor)",
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("general") / "kernels"
    assert CliRunner().invoke(app, ["new", str(root)]).exit_code == 0
    for op, signature in COMPILED.items():
        done = CliRunner().invoke(app, ["new", "op", op, "--signature", signature, "--workspace", str(root)])
        assert done.exit_code == 0, done.exception
    compile_commands.write(Workspace.at(root))
    return Workspace.at(root)


@pytest.mark.parametrize("op", COMPILED)
def test_gxx_compiles_the_port(workspace: Workspace, op: str) -> None:
    listed = json.loads((workspace.root / compile_commands.NAME).read_text())
    (entry,) = (entry for entry in listed if entry["file"] == str(workspace.op(op).binding))
    command = [*entry["arguments"], "-fsyntax-only", "-w"]
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_defaults_of_every_type() -> None:
    signature = '(Tensor x, str how="sum", int[] k=[1, 2], Tensor? y=None, ScalarType? kind=None) -> Tensor'
    port = op_texts(files_of("mine"), "elementwise", signature)[files_of("mine").port]
    for parameter in ('how: str = "sum"', "k: Sequence[int] = (1, 2)", "kind: torch.dtype | None = None"):
        assert parameter in port
    assert "mine(Tensor x, str how, int[] k, Tensor? y, ScalarType? kind) -> Tensor" in port


def test_the_sum_of_the_reference() -> None:
    """Of x = 3 and y = (1, 2) with the factors 0.5 and -2: 0.5·(-2)·(9 + 1 + 4), once and twice."""
    texts = op_texts(files_of("mine"), "elementwise", "(Tensor x, Tensor[] y, float a, int? b) -> Tensor[]")
    reference = executed(texts[files_of("mine").prototype])["reference"]
    y = [torch.tensor([1.0]), torch.tensor([2.0])]
    assert [float(each) for each in reference(torch.tensor([3.0]), y, 0.5, -2)] == [-14.0, -28.0]
