"""The numbers in an op's own sources: a branch for one size compares with a number that stands there.

A number is an integer literal, or an expression of literals and of names that stand for one number in all of the op's
sources, such as ``3 * WIDTH + 1``.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from trifold.build.cpp_text import without_comments
from trifold.build.cuda_source import parse, walk
from trifold.cells import ImplementationKind
from trifold.source_hashes import source_hashes
from trifold.workspace import OpFiles, Workspace

_LEAST = 5  # smaller sizes are drawn often
_MOST = 1 << 20
_DEEPEST = 16  # names that stand for names
_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda a, b: a // b if b else 0,
    ast.LShift: lambda a, b: a << min(b, 64),
}
_INTEGER = re.compile(r"(?<![\w.'])(0[xX][\da-fA-F']+|\d[\d']*)[uUlL]*(?![\w.'])")
_EQUAL = (ast.Eq, ast.NotEq)


@dataclass
class _Numbers:
    """The expressions of some sources.

    Attributes:
        compared: those that are compared for equality.
        others: all others.
        names: what is assigned to each name.
    """

    compared: list[ast.expr] = field(default_factory=list)
    others: list[ast.expr] = field(default_factory=list)
    names: dict[str, list[ast.expr]] = field(default_factory=dict)

    def add(self, tree: ast.AST) -> None:
        """All expressions in a Python tree, with its assignments to names."""
        for node in ast.walk(tree):
            match node:
                case ast.Compare(left=left, ops=ops, comparators=right) if any(isinstance(op, _EQUAL) for op in ops):
                    self.compared += [left, *right]
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.names.setdefault(name, []).append(value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.names.setdefault(name, []).append(value)
            if isinstance(node, ast.expr):
                self.others.append(node)

    def values(self) -> tuple[set[int], set[int]]:
        """The integers that are compared for equality, and all integers."""
        known = self._known()
        return _integers(self.compared, known), _integers(self.others, known)

    def _known(self) -> Mapping[str, int]:
        """The names that stand for one number."""
        known: dict[str, int] = {}
        for _ in range(_DEEPEST):
            before = len(known)
            for name, assigned in self.names.items():
                found = {_value(one, known) for one in assigned}
                if len(found) == 1 and (number := found.pop()) is not None:
                    known[name] = number
            if len(known) == before:
                break
        return known


def numbers_in(workspace: Workspace, files: OpFiles, kind: ImplementationKind) -> tuple[int, ...]:
    """The integers from 5 to 2^20 in the sources of a prototype, or of a port with its binding, and in what these
    import or include from the workspace: first those that are compared for equality, then those that are no powers of
    two, the smallest first. Headers of trifold and the spec do not count.
    """
    folders = {files.prototype.parent} if kind == "prototype" else {files.port.parent, files.binding.parent}
    numbers = _Numbers()
    for name in source_hashes(workspace, files):
        path = workspace.root / name
        if any(path.is_relative_to(folder) for folder in folders):
            text = path.read_text(encoding="utf-8", errors="replace")
            (_read_python if path.suffix == ".py" else _read_cpp)(text, numbers)
    compared, found = ({n for n in some if _LEAST <= n <= _MOST} for some in numbers.values())
    return tuple(sorted(found, key=lambda n: (n not in compared, n & (n - 1) == 0, n)))


def _read_python(text: str, numbers: _Numbers) -> None:
    """
    >>> numbers = _Numbers()
    >>> _read_python("WIDTH = 256; x = 3 * WIDTH + 1 if n == 1 << 10 else 7.5", numbers)
    >>> [sorted(some) for some in numbers.values()]
    [[1024], [1, 3, 10, 256, 768, 769, 1024]]
    """
    try:
        numbers.add(ast.parse(text))
    except SyntaxError:
        return


def _read_cpp(text: str, numbers: _Numbers) -> None:
    """
    >>> numbers = _Numbers()
    >>> _read_cpp("constexpr int kWidth = 0x100; if (n == 3 * kWidth || n > 1'000u) return 1.5f * x8; // 77", numbers)
    >>> [sorted(some) for some in numbers.values()]
    [[768], [3, 256, 768, 1000]]
    """
    content = without_comments(text).encode()
    for node in walk(parse(content)):
        match node.type:
            case "binary_expression" | "number_literal":
                expression = _as_python(content[node.start_byte : node.end_byte])
                if expression is not None:
                    numbers.add(expression)
            case "init_declarator" | "preproc_def" | "enumerator" | "optional_parameter_declaration":
                name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
                value = node.child_by_field_name("value") or node.child_by_field_name("default_value")
                if name is not None and value is not None:
                    expression = _as_python(content[value.start_byte : value.end_byte])
                    if expression is not None:
                        word = content[name.start_byte : name.end_byte].decode(errors="replace")
                        numbers.names.setdefault(word, []).append(expression)


def _as_python(content: bytes) -> ast.expr | None:
    """An expression of C++ that is one of Python as well, but for the spelling of numbers, names and the quotient."""
    text = _INTEGER.sub(lambda match: match[1].replace("'", ""), content.decode(errors="replace"))
    try:
        return ast.parse(text.strip().replace("::", ".").replace("/", "//"), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _integers(expressions: Iterable[ast.expr], known: Mapping[str, int]) -> set[int]:
    return {value for one in expressions if (value := _value(one, known)) is not None}


def _value(node: ast.AST, known: Mapping[str, int]) -> int | None:
    """The integer that a constant expression is."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return known.get(name)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            a, b = _value(left, known), _value(right, known)
            if a is not None and b is not None and b >= 0 and abs(a) <= _MOST:
                return _OPERATIONS[type(op)](a, b)
    return None
