"""The sources of a verdict: an op's five files, and all that they include or import from the workspace."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import pytest

from tests.wrong.entry import GALLERY, copy_of_gallery
from trifold.source_hashes import changed_sources, source_hashes
from trifold.workspace import Workspace

FIVE = {"prototypes/add.py", "cuda_src/add.cuh", "cuda_src/add.cu", "ports/add.py", "verify/add.py"}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return copy_of_gallery("add", tmp_path / "workspace")


def beyond(workspace: Workspace) -> set[str]:
    """The closure without the op's own five files."""
    names = source_hashes(workspace, workspace.files("add")).keys()
    assert names >= FIVE
    return names - FIVE


def write(workspace: Workspace, **texts: str) -> None:
    """Files by their paths; those of the op are appended to."""
    for name, text in texts.items():
        path = workspace.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if name in FIVE else "") + text)


@pytest.mark.parametrize("op", GALLERY.ops())
def test_ops_of_this_repository_rest_on_their_files_and_on_what_these_share(op: str) -> None:
    files = GALLERY.files(op)
    own = {str(path.relative_to(GALLERY.root)) for path in files}
    more = source_hashes(GALLERY, files).keys() - own
    library = {name for name in more if name.startswith("cuda_src/rows/")}
    assert bool(library) == (op in {"softmax", "layer_norm", "rms_norm", "cross_entropy"})
    norms = {f"{folder}/_norms.py" for folder in ("ports", "prototypes", "verify")}
    beside = {"topk": {"cuda_src/argmax.cuh"}, "layer_norm": norms, "rms_norm": norms}
    assert more - library == beside.get(op, set())


# What is written into the header or the binding of the op, and the file that it reaches.
CPP: list[tuple[str, str, str]] = [
    ("quoted", '#include "more.cuh"', "cuda_src/more.cuh"),
    ("in angle brackets", "#include <rows/more.cuh>", "cuda_src/rows/more.cuh"),
    ("of a hidden folder", '#include ".hidden/more.cuh"', "cuda_src/.hidden/more.cuh"),
    ("of the folder above", '#include "../include/more.cuh"', "include/more.cuh"),
    ("indented, with a comment before", '  /* why */ # include "more.cuh"', "cuda_src/more.cuh"),
    ("a comment between", '#include /* why\n*/ "more.cuh"', "cuda_src/more.cuh"),
    ("a comment that ends on the line", '/*\n*/ #include "more.cuh"', "cuda_src/more.cuh"),
    ("a joined line", '#include \\\n  "more.cuh"', "cuda_src/more.cuh"),
    ("a name on two lines", '#include "mo\\\nre.cuh"', "cuda_src/more.cuh"),
    ("in a branch that is not active", '#if 0\n#include "more.cuh"\n#endif', "cuda_src/more.cuh"),
    ("asked for", '#if __has_include("more.cuh")\n#endif', "cuda_src/more.cuh"),
    ("asked for in angle brackets", "#if __has_include(<more.cuh>)\n#endif", "cuda_src/more.cuh"),
    ("a macro", '#define MORE "more.cuh"\n#include MORE', "cuda_src/more.cuh"),
    ("a macro that quotes", "#define STR(x) #x\n#include STR(rows/more.cuh)", "cuda_src/rows/more.cuh"),
    ("without a suffix", '#include "more"', "cuda_src/more"),
    ("with a blank", '#include "more of it.cuh"', "cuda_src/more of it.cuh"),
    ("the digraph", '%:include "more.cuh"', "cuda_src/more.cuh"),
    ("Windows line ends", '#include "more.cuh"\r\n', "cuda_src/more.cuh"),
]


@pytest.mark.parametrize("source", ["cuda_src/add.cuh", "cuda_src/add.cu"])
@pytest.mark.parametrize(("text", "reached"), [row[1:] for row in CPP], ids=[row[0] for row in CPP])
def test_included(text: str, reached: str, source: str, workspace: Workspace) -> None:
    write(workspace, **{source: f"\n{text}\n"})
    assert beyond(workspace) == set()  # which is not there yet
    write(workspace, **{reached: "// more\n"})
    assert beyond(workspace) == {reached}


def test_includes_of_includes_are_looked_for_beside_them_and_beside_the_binding(workspace: Workspace) -> None:
    write(workspace, **{"cuda_src/add.cuh": '\n#include "rows/first.cuh"\n'})
    write(
        workspace, **{"cuda_src/rows/first.cuh": '#include "second.cuh"\n#include "third.cuh"\n#include "first.cuh"\n'}
    )
    write(workspace, **{"cuda_src/rows/second.cuh": "", "cuda_src/third.cuh": '#include "rows/first.cuh"\n'})
    assert beyond(workspace) == {"cuda_src/rows/first.cuh", "cuda_src/rows/second.cuh", "cuda_src/third.cuh"}


def test_a_file_in_the_place_of_one_of_the_toolkits_headers_counts(workspace: Workspace) -> None:
    write(workspace, **{"cuda_src/trifold/cuda.cuh": "", "cuda_src/cuda_fp16.h": "", "cuda_src/trifold/none.cuh": ""})
    assert beyond(workspace) == {"cuda_src/trifold/cuda.cuh", "cuda_src/cuda_fp16.h"}


def test_a_link_counts_by_what_it_leads_to(workspace: Workspace, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.cuh"
    elsewhere.write_text("")
    (workspace.root / "cuda_src" / "more.cuh").symlink_to(elsewhere)
    (workspace.root / "cuda_src" / "../outside.cuh").write_text("")
    write(
        workspace, **{"cuda_src/add.cuh": f'\n#include "more.cuh"\n#include "{elsewhere}"\n#include "../outside.cuh"\n'}
    )
    before = source_hashes(workspace, workspace.files("add"))
    assert before.keys() - FIVE == {"cuda_src/more.cuh", "outside.cuh"}
    elsewhere.write_text("// edited\n")
    assert changed_sources(before, source_hashes(workspace, workspace.files("add"))) == ["cuda_src/more.cuh"]


# What is appended to the prototype, the files that are there, and those of them that it reaches.
PYTHON: list[tuple[str, str, list[str], list[str]]] = [
    ("a module beside", "import more", ["prototypes/more.py"], []),
    ("a module of the root", "import more", ["more.py"], []),
    ("wherever it may be", "import more", ["more.py", "prototypes/more.py"], []),
    ("a package", "import tools", ["tools/__init__.py"], ["tools/other.py"]),
    ("a module of a package", "import tools.more", ["tools/__init__.py", "tools/more.py"], ["tools/other.py"]),
    ("without __init__", "import tools.more as m", ["tools/more.py"], []),
    ("deep", "from a.b.c import d", ["a/__init__.py", "a/b/c/__init__.py", "a/b/c/d.py"], ["a/b/d.py", "d.py"]),
    ("a function of a module", "from tools.more import f", ["tools/more.py"], []),
    ("a module from a package", "from tools import more, f", ["tools/more.py"], ["tools/other.py"]),
    ("everything", "from tools import *", ["tools/__init__.py", "tools/more.py"], ["tools/more.txt"]),
    ("another form of the op", "from ports.add import add", [], []),
    ("relative", "from . import more", ["prototypes/more.py"], ["more.py"]),
    ("relative, from a module", "from .more import f", ["prototypes/__init__.py", "prototypes/more.py"], []),
    ("relative, from above", "from ..tools import more", ["tools/__init__.py", "tools/more.py"], []),
    ("relative, from far above", f"from {'.' * 40} import more", [], ["more.py"]),
    ("in a function", "def f():\n    if f:\n        import more", ["more.py"], []),
    ("by name", 'import importlib\nimportlib.import_module("tools.more")', ["tools/more.py"], []),
    ("by name, as a function", '__import__("more")', ["more.py"], []),
    ("by a relative name", 'import_module(".more", "x")', ["prototypes/more.py"], ["more.py"]),
    ("a compiled module", "import more", [f"more{suffix}" for suffix in (".abi3.so", ".pyc")], []),
    ("not a string", 'text = "import more"', [], ["more.py"]),
    ("not in an environment", "import more", [], [".venv/more.py", "venv/lib/site-packages/more.py"]),
]


@pytest.mark.parametrize(("text", "reached", "others"), [row[1:] for row in PYTHON], ids=[row[0] for row in PYTHON])
def test_imported(text: str, reached: list[str], others: list[str], workspace: Workspace) -> None:
    write(workspace, **{"prototypes/add.py": f"\n{text}\n"} | dict.fromkeys([*reached, *others], ""))
    with pytest.MonkeyPatch.context() as patch:
        environments = [str(workspace.root / name) for name in (".venv", "venv/lib/site-packages")]
        patch.setattr(sys, "path", [*environments, *sys.path])
        assert beyond(workspace) == set(reached)


@pytest.mark.parametrize("source", ["ports/add.py", "verify/add.py"])
def test_imports_of_imports(source: str, workspace: Workspace) -> None:
    write(workspace, **{source: "\nfrom tools import first\n", "tools/__init__.py": "from . import names\n"})
    write(workspace, **{"tools/first.py": "from .second import f\n", "tools/names.py": "", "tools/none.py": ""})
    write(workspace, **{"tools/second.py": "import tools.first\nfrom . import names\n"})
    assert beyond(workspace) == {f"tools/{name}.py" for name in ("__init__", "first", "second", "names")}


def test_modules_of_the_current_folder_and_of_the_path(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    write(workspace, **{"verify/add.py": "\nimport here, there, outside\n", "src/there.py": "", "now/here.py": ""})
    (workspace.root.parent / "outside.py").write_text("")
    assert beyond(workspace) == set()
    monkeypatch.chdir(workspace.root / "now")
    monkeypatch.syspath_prepend(str(workspace.root / "src"))
    monkeypatch.syspath_prepend(str(workspace.root.parent))
    assert beyond(workspace) == {"src/there.py", "now/here.py"}


@pytest.mark.parametrize("content", [b"def f(:\n", b"\0", b"# coding: none\n", b"(" * 5000, b"\xff"])
def test_a_file_that_cannot_be_parsed_counts_by_its_own_hash(content: bytes, workspace: Workspace) -> None:
    write(workspace, **{"prototypes/add.py": "\nimport more\n"})
    (workspace.root / "more.py").write_bytes(b"import add\n" + content)
    before = source_hashes(workspace, workspace.files("add"))
    assert before.keys() - FIVE == {"more.py"} | ({"prototypes/add.py"} - FIVE)
    (workspace.root / "more.py").write_bytes(b"import add \n" + content)
    assert changed_sources(before, source_hashes(workspace, workspace.files("add"))) == ["more.py"]


def test_nothing_is_executed_and_nothing_is_said(workspace: Workspace, capfd: pytest.CaptureFixture[str]) -> None:
    write(workspace, **{"prototypes/add.py": "\nimport more\n", "more.py": "print('\\d')\nraise SystemExit\n"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert beyond(workspace) == {"more.py"}
    assert "".join(capfd.readouterr()) == ""


def test_what_changed_is_named(workspace: Workspace) -> None:
    write(workspace, **{"cuda_src/add.cuh": '\n#include "more.cuh"\n#include "late.cuh"\n', "cuda_src/more.cuh": ""})
    files = workspace.files("add")
    before = source_hashes(workspace, files)
    assert changed_sources(before, source_hashes(workspace, files)) == []
    write(workspace, **{"cuda_src/late.cuh": ""})
    (workspace.root / "cuda_src" / "more.cuh").unlink()
    os.truncate(files.spec, 0)
    after = source_hashes(workspace, files)
    changed = ["cuda_src/late.cuh", "cuda_src/more.cuh", "verify/add.py"]
    assert changed_sources(before, after) == changed_sources(after, before) == changed
