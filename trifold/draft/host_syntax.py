"""Statements of a launch function in terms of others: ``assert`` as a condition, ``else`` of a loop as one after it;
and what to write instead of those that it cannot have."""

from __future__ import annotations

import ast

from trifold.draft.host_jumps import jumps


def simplified(tree: ast.FunctionDef) -> ast.FunctionDef:
    """The function with the same effects, in which there is no ``assert``, and no loop has ``else``."""
    made: ast.FunctionDef = ast.fix_missing_locations(_Simplified(tree.name).visit(tree))
    return made


_REMEDIES: dict[type[ast.AST], str] = {
    ast.Try: "check before: if ...: raise RuntimeError(...)",
    ast.Delete: "leave it out",
    ast.AugAssign: "launch a kernel that changes the elements",
    ast.Match: "write if and elif",
    ast.Global: "pass the value as an argument",
    ast.ClassDef: "use numbers and tuples",
    ast.NamedExpr: "assign it before the statement",
    ast.Set: "write a tuple",
}


def statement_remedy(node: ast.AST) -> str:
    """What to write instead of a statement or expression that a launch function cannot have."""
    general = "compute with numbers and sizes here; let a kernel, or ports/*.py, compute with tensors"
    return _REMEDIES.get(type(node), general)


class _Simplified(ast.NodeTransformer):
    def __init__(self, function: str) -> None:
        self.function = function

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        message = node.msg or ast.Constant(f"{self.function}: {ast.unparse(node.test)} does not hold")
        error = ast.Call(ast.Name(RuntimeError.__name__, ast.Load()), [message], [])
        check = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Raise(error)], [])
        for each in (check, check.test, check.body[0], error, error.func):
            ast.copy_location(each, node)
        return check

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        return self._loop(node)

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        return self._loop(node)

    def _loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        self.generic_visit(node)
        otherwise, node.orelse = node.orelse, []
        if not otherwise or not any(isinstance(each, ast.Break) for each in jumps(node.body)):
            return [node, *otherwise]
        # No variable of Python has this name.
        flag = f"left_early.{node.lineno}"
        begin, left = (ast.Assign([ast.Name(flag, ast.Store())], ast.Constant(value)) for value in (False, True))
        node.body = [each for statement in node.body for each in _Marked(left).of(statement)]
        after = ast.If(ast.UnaryOp(ast.Not(), ast.Name(flag, ast.Load())), otherwise, [])
        return [ast.copy_location(begin, node), node, ast.copy_location(after, otherwise[0])]


class _Marked(ast.NodeTransformer):
    """Executes a statement before each ``break`` of this loop, which loops within it are not."""

    def __init__(self, mark: ast.stmt) -> None:
        self.mark = mark

    def of(self, statement: ast.stmt) -> list[ast.stmt]:
        made = self.visit(statement)
        return made if isinstance(made, list) else [made]

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        return [ast.copy_location(self.mark, node), node]

    def visit_For(self, node: ast.For) -> ast.For:
        return node

    def visit_While(self, node: ast.While) -> ast.While:
        return node
