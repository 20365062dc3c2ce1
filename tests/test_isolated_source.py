"""A prototype's file in two parts: what the judge runs of it, and what the op's process runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.wrong.entry import GALLERY
from trifold.isolation.source import reference_alone, without_reference

UNUSED = """
raise RuntimeError("a statement that nothing needs")
"""


def run(text: str, path: Path, part: Callable[[Path], CodeType] = reference_alone) -> dict[str, Any]:
    """The names after that part of the file has run."""
    path = path / "prototype.py"
    path.write_text(text, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "prototype"}
    exec(part(path), names)
    return names


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("def reference(x):\n    return x + 1\n", 4),
        ("import math\nimport no_such_module\n\ndef reference(x):\n    return math.sqrt(x + 1)\n", 2),
        ("import math as maths, no_such_module as missing\n\ndef reference(x):\n    return maths.sqrt(x + 1)\n", 2),
        ("import os.path\n\ndef reference(x):\n    return x + len(os.path.join('', ''))\n", 3),
        ("from math import sqrt as root, floor\n\ndef reference(x):\n    return root(x + 1)\n", 2),
        ("ONE = 1\nTWO: int = ONE + 1\n\ndef reference(x):\n    return x + TWO\n", 5),
        ("TWO = 1\nTWO += 1\n\ndef reference(x):\n    return x + TWO\n", 5),
        ("ONE, (TWO, *_) = 1, (2, 3)\n\ndef reference(x):\n    return x + TWO\n", 5),
        ("class Two:\n    value = 2\n\n\ndef reference(x):\n    return x + Two.value\n", 5),
        ("class Base:\n    value = 2\n\nclass Two(Base): ...\n\ndef reference(x):\n    return x + Two.value\n", 5),
        ("def two():\n    return 2 * one()\n\ndef one():\n    return 1\ndef reference(x):\n    return x + two()\n", 5),
        ("def twice(f):\n    return lambda x: 2 * f(x)\n\n@twice\ndef reference(x):\n    return x\n", 6),
        ("import functools\n\n@functools.cache\ndef reference(x):\n    return x\n", 3),
        ("DEFAULT = 2\n\ndef reference(x, by=DEFAULT):\n    return x + by\n", 5),
        ("try:\n    import no_such_module as maths\nexcept ImportError:\n    import math as maths\n\n"
         "def reference(x):\n    return maths.sqrt(x + 1)\n", 2),
        ("import sys\nif sys.version_info > (3, 0):\n    from math import sqrt\nelse:\n    sqrt = None\n\n"
         "def reference(x):\n    return sqrt(x + 1)\n", 2),
        ("reference = lambda x: x + 2\n", 5),
        ("def _reference(x):\n    return x + 2\n\nreference = _reference\n", 5),
        ("def reference(x):\n    return x\n\ndef reference(x):\n    return x + 1\n", 4),
        ("def kernel():\n    import trifold\n    trifold.load()\n\n"
         "def twice(x):\n    kernel = 2 * x\n    return [kernel for one in [1]][0]\n\n"
         "def reference(x):\n    return twice(x)\n", 6),
        ("TWO = 1\n\ndef two():\n    global TWO\n    TWO += 1\n    return TWO\n\n"
         "def reference(x):\n    return x + two()\n", 5),
        ("ONE = 1\n\nclass Two:\n    value = 1 + ONE\n\n    def of(self):\n        return ONE + self.value\n\n"
         "def reference(x):\n    return x + Two().of() - 1\n", 5),
        ("from __future__ import annotations\n\ndef reference(x: NoSuchName) -> NoSuchName:\n    return x\n", 3),
    ],
)  # fmt: skip
def test_what_a_reference_needs_is_run(text: str, result: float, tmp_path: Path) -> None:
    assert run(text, tmp_path)["reference"](3) == result


@pytest.mark.parametrize(
    "unused",
    [
        UNUSED,
        "import no_such_module\n",
        "from no_such_module import *\n",
        "if True:\n    raise RuntimeError\n",
        "for number in range(3):\n    raise RuntimeError\n",
        "def decorate(f):\n    raise RuntimeError\n\n@decorate\ndef kernel(x): ...\n",
        "class Kernel(no_such_name): ...\n",
        "VALUE = 1 / 0\n",
        "with open('no such file') as file:\n    pass\n",
        "del reference\n",
        "globals()['reference'] = None\n",
    ],
)
def test_nothing_else_is_run(unused: str, tmp_path: Path) -> None:
    assert run(f"{unused}\ndef reference(x):\n    return x + 1\n\n{unused}", tmp_path)["reference"](3) == 4


def test_imports_that_nobody_uses_are_not_made(tmp_path: Path) -> None:
    names = run("from math import sqrt, floor\n\ndef reference(x):\n    return sqrt(x)\n\nkernel = floor\n", tmp_path)
    assert "sqrt" in names
    assert not {"floor", "kernel"} & names.keys()


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    names = run("import no_such_module\n\n\ndef reference(x):\n    raise ValueError(x)\n", tmp_path)
    with pytest.raises(ValueError, match="3") as caught:
        names["reference"](3)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.lineno) == (str(tmp_path / "prototype.py"), 5)


def test_a_file_without_one_has_none(tmp_path: Path) -> None:
    assert "reference" not in run("def kernel(x): ...\n", tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "def reference(x):\n    return x + 1\n",
        'def reference(x):\n    """Adds 1."""\n    return x + 1\n',
        "def reference(x):\n    return x\n\ndef reference(x):\n    return x + 1\n",
    ],
)
def test_where_the_op_runs_a_reference_raises(text: str, tmp_path: Path) -> None:
    names = run(f"{text}\ndef kernel(x):\n    return 2 * x\n\nVALUE = kernel(2)\n", tmp_path, without_reference)
    assert names["VALUE"] == 4
    with pytest.raises(RuntimeError, match="the reference is the judge's: it cannot be called where the op runs"):
        names["reference"](3)


@pytest.mark.parametrize("op", sorted(files.name for files in GALLERY.select(())))
def test_each_of_the_gallery_has_its_reference_alone(op: str) -> None:
    names: dict[str, Any] = {"__name__": f"prototype_{op}"}
    exec(reference_alone(GALLERY.files(op).prototype), names)
    assert callable(names["reference"])
    assert op not in names
    assert "cuda" not in names
