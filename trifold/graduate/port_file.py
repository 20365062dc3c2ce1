"""Python files of a workspace's ``ports/`` in a graduated package: as verified, except for the import of trifold.port
and for their examples."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trifold.errors import GraduationError
from trifold.graduate.vendor import OF_PORT, in_ports, vendored

_PORT = "trifold.port"
_EXAMPLE = re.compile(r"^\s*(>>>|\.\.\.) ")
_LOAD = re.compile(r"\btrifold\.load\(\s*([\"'])(\w+)\1\s*\)")
_IMPORT_TRIFOLD = re.compile(r"\bimport\b.*\btrifold\b")


@dataclass(frozen=True)
class SharedFile:
    """A Python file shared by ports, which import it with a leading dot.

    Attributes:
        shown: its path as shown to the user.
        text: as verified.
        place: its path below ``ports``, in the workspace and in the package: ``_norms.py``.
    """

    shown: Path
    text: str
    place: PurePosixPath

    def packaged(self, shared: Collection[PurePosixPath]) -> str:
        """The text for the package; ``shared`` are the places of all such files.

        Raises:
            GraduationError: its name could be an op's, or it imports a module that the package lacks.
        """
        if not self.place.parts[0].startswith("_"):
            raise GraduationError(
                f"a port imports {self.shown}, whose name is an op's",
                f"rename it to _{self.place.parts[0]}: names of shared modules begin with an underscore",
            )
        _imports_of_port(self._tree(), self.shown, self.place, shared)
        return vendored(self.text, in_ports(len(self.place.parts) - 1))

    def uses_internals(self) -> bool:
        """Whether it imports :mod:`trifold.port.reuse`, which uses torch's internals."""
        return f"{_PORT}.reuse" in _modules(self._tree())

    def _tree(self) -> ast.Module:
        return _parsed(self.text, self.shown)


@dataclass(frozen=True)
class PortFile:
    """A port's Python file.

    Attributes:
        op: its name.
        shown: its path as shown to the user.
        text: as verified.
    """

    op: str
    shown: Path
    text: str

    def packaged(self, package: str, ops: Collection[str], shared: Collection[PurePosixPath] = ()) -> str:
        """The text for the module ``<package>.ports.<op>``.

        Args:
            package, ops: its name, and all ops of it.
            shared: the places of the package's shared files.

        Raises:
            GraduationError: it imports a module that the package lacks, or has no function of the op's name.
        """
        self.function()
        if _PORT not in _imports_of_port(self._tree(), self.shown, PurePosixPath(f"{self.op}.py"), shared):
            raise GraduationError(
                f"{self.shown} imports nothing from trifold.port", "write: from trifold.port import Operators, wire"
            )

        def loaded(match: re.Match[str]) -> str:
            return f"{package}.{match[2]}" if match[2] in ops else match[0]

        def example(line: str) -> str:
            if not _EXAMPLE.match(line):
                return line
            line = _LOAD.sub(loaded, line)
            return re.sub(r"\btrifold\b", package, line) if _IMPORT_TRIFOLD.search(line) else line

        return "\n".join(map(example, vendored(self.text, in_ports()).split("\n")))

    def function(self) -> ast.FunctionDef:
        """The op's public function. Raises ``GraduationError`` if there is none."""
        for node in self._tree().body:
            if isinstance(node, ast.FunctionDef) and node.name == self.op:
                return node
        raise GraduationError(
            f"{self.shown} has no function named {self.op}", "its public function has the name of the file"
        )

    def stub(self) -> tuple[tuple[str, ...], str]:
        """Imports and signature of the public function, for a ``.pyi``."""
        function = self.function()
        returns = "" if function.returns is None else f" -> {ast.unparse(function.returns)}"
        signature = f"def {function.name}({ast.unparse(function.args)}){returns}: ..."
        function.body = []
        names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        imports = []
        for node in _imports(self._tree()):
            bound = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            if bound & names:
                if isinstance(node, ast.ImportFrom) and node.level:  # the stub is in the parent folder
                    node.module = f"ports.{node.module}"
                imports.append(ast.unparse(node))
        return tuple(imports), signature

    def uses_internals(self) -> bool:
        """Whether the op opts in to torch's internals: ``wire(..., direct=True)``, or :mod:`trifold.port.reuse`."""
        calls = [node for node in ast.walk(self._tree()) if isinstance(node, ast.Call)]
        keywords = [keyword for call in calls if ast.unparse(call.func) == "wire" for keyword in call.keywords]
        return any(keyword.arg == "direct" for keyword in keywords) or f"{_PORT}.reuse" in _modules(self._tree())

    def _tree(self) -> ast.Module:
        return _parsed(self.text, self.shown)


def _imports(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def _modules(tree: ast.Module) -> set[str | None]:
    """The modules from which names are imported."""
    return {node.module for node in _imports(tree) if isinstance(node, ast.ImportFrom)}


def _imports_of_port(
    tree: ast.Module, shown: Path, place: PurePosixPath, shared: Collection[PurePosixPath]
) -> set[str]:
    """The modules of trifold.port imported by the file at ``place`` below ``ports``.

    Raises:
        GraduationError: it imports a module that a graduated package lacks.
    """
    found = set()
    for node in _imports(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif 1 <= node.level <= len(place.parts):
            folder = place.parents[node.level - 1]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            modules = ["." * node.level + name for name in names if _no_module(folder, name, shared)]
        else:
            modules = ["." * node.level + (node.module or "")]
        for module in modules:
            if module in OF_PORT and isinstance(node, ast.ImportFrom):
                found.add(module)
            elif module.partition(".")[0] not in {"torch", *sys.stdlib_module_names}:
                raise GraduationError(
                    f"{shown}:{node.lineno} imports {module}, which a graduated package does not have",
                    "a port imports torch, Python's standard library, from trifold.port what it needs, and modules "
                    "beside it by: from ._name import ...",
                )
    return found


def _no_module(folder: PurePosixPath, name: str, shared: Collection[PurePosixPath]) -> bool:
    path = folder.joinpath(*name.split("."))
    return path.with_name(f"{path.name}.py") not in shared and path / "__init__.py" not in shared


def _parsed(text: str, shown: Path) -> ast.Module:
    try:
        return ast.parse(text, str(shown))
    except SyntaxError as error:
        raise GraduationError(f"{shown}:{error.lineno}: {error.msg}", "correct it") from None
