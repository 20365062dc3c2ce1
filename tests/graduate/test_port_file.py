"""A packaged port is the verified one but for one import and its examples."""

from __future__ import annotations

import difflib
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement

from tests.wrong.entry import GALLERY
from trifold.errors import GraduationError
from trifold.graduate.port_file import PortFile
from trifold.graduate.source_package import torch_requirement
from trifold.python_imports import shared_modules

HEAD = "from torch import Tensor\n\nfrom trifold.port import Operators, wire\n"
FUNCTION = "\n\ndef twice(x: Tensor) -> Tensor:\n    return x\n"


def port(text: str) -> PortFile:
    return PortFile("twice", Path("ports/twice.py"), text)


@pytest.mark.parametrize("op", GALLERY.ops())
def test_only_the_import_and_the_examples_change(op: str) -> None:
    text = GALLERY.files(op).port.read_text(encoding="utf-8")
    shared = [PurePosixPath(path.name) for path in shared_modules(GALLERY.files(op).port)]
    packaged = PortFile(op, GALLERY.files(op).port, text).packaged("kernels", [op], shared)
    changed = [line for line in difflib.ndiff(text.splitlines(), packaged.splitlines()) if line[0] in "+-"]
    assert sum("from .._port" in line for line in changed) == text.count("from trifold.port") >= 1
    assert all("import" in line or ">>>" in line for line in changed)
    assert f"kernels.{op}" in packaged
    assert "trifold" not in packaged


def test_examples_with_an_op_of_another_package_stay() -> None:
    text = HEAD + FUNCTION.replace("    return", '    """\n    >>> trifold.load("other")\n    """\n    return')
    assert '>>> trifold.load("other")' in port(text).packaged("kernels", ["twice"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + FUNCTION.replace("twice", "double"), "has no function named twice"),
        (HEAD + "import trifold\n" + FUNCTION, "ports/twice.py:4 imports trifold,"),
        (HEAD + "from trifold.spec import Call\n" + FUNCTION, "ports/twice.py:4 imports trifold.spec,"),
        (HEAD + "import trifold.port\n" + FUNCTION, "ports/twice.py:4 imports trifold.port,"),
        (HEAD + "def f():\n    import numpy\n" + FUNCTION, "ports/twice.py:5 imports numpy,"),
        (HEAD + "from . import other\n" + FUNCTION, "ports/twice.py:4 imports .other,"),
        (HEAD + "from .._shared import f\n" + FUNCTION, "ports/twice.py:4 imports .._shared,"),
        (HEAD + "from ports._shared import f\n" + FUNCTION, "ports/twice.py:4 imports ports._shared,"),
        (HEAD + "from trifold.port.none import f\n" + FUNCTION, "ports/twice.py:4 imports trifold.port.none,"),
        ("from torch import Tensor\n" + FUNCTION, "imports nothing from trifold.port"),
        (HEAD + "def twice(:\n", "ports/twice.py:4"),
    ],
)
def test_what_a_package_cannot_have_is_named_with_its_line(text: str, says: str) -> None:
    with pytest.raises(GraduationError) as raised:
        port(text).packaged("kernels", ["twice"])
    assert says in raised.value.problem


def test_modules_of_python_and_torch_are_allowed() -> None:
    text = HEAD + "import math\nimport torch.nn.functional as F\n" + FUNCTION
    assert "from .._port import Operators, wire" in port(text).packaged("kernels", ["twice"])


def test_the_stub_has_the_signature_and_the_imports_that_it_needs() -> None:
    files = GALLERY.files("normal_sample")
    stub = PortFile("normal_sample", files.port, files.port.read_text(encoding="utf-8")).stub()
    assert stub == (
        ("import torch", "from torch import Tensor"),
        "def normal_sample(mean: Tensor, std: Tensor, num_samples: int, *, shared_noise: bool=False, "
        "generator: torch.Generator | None=None) -> Tensor: ...",
    )


@pytest.mark.parametrize(
    ("more", "opts_in"),
    [
        ("op = wire(__name__, register)\n", False),
        ("op = wire(__name__, register, direct=True)\n", True),
        ("from trifold.port.reuse import is_last_use\nop = wire(__name__, register)\n", True),
    ],
)
def test_only_an_op_that_uses_torchs_internals_bounds_its_version(more: str, opts_in: bool) -> None:
    own = port(HEAD + FUNCTION + more)
    assert own.uses_internals() is opts_in
    required = Requirement(torch_requirement([port(HEAD + FUNCTION), own]))
    assert required.specifier.contains("2.11.0")
    assert required.specifier.contains("9.0") is not opts_in
