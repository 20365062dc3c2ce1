"""The numbers in an op's own sources: a branch for one size compares with a number that stands there."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator

from trifold.build.cpp_text import without_comments
from trifold.cells import ImplementationKind
from trifold.source_hashes import source_hashes
from trifold.workspace import OpFiles, Workspace

_LEAST = 5  # smaller sizes are drawn often
_MOST = 1 << 20
_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: lambda a, b: a << min(b, 64),
}
_INTEGER = re.compile(r"(?<![\w.'])(0[xX][\da-fA-F']+|\d[\d']*)[uUlL]*(?![\w.'])(?:\s*<<\s*(\d+))?")


def numbers_in(workspace: Workspace, files: OpFiles, kind: ImplementationKind) -> tuple[int, ...]:
    """The integers from 5 to 2^20 in the sources of a prototype, or of a port with its binding, and in what these
    import or include from the workspace: first those that are no powers of two, the smallest first.

    Python's are those of constant expressions, such as ``3 * 256``; of C++, literals and ``1 << 14``. Headers of
    trifold and the spec do not count.
    """
    folders = {files.prototype.parent} if kind == "prototype" else {files.port.parent, files.binding.parent}
    found: set[int] = set()
    for name in source_hashes(workspace, files):
        path = workspace.root / name
        if any(path.is_relative_to(folder) for folder in folders):
            text = path.read_text(encoding="utf-8", errors="replace")
            found |= set(_in_python(text) if path.suffix == ".py" else _in_cpp(text))
    return tuple(sorted((n for n in found if _LEAST <= n <= _MOST), key=lambda n: (n & (n - 1) == 0, n)))


def _in_python(text: str) -> Iterator[int]:
    """
    >>> sorted(_in_python("x = 3 * 256 + 1 if n > 1 << 10 else 7.5"))
    [1, 1, 3, 10, 256, 768, 769, 1024]
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        value = _value(node)
        if value is not None:
            yield value


def _value(node: ast.AST) -> int | None:
    """The integer that a constant expression is."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            a, b = _value(left), _value(right)
            if a is not None and b is not None and b >= 0 and abs(a) <= _MOST:
                return _OPERATIONS[type(op)](a, b)
    return None


def _in_cpp(text: str) -> Iterator[int]:
    """
    >>> sorted(_in_cpp("if (n == 1'000u || n > 0x300) return 1.5f * x8; // 77"))
    [768, 1000]
    """
    for digits, shift in _INTEGER.findall(without_comments(text)):
        number = int(digits.replace("'", ""), 0 if digits[:2] in ("0x", "0X") else 10)
        yield number << min(int(shift), 64) if shift else number
