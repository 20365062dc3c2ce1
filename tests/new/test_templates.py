"""The text of generated ops: for every family, and for any signature that is accepted."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trifold.new.family import FAMILIES, Family, NewError, family_of
from trifold.new.origin import Origin
from trifold.new.render import op_texts, workspace_texts
from trifold.port import Schema
from trifold.workspace import OpFiles, Workspace

ROOT = Path(__file__).parents[2]
CPP_OF_SCHEMA = {
    "Tensor": "const Tensor&",
    "Tensor?": "std::optional<Tensor>",
    "float": "double",
    "int": "int64_t",
    "bool": "bool",
}


def files_of(op: str) -> OpFiles:
    return Workspace(Path("/nowhere")).files(op)


@st.composite
def signatures(draw: st.DrawFn) -> str:
    kinds = draw(st.lists(st.sampled_from(["Tensor", "Tensor?", "float", "int", "bool"]), max_size=7))
    length = draw(st.integers(1, 8))
    names = [f"{letter * length}" for letter in "abdefhjk"]
    arguments = [f"{kind} {name}" for kind, name in zip(["Tensor", *kinds], names, strict=False)]
    first = draw(st.integers(0, len(arguments) - 1))
    if all(not argument.startswith("Tensor") for argument in arguments[1 : first + 1]):
        arguments = [*arguments[1 : first + 1], arguments[0], *arguments[first + 1 :]]
    return f"({', '.join(arguments)}) -> Tensor"


OPS = st.sampled_from(["a1", "scale", "gated_linear_unit", "an_op_of_a_name_of_30_letters_"])


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(signatures(), OPS)
def test_any_signature_gives_files_that_agree(signature: str, op: str) -> None:
    """Python that parses, lines of at most 120 characters, and one schema in Python and C++."""
    texts = op_texts(files_of(op), "elementwise", signature)
    by_suffix = {path.parent.name + path.suffix: text for path, text in texts.items()}
    for path, text in texts.items():
        assert max(map(len, text.splitlines())) <= 120, path
        assert "{{" not in text
        assert "Change here" in text or path.suffix == ".cu"
        if path.suffix == ".py":
            ast.parse(text)
    quoted = re.findall(r'"((?:[^"]*)\) -> Tensor)"', re.sub(r'"\s*\n\s*"', "", by_suffix["ports.py"]))
    for schema in map(Schema.parse, quoted):
        joined = re.sub(r"\s+", " ", by_suffix["cuda_src.cu"])
        wanted = ", ".join(f"{CPP_OF_SCHEMA[kind]} {name}" for kind, name in schema.arguments)
        assert f"Tensor {schema.name}({wanted}) {{" in joined
    assert {Schema.parse(text).name for text in quoted} == {op, f"{op}_backward"}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_file_says_where_to_change_it(family: str) -> None:
    for path, text in op_texts(files_of("mine"), family_of(family), None).items():
        marked = [line for line in text.splitlines() if "Change here: " in line]
        assert marked, path
        assert all(len(line.partition("Change here: ")[2]) > 10 for line in marked)


def test_a_family_that_does_not_exist() -> None:
    with pytest.raises(NewError, match="no template 'row'") as caught:
        family_of("row")
    assert "did you mean rows?" in caught.value.remedy


def test_a_prototype_and_its_port_write_a_dtype_alike() -> None:
    prototype, _, binding, *_ = op_texts(files_of("mine"), family_of("scatter"), None).values()
    assert "one dimension, not {index.dtype} of" in prototype  # Python's words: torch.int32
    assert 'one dimension, not torch.", trifold::Dtype{index}, " of' in binding


def test_only_elementwise_takes_a_signature() -> None:
    kept: dict[str, str] = {}
    for family in FAMILIES[1:]:
        with pytest.raises(NewError, match="--signature goes with --like elementwise only") as caught:
            op_texts(files_of("mine"), family_of(family), "(Tensor x) -> Tensor")
        assert "or omit --like" in caught.value.remedy
        kept[family] = caught.value.problem.partition("is written for ")[2]
    assert kept["scatter"] == "(Tensor source, Tensor index, int size) -> Tensor"
    assert kept["results"] == "(Tensor x, Tensor y, Tensor cos, Tensor sin, bool inverse) -> (Tensor, Tensor)"
    assert all(each.startswith("(Tensor x") for family, each in kept.items() if family != "scatter")


SIGNATURES = {
    "plain": "(Tensor x, Tensor y) -> Tensor",
    "everything": "(float alpha, Tensor x, Tensor y, Tensor? mask=None, *, int count=2, bool up=False) -> Tensor",
    "wide": "(Tensor first_one, Tensor second_one, Tensor third_one, float alpha, int k, bool flag) -> Tensor",
    "one": "(Tensor x) -> Tensor",
}


@pytest.mark.skipif(not all(map(shutil.which, ("ruff", "clang-format"))), reason="ruff or clang-format is not here")
def test_generated_files_are_as_the_formatters_would_write_them(tmp_path: Path) -> None:
    """`.ci/run` runs this once more where both are installed."""
    for path, text in workspace_texts(_context()).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    for prefix in ("a_", "an_op_of_a_long_name_"):
        wanted: list[tuple[str, Family, str | None]] = [
            (prefix + family[:9].replace("-", "_"), family, None) for family in FAMILIES
        ]
        wanted += [(prefix + name, "elementwise", signature) for name, signature in SIGNATURES.items()]
        for op, family, signature in wanted:
            for file, content in op_texts(Workspace(tmp_path).files(op), family, signature).items():
                file.parent.mkdir(exist_ok=True)
                file.write_text(content, encoding="utf-8")
    sources = sorted(map(str, (tmp_path / "cuda_src").iterdir()))
    for command in (
        ["ruff", "check"],
        ["ruff", "format", "--diff"],
        ["clang-format", "--dry-run", "-Werror", *sources],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def _context() -> dict[str, object]:
    folders = {"prototypes": "prototypes", "cuda_src": "cuda_src", "ports": "ports", "verify": "verify"}
    return {
        "project": "mine",
        "op": "scaled_square",
        "folders": folders,
        "python": "3.12",
        "trifold": "0.1.0",
        "origin": Origin("trifold==0.1.0"),
    }
