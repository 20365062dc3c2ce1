"""The sources of a record: the code of the files that were run, without comments."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.wrong.entry import GALLERY, copy_of_gallery
from trifold.record_sources import TOOLKIT, changed, digest, of_files, of_ops, recorded
from trifold.workspace import Workspace

CPP = """\
#define TWICE(x) \\
  ((x) + (x))  // both
#include <trifold/cuda.cuh>
/* what it
   does */
__global__ void kernel(float* y) { y[0] = 1'000.5e-3f + TWICE(2); puts("// \\" no comment"); }
const char* text = R"mark(/* no comment )" )mark";
"""
PYTHON = '''\
"""What it does."""
import math


def f(x: float, *, y: str = "# none") -> str:
    """More."""
    # why
    if x > 1:
        return f"{x:>{8}} {y!r} # none"
    return y
'''

SAME: list[tuple[str, str, str, str]] = [
    ("a C++ comment", "a.cuh", "// both", "// the two"),
    ("a comment over lines", "a.cuh", "what it\n   does", "what it does"),
    ("blanks and line ends", "a.cuh", "{ y[0] = ", "\n{\n  y[0]  =\n "),
    ("a comment of Python", "a.py", "# why", "# because"),
    ("a docstring", "a.py", '"""More."""', '"""Other."""'),
    ("no docstring", "a.py", '"""What it does."""\n', ""),
    ("a line of Python in two", "a.py", "x: float, *,", "x: float,\n    *,"),
]
OTHER: list[tuple[str, str, str, str]] = [
    ("a number", "a.cuh", "1'000.5e-3f", "1'000.5e-4f"),
    ("a string with //", "a.cuh", '\\" no comment', '\\" comment'),
    ("a raw string", "a.cuh", "/* no comment )", "/* a comment )"),
    ("a macro's value", "a.cuh", "(x) + (x)", "(x) - (x)"),
    ("a macro that takes nothing", "a.cuh", "TWICE(x)", "TWICE (x)"),
    ("a name", "a.py", "math", "cmath"),
    ("a string with #", "a.py", '"# none"', '"# some"'),
    ("an f-string", "a.py", "{8}", "{9}"),
    ("the text of an f-string", "a.py", '# none"\n', '# some"\n'),
    ("indentation", "a.py", "    return y", "        return y"),
    ("what is no code", "a.txt", "# why", "# because"),
]


def _texts(name: str, old: str, new: str) -> tuple[bytes, bytes]:
    text = CPP if name.endswith(".cuh") else PYTHON
    assert old in text
    return text.encode(), text.replace(old, new).encode()


@pytest.mark.parametrize(("name", "old", "new"), [row[1:] for row in SAME], ids=[row[0] for row in SAME])
def test_layout_and_comments_do_not_count(name: str, old: str, new: str) -> None:
    before, after = _texts(name, old, new)
    assert digest(name, before) == digest(name, after)


@pytest.mark.parametrize(("name", "old", "new"), [row[1:] for row in OTHER], ids=[row[0] for row in OTHER])
def test_code_counts(name: str, old: str, new: str) -> None:
    before, after = _texts(name, old, new)
    assert digest(name, before) != digest(name, after)


def test_a_digest_is_the_same_under_each_version_of_python() -> None:
    """As 3.11 reads f-strings, so does 3.12, where each is many tokens."""
    assert digest("a.py", PYTHON.encode()) == "8ed36f611ccdae26", sys.version
    assert digest("a.cuh", CPP.encode()) == "329dd3310c8e04dc"


@pytest.mark.parametrize("content", [b"def f(:\n  '", b"\xff", b"\0"])
def test_what_cannot_be_read_counts_as_it_is(content: bytes) -> None:
    assert digest("a.py", content) == digest("a.txt", content) != digest("a.py", content + b" ")


def test_a_record_of_ops_on_a_gpu_is_about_what_nvcc_compiles_and_what_calls_it() -> None:
    found = of_ops(GALLERY, ["topk"], "cuda").keys()
    own = {"cuda_src/topk.cu", "cuda_src/topk.cuh", "cuda_src/argmax.cuh", "ports/topk.py", "prototypes/topk.py"}
    assert {name for name in found if not name.startswith("trifold/")} == own
    assert {"trifold/include/trifold/cuda.cuh", "trifold/port/wiring.py", "trifold/prototype/launch.py"} <= found
    assert not any("cpu" in name or "philox.cuh" in name or "checks" in name for name in found)


def test_on_the_cpu_the_headers_for_gxx_count() -> None:
    more = of_ops(GALLERY, ["add"], "cpu").keys() - of_ops(GALLERY, ["add"], "cuda").keys()
    assert {"trifold/include/trifold/cpu/warp.h", "trifold/include/cuda_for_cpu/cuda_fp16.h"} <= more


def test_a_record_without_prototypes_is_not_about_them() -> None:
    less = of_ops(GALLERY, ["add"], "cuda").keys() - of_ops(GALLERY, ["add"], "cuda", prototypes=False).keys()
    assert "prototypes/add.py" in less
    assert {name.rpartition("/")[0] for name in less} == {"prototypes", "trifold/prototype", "trifold/device"}


def test_a_verification_is_about_specs_and_checks_too() -> None:
    more = of_ops(GALLERY, ["add"], "cuda", checked=True).keys() - of_ops(GALLERY, ["add"], "cuda").keys()
    assert {"verify/add.py", "trifold/verification/checks/values.py"} <= more


def test_an_edit_of_an_op_is_named(tmp_path: Path) -> None:
    workspace: Workspace = copy_of_gallery("add", tmp_path / "workspace")
    before = of_ops(workspace, ["add"], "cuda")
    header = workspace.files("add").header
    header.write_text(f"// more\n{header.read_text()}")
    assert changed(before, of_ops(workspace, ["add"], "cuda")) == []
    header.write_text(header.read_text() + "\n__device__ int more;\n")
    assert changed(before, of_ops(workspace, ["add"], "cuda")) == ["cuda_src/add.cuh"]
    (header.parent / "late.cuh").write_text("")
    header.write_text('#include "late.cuh"\n' + header.read_text())
    assert changed(before, of_ops(workspace, ["add"], "cuda")) == ["cuda_src/add.cuh", "cuda_src/late.cuh"]


def test_files_by_pattern_are_no_caches() -> None:
    found = of_files(TOOLKIT.parent, ["trifold/port/**/*"])
    assert "trifold/port/wiring.py" in found
    assert not any(name.endswith((".pyc", ".so")) for name in found)
    without = of_files(TOOLKIT.parent, ["trifold/port/**/*", "!trifold/port/w*.py"])
    assert {name for name in found if name not in without} == {n for n in found if n.startswith("trifold/port/w")}


def test_a_record_from_before_names_no_sources() -> None:
    assert recorded({"environment": {"commit": "a"}}) == recorded({"commit": "a"}) == {}
    assert recorded({"environment": {"sources": {"a": "1"}}}) == recorded({"sources": {"a": "1"}}) == {"a": "1"}
