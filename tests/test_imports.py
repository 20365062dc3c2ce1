"""No part of trifold, a package or module right below it, imports in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "trifold"


@dataclass(frozen=True, order=True)
class Import:
    """A line of the part ``importer`` that imports something of the part ``imported``."""

    importer: str
    imported: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer} imports {self.imported}: {self.file}:{self.line}"


def imports_of(package: Path) -> set[Import]:
    """Those between parts, also in functions and for type checkers alone. The package's own ``__init__`` is a part of
    the package's name."""
    parts = {
        path.stem for path in package.iterdir() if path.suffix in (".py", ".pyi") or (path / "__init__.py").exists()
    }
    found = set()
    for path in (*package.rglob("*.py"), *package.rglob("*.pyi")):
        inside = path.relative_to(package)
        importer = package.name if inside.name == "__init__.py" and len(inside.parts) == 1 else inside.parts[0]
        importer = importer.removesuffix(path.suffix)
        for line, name in _names(ast.parse(path.read_text(encoding="utf-8")), [package.name, *inside.parts[:-1]]):
            top, *below = name.split(".")
            if top != package.name:
                continue
            imported = below[0] if below and below[0] in parts else package.name
            if imported != importer:
                found.add(Import(importer, imported, str(path.relative_to(package.parent)), line))
    return found


def _names(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, str]]:
    """The line and the full name of each import, in a module of ``package``."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom():
                start = package[: len(package) + 1 - node.level] if node.level else []
                module = [*start, *([node.module] if node.module else [])]
                yield from ((node.lineno, ".".join([*module, alias.name])) for alias in node.names)
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
                yield node.lineno, name


def in_circles(imports: set[Import]) -> list[Import]:
    """Those from whose imported part others lead back to the importer."""
    direct: dict[str, set[str]] = {}
    for each in imports:
        direct.setdefault(each.importer, set()).add(each.imported)

    def reached(start: str) -> set[str]:
        seen, waiting = set[str](), [start]
        while waiting:
            part = waiting.pop()
            waiting += direct.get(part, set()) - seen
            seen |= direct.get(part, set())
        return seen

    beyond = {part: reached(part) for part in direct}
    return sorted(each for each in imports if each.importer in beyond.get(each.imported, ()))


def test_no_part_of_trifold_imports_in_a_circle() -> None:
    imports = imports_of(PACKAGE)
    assert {("cli", "verification"), ("simulator", "_simulator"), ("trifold", "implementation")} <= {
        (each.importer, each.imported) for each in imports
    }
    circles = in_circles(imports)
    assert not circles, "\n".join(map(str, circles))


@pytest.mark.parametrize(
    "text",
    [
        "from thing.first import x",
        "import thing.first.inner",
        "from thing import first",
        "from ..first import x",
        "from .. import first",
        "def f():\n    from thing.first import x",
        "if TYPE_CHECKING:\n    from thing.first import x",
        "import_module = importlib.import_module('thing.first')",
    ],
)
def test_a_circle_is_found_with_its_lines(text: str, tmp_path: Path) -> None:
    files = {
        "first/__init__.py": "",
        "first/inner.py": "import os\nfrom thing.second import y\nfrom thing.last import z\n",
        "second.py": "from thing.third.inner import y\n",
        "third/__init__.py": "",
        "third/inner.py": f"{text}\n",
        "last.py": "",
        "__init__.py": "from thing.first.inner import x\n",
    }
    for name, content in files.items():
        (tmp_path / "thing" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "thing" / name).write_text(content, encoding="utf-8")
    found = in_circles(imports_of(tmp_path / "thing"))
    assert [str(each) for each in found] == [
        "first imports second: thing/first/inner.py:2",
        "second imports third: thing/second.py:1",
        f"third imports first: thing/third/inner.py:{len(text.splitlines())}",
    ]
