"""``ports/<op>.py`` in a graduated package: as it was verified, but for where it has trifold.port, and its examples."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from trifold.errors import GraduationError
from trifold.graduate.vendor import IN_PORTS, vendored

_PORT = "trifold.port"
_EXAMPLE = re.compile(r"^\s*(>>>|\.\.\.) ")
_LOAD = re.compile(r"\btrifold\.load\(\s*([\"'])(\w+)\1\s*\)")
_IMPORT_TRIFOLD = re.compile(r"\bimport\b.*\btrifold\b")


@dataclass(frozen=True)
class PortFile:
    """A port's Python file.

    Attributes:
        op: its name.
        shown: where the user has it, for messages.
        text: as verified.
    """

    op: str
    shown: Path
    text: str

    def packaged(self, package: str, ops: Collection[str]) -> str:
        """The text for the module ``<package>.ports.<op>``; ``ops`` are all of the package.

        Raises:
            GraduationError: it imports what the package will not have, or has no function of the op's name.
        """
        self.function()
        self._require_imports()

        def loaded(match: re.Match[str]) -> str:
            return f"{package}.{match[2]}" if match[2] in ops else match[0]

        def example(line: str) -> str:
            if not _EXAMPLE.match(line):
                return line
            line = _LOAD.sub(loaded, line)
            return re.sub(r"\btrifold\b", package, line) if _IMPORT_TRIFOLD.search(line) else line

        return "\n".join(map(example, vendored(self.text, IN_PORTS).split("\n")))

    def function(self) -> ast.FunctionDef:
        """The op's public function. Raises ``GraduationError`` where there is none."""
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
        for node in self._imports():
            bound = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            if bound & names:
                imports.append(ast.unparse(node))
        return tuple(imports), signature

    def uses_internals(self) -> bool:
        """Whether the op opts in to torch's internals: ``wire(..., direct=True)``, or :mod:`trifold.port.reuse`."""
        calls = [node for node in ast.walk(self._tree()) if isinstance(node, ast.Call)]
        keywords = [keyword for call in calls if ast.unparse(call.func) == "wire" for keyword in call.keywords]
        modules = [node.module for node in self._imports() if isinstance(node, ast.ImportFrom)]
        return any(keyword.arg == "direct" for keyword in keywords) or f"{_PORT}.reuse" in modules

    def _imports(self) -> list[ast.Import | ast.ImportFrom]:
        return [node for node in ast.walk(self._tree()) if isinstance(node, ast.Import | ast.ImportFrom)]

    def _require_imports(self) -> None:
        of_port = 0
        for node in self._imports():
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or "."]
            for module in modules:
                if module in IN_PORTS and isinstance(node, ast.ImportFrom):
                    of_port += module == _PORT
                elif module.partition(".")[0] not in {"torch", *sys.stdlib_module_names}:
                    raise GraduationError(
                        f"{self.shown}:{node.lineno} imports {module}, which a graduated package does not have",
                        "a port imports torch, Python's standard library, and from trifold.port what it needs",
                    )
        if of_port == 0:
            raise GraduationError(
                f"{self.shown} imports nothing from trifold.port", "write: from trifold.port import Operators, wire"
            )

    def _tree(self) -> ast.Module:
        try:
            return ast.parse(self.text, str(self.shown))
        except SyntaxError as error:
            raise GraduationError(f"{self.shown}:{error.lineno}: {error.msg}", "correct it") from None
