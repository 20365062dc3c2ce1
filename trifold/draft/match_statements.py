"""``match`` as ``if`` and ``elif``: with constants, alternatives, a name that takes the value, and guards."""

from __future__ import annotations

import ast
import copy

_SINGLE = ast.Name | ast.Attribute | ast.Constant  # evaluated as often as there are cases


def without_match(tree: ast.FunctionDef) -> None:
    """Rewrite the function's ``match`` statements in place; those with other patterns stay, and are refused later."""
    if any(isinstance(node, ast.Match) for node in ast.walk(tree)):
        _Rewriting().visit(tree)
        ast.fix_missing_locations(tree)


class _Rewriting(ast.NodeTransformer):
    def visit_Match(self, node: ast.Match) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        subject, before = node.subject, list[ast.stmt]()
        if not isinstance(subject, _SINGLE):
            before = [ast.copy_location(ast.Assign([ast.Name("matched", ast.Store())], subject), node)]
            subject = ast.Name("matched", ast.Load())
        rest: list[ast.stmt] = []
        for case in reversed(node.cases):
            fits, taken = _fits(case.pattern, subject), _taken(case.pattern, subject)
            if fits is None or (taken and case.guard is not None):  # the guard reads what is assigned later
                return node
            tests = [*fits, *([] if case.guard is None else [case.guard])]
            if tests:
                both = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
                rest = [_at(ast.If(both, case.body, rest), case.pattern)]
            else:
                rest = [*taken, *case.body]
        return [*before, *rest]


def _fits(pattern: ast.pattern, subject: ast.expr) -> list[ast.expr] | None:
    """The condition under which a pattern fits, none if it always does; None: it is not one that is translated."""
    read = copy.copy(subject)
    vars(read).pop("lineno", None)
    match pattern:
        case ast.MatchValue(value=value):
            return [ast.Compare(read, [ast.Eq()], [value])]
        case ast.MatchSingleton(value=value):
            return [ast.Compare(read, [ast.Is()], [ast.Constant(value)])]
        case ast.MatchOr(patterns=patterns) if all(isinstance(each, ast.MatchValue) for each in patterns):
            values = [each.value for each in patterns if isinstance(each, ast.MatchValue)]
            return [ast.Compare(read, [ast.In()], [ast.Tuple(values, ast.Load())])]
        case ast.MatchAs(pattern=None):
            return []
    return None


def _taken(pattern: ast.pattern, subject: ast.expr) -> list[ast.stmt]:
    """The assignment of a pattern that is a name."""
    if isinstance(pattern, ast.MatchAs) and pattern.name is not None:
        return [ast.copy_location(ast.Assign([ast.Name(pattern.name, ast.Store())], subject), pattern)]
    return []


def _at(made: ast.If, pattern: ast.pattern) -> ast.If:
    """With the place of a pattern for what is new in the condition."""
    for each in ast.walk(made.test):
        if isinstance(each, ast.expr) and not hasattr(each, "lineno"):
            ast.copy_location(each, pattern)
    made.lineno, made.col_offset = pattern.lineno, pattern.col_offset
    last = (made.orelse or made.body)[-1]
    made.end_lineno, made.end_col_offset = last.end_lineno, last.end_col_offset
    return made
