"""From Python's syntax tree to the typed tree: names are resolved, and variables get their versions."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numba import cuda

from trifold.draft import oracle
from trifold.draft import tree as t
from trifold.draft.refusal import DraftError, Place
from trifold.draft.source import Source

BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
COMPARE = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
METHODS = {"conjugate": oracle.conjugate, "sync": oracle.sync}
INDEX_STUBS = (cuda.threadIdx, cuda.blockIdx, cuda.blockDim, cuda.gridDim)

Names = dict[str, t.Version]


class Builder:
    """Builds one function. ``names`` is None where control does not arrive."""

    def __init__(self, source: Source, is_kernel: bool) -> None:
        self.source = source
        self.local = {*source.parameters, *t.assigned_names(source.tree.body)}
        self.versions: list[t.Version] = []
        self.returns: list[t.Return] = []
        self.names: Names | None = {}
        self.dtypes: dict[str, t.Expr] = {}  # what `x.dtype.type` is called: x
        self.leaving: list[tuple[list[Names], list[Names]]] = []  # of each loop around: at break, at continue
        parameters = []
        for number, name in enumerate(source.parameters):
            version = self._version(name, source.place(source.tree))
            version.parameter = number
            parameters.append(version)
        body = self._block(source.body)
        self.function = t.Function(source, is_kernel, parameters, body, self.versions, self.returns)
        _mark_reads(body)

    # --------------------------------------------------------------------------------------------- variables

    def _version(self, name: str, place: Place) -> t.Version:
        version = t.Version(name, sum(other.name == name for other in self.versions), place)
        self.versions.append(version)
        if self.names is not None:
            self.names[name] = version
        return version

    def _join(self, arriving: list[Names | None], place: Place, at: t.Stmt) -> None:
        """Control arrives here from several places."""
        states = [state for state in arriving if state is not None]
        if len(states) < 2:
            self.names = dict(states[0]) if states else None
            return
        self.names = dict(states[0])
        for name in sorted({name for state in states for name in state}):
            found = list(dict.fromkeys(state[name] for state in states if name in state))
            if len(found) == 1 and all(name in state for state in states):
                self.names[name] = found[0]
            else:
                self._joined(name, found, place, at)

    def _joined(self, name: str, sources: list[t.Version], place: Place, at: t.Stmt) -> t.Version:
        version = self._version(name, place)
        version.is_join, version.sources, version.joined_at = True, list(sources), at
        return version

    # --------------------------------------------------------------------------------------------- statements

    def _block(self, statements: list[ast.stmt]) -> list[t.Stmt]:
        built: list[t.Stmt] = []
        for statement in statements:
            if self.names is None:
                break  # never reached
            built += self._statement(statement)
        return built

    def _statement(self, node: ast.stmt) -> list[t.Stmt]:
        place, last = self.source.place(node), node.end_lineno or node.lineno
        match node:
            case ast.Assign(targets=targets, value=value):
                if len(targets) > 1:
                    return self._assign_all(targets, value, place, last)
                return self._assign(targets[0], value, place, last)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self._assign(target, value, place, last)
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value):
                old = self._expression(ast.copy_location(ast.Name(target.id, ast.Load()), target))
                combined = t.Binary(place, BINARY[type(op)], old, self._expression(value), in_place=True)
                return [self._let(target.id, combined, place, last)]
            case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value):
                base, indices = self._expression(target.value), self._indices(target.slice)
                return [t.Store(place, last, base, indices, self._expression(value), BINARY[type(op)])]
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return []
            case ast.Expr(value=value):
                return [t.Evaluate(place, last, self._expression(value))]
            case ast.If():
                return self._if(node, place)
            case ast.While():
                return self._while(node, place)
            case ast.For():
                return self._for(node, place)
            case ast.Return(value=value):
                nothing = value is None or (isinstance(value, ast.Constant) and value.value is None)
                returned = t.Return(place, last, None if nothing else self._expression(value))  # type: ignore[arg-type]
                self.returns.append(returned)
                self.names = None
                return [returned]
            case ast.Break() | ast.Continue():
                stops = isinstance(node, ast.Break)
                self.leaving[-1][0 if stops else 1].append(dict(self.names or {}))
                self.names = None
                return [t.Break(place, last) if stops else t.Continue(place, last)]
        raise DraftError(place, f"{_words(node)} is not translated")

    def _let(self, name: str, value: t.Expr, place: Place, last: int) -> t.Let:
        version = self._version(name, place)
        version.value = value
        return t.Let(place, last, version, value)

    def _assign(self, target: ast.expr, value: ast.expr, place: Place, last: int) -> list[t.Stmt]:
        match target, value:
            case ast.Name(id=name), ast.Attribute(attr="type", value=ast.Attribute(attr="dtype", value=array)):
                self.dtypes[name] = self._expression(array)
                return []
        match target:
            case ast.Name(id=name):
                return [self._let(name, self._expression(value), place, last)]
            case ast.Subscript(value=base, slice=index):
                built = self._expression(value)
                return [t.Store(place, last, self._expression(base), self._indices(index), built)]
            case ast.Tuple(elts=elements) if all(isinstance(each, ast.Name) for each in elements):
                built, versions = self._expression(value), []
                for part, each in enumerate(elements):
                    assert isinstance(each, ast.Name)
                    version = self._version(each.id, place)
                    if isinstance(built, t.TupleOf) and part < len(built.elements):
                        version.value = built.elements[part]
                    else:
                        version.value, version.part = built, part
                    versions.append(version)
                return [t.Unpack(place, last, versions, built)]
            case ast.Tuple(elts=elements) if all(isinstance(each, (ast.Name, ast.Subscript)) for each in elements):
                return self._assign_parts(elements, value, place, last)
        raise DraftError(place, "this assignment is not translated", "assign to one variable or element at a time")

    def _assign_all(self, targets: list[ast.expr], value: ast.expr, place: Place, last: int) -> list[t.Stmt]:
        """``a = b = value``: the value is computed once."""
        if _folded(value) is not None:
            return [each for target in targets for each in self._assign(target, value, place, last)]
        first, *others = targets
        if not isinstance(first, ast.Name):
            first, others = self._new_name("value", first), targets
        built: list[t.Stmt] = [self._let(first.id, self._expression(value), place, last)]
        again = ast.copy_location(ast.Name(first.id, ast.Load()), first)
        for target in others:
            built += self._assign(target, again, place, last)
        return built

    def _new_name(self, wanted: str, at: ast.expr) -> ast.Name:
        """A variable that the kernel's text does not have."""
        name = wanted
        while name in self.local:
            name += "_"
        self.local.add(name)
        return ast.copy_location(ast.Name(name, ast.Load()), at)

    def _assign_parts(self, targets: list[ast.expr], value: ast.expr, place: Place, last: int) -> list[t.Stmt]:
        """``a[i], b = ...``: all values are computed, then assigned from left to right."""
        names: list[ast.expr] = [self._new_name(f"new{number}", target) for number, target in enumerate(targets)]
        whole = ast.copy_location(ast.Tuple(names, ast.Store()), targets[0])
        built = self._assign(whole, value, place, last)
        for target, own in zip(targets, names, strict=True):
            built += self._assign(target, own, place, last)
        return built

    def _if(self, node: ast.If, place: Place) -> list[t.Stmt]:
        test = self._expression(node.test)
        known = _truth(test)
        if known is not None:  # as in Numba, the other branch is not even typed
            return self._block(node.body if known else node.orelse)
        built = t.If(place, node.test.end_lineno or node.lineno, test, [], [])
        before = dict(self.names or {})
        built.body = self._block(node.body)
        after, self.names = self.names, before
        built.otherwise = self._block(node.orelse)
        self._join([after, self.names], place, built)
        return [built]

    def _while(self, node: ast.While, place: Place) -> list[t.Stmt]:
        heads = self._heads(t.assigned_names(node.body), place)
        test = self._expression(node.test)
        built = t.While(place, node.test.end_lineno or node.lineno, test, [], [])
        forever = _truth(test) is True
        self._loop(built, heads, node.body, node.orelse, place, ends=not forever)
        return [built]

    def _for(self, node: ast.For, place: Place) -> list[t.Stmt]:
        if not isinstance(node.target, ast.Name):
            raise DraftError(place, "a loop over several variables is not translated", "index the arrays in the loop")
        last = node.iter.end_lineno or node.lineno
        built: t.ForRange | t.ForTuple
        values = self._expression(node.iter)
        if isinstance(values, t.Call) and values.function is range:
            built = t.ForRange(place, last, values.arguments, [], [])
        else:
            built = t.ForTuple(place, last, values, [], [])
        heads = self._heads(t.assigned_names([node]), place)
        before = dict(self.names or {})
        version = self._version(node.target.id, place)
        if isinstance(built, t.ForRange):
            version.counts = built
        else:
            version.runs_over = built
        built.version = version
        self._loop(built, heads, node.body, node.orelse, place, ends=True, after=before)
        return [built]

    def _heads(self, assigned: set[str], place: Place) -> list[t.Version]:
        """Before a loop: what its body assigns also arrives from the body's end."""
        assert self.names is not None
        heads = []
        for name in sorted(assigned):
            version = t.Version(name, sum(other.name == name for other in self.versions), place)
            version.is_join = True
            version.sources = [self.names[name]] if name in self.names else []
            self.versions.append(version)
            self.names[name] = version
            heads.append(version)
        return heads

    def _loop(
        self,
        built: t.While | t.ForRange | t.ForTuple,
        heads: list[t.Version],
        body: list[ast.stmt],
        otherwise: list[ast.stmt],
        place: Place,
        *,
        ends: bool,
        after: Names | None = None,
    ) -> None:
        exit_names = after if after is not None else dict(self.names or {})
        self.leaving.append(([], []))
        built.body = self._block(body)
        breaks, continues = self.leaving.pop()
        for arriving in (self.names, *continues):
            for head in heads:
                if arriving is not None and head.name in arriving and arriving[head.name] is not head:
                    head.sources.append(arriving[head.name])
        for head in heads:
            head.joined_at = built
        self.names = dict(exit_names) if ends else None
        if ends and otherwise:
            built.otherwise = self._block(otherwise)
        self._join([self.names, *breaks], place, built)

    # --------------------------------------------------------------------------------------------- expressions

    def _indices(self, node: ast.expr) -> list[t.Expr]:
        elements = node.elts if isinstance(node, ast.Tuple) else [node]
        return [self._index(element) for element in elements]

    def _index(self, node: ast.expr) -> t.Expr:
        if not isinstance(node, ast.Slice):
            return self._expression(node)
        place = self.source.place(node)
        step = self._expression(node.step) if node.step is not None else t.Constant(place, 1)
        if not isinstance(step, t.Constant) or not isinstance(step.value, int) or step.value < 1:
            raise DraftError(
                place, "a slice whose step is no positive constant is not translated", "multiply the index by the step"
            )
        start, stop = (None if end is None else self._expression(end) for end in (node.lower, node.upper))
        return t.Slice(place, start, stop, step.value)

    def _expression(self, node: ast.expr) -> t.Expr:
        place = self.source.place(node)
        folded = _folded(node)
        if folded is not None:
            return t.Constant(place, folded, None, self.source.text(node))
        match node:
            case ast.Name(id=name) if name in self.local:
                if self.names is None or name not in self.names:
                    raise DraftError(place, f"{name} has no value here", "assign it before")
                return t.Read(place, self.names[name])
            case ast.Name():
                return self._known(self.source.value_of(node), node.id, place)
            case ast.Attribute(value=base, attr=attribute):
                return self._attribute(self._expression(base), attribute, place)
            case ast.UnaryOp(op=op, operand=operand):
                return t.Unary(place, UNARY[type(op)], self._expression(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                return t.Binary(place, BINARY[type(op)], self._expression(left), self._expression(right))
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in COMPARE for op in ops):
                operands = [self._expression(each) for each in (left, *others)]
                return t.Compare(place, [COMPARE[type(op)] for op in ops], operands)
            case ast.BoolOp(op=op, values=values):
                return t.Logical(place, isinstance(op, ast.And), [self._expression(value) for value in values])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return t.Choice(place, *(self._expression(each) for each in (test, body, orelse)))
            case ast.Call(func=function, args=arguments, keywords=keywords):
                return self._call(function, arguments, keywords, place)
            case ast.Subscript(value=base, slice=index):
                return t.Item(place, self._expression(base), self._indices(index))
            case ast.Tuple(elts=elements):
                return t.TupleOf(place, [self._expression(element) for element in elements])
        raise DraftError(place, f"{_words(node)} is not translated")

    def _call(self, function: ast.expr, arguments: list[ast.expr], keywords: list[ast.keyword], place: Place) -> t.Expr:
        if any(isinstance(each, ast.Starred) for each in arguments) or any(k.arg is None for k in keywords):
            raise DraftError(place, "a call with * or ** is not translated", "write the arguments out")
        array = self._array_of_dtype(function)
        if array is not None and len(arguments) == 1:
            return t.Call(place, oracle.of_dtype_of, [self._expression(arguments[0]), array], {})
        called = self._expression(function)
        if isinstance(called, t.Attribute) and called.name in METHODS and not arguments:
            return t.Call(place, METHODS[called.name], [called.base], {})
        if not isinstance(called, t.Known):
            raise DraftError(place, "only functions from outside the kernel can be called")
        if called.value is len and len(arguments) == 1:
            measured = self._expression(arguments[0])
            if isinstance(measured, t.TupleOf):
                return t.Constant(place, len(measured.elements))
            return t.Item(place, t.Attribute(place, measured, "shape"), [t.Constant(place, 0)])
        if called.value is cuda.const.array_like and len(arguments) == 1:
            constant = self._expression(arguments[0])
            if not isinstance(constant, t.Table):
                raise DraftError(place, "this is no array from outside of the kernel", "pass a global array")
            return constant
        if called.value is divmod and len(arguments) == 2:
            return self._quotient_and_rest(arguments, place)
        named = {str(k.arg): self._expression(k.value) for k in keywords}
        return t.Call(place, called.value, [self._expression(each) for each in arguments], named)

    def _quotient_and_rest(self, arguments: list[ast.expr], place: Place) -> t.Expr:
        """``divmod(a, b)``: ``(a // b, a % b)``."""
        if any(isinstance(each, ast.Call) for argument in arguments for each in ast.walk(argument)):
            raise DraftError(place, "divmod of what a call returns is not translated", "assign it before")
        both = [[self._expression(argument) for argument in arguments] for _ in range(2)]
        parts = zip((operator.floordiv, operator.mod), both, strict=True)
        return t.TupleOf(place, [t.Binary(place, op, left, right) for op, (left, right) in parts])

    def _array_of_dtype(self, function: ast.expr) -> t.Expr | None:
        """The array, where a number is converted to its dtype by ``x.dtype.type``."""
        match function:
            case ast.Name(id=name) if name in self.dtypes:
                return self.dtypes[name]
            case ast.Attribute(attr="type", value=ast.Attribute(attr="dtype", value=array)):
                return self._expression(array)
        return None

    def _attribute(self, base: t.Expr, name: str, place: Place) -> t.Expr:
        if not isinstance(base, t.Known) or base.value in INDEX_STUBS:
            return t.Attribute(place, base, name)
        if not hasattr(base.value, name):
            raise DraftError(place, f"{_name_of(base.value)} has no attribute {name}")
        if base.value is cuda and name == "warpsize":
            return t.Constant(place, np.int32(32))
        if base.value is cuda and name == "laneid":
            return t.Attribute(place, base, name)
        prefix = f"{base.value.__name__}." if isinstance(base.value, ModuleType) else ""
        return self._known(getattr(base.value, name), f"{prefix}{name}", place)

    def _known(self, value: Any, name: str, place: Place) -> t.Expr:
        if isinstance(value, (bool, int, float, complex, np.number, np.bool_)):
            return t.Constant(place, value, name)
        if isinstance(value, np.ndarray) and value.size:
            return t.Table(place, value, name)
        if isinstance(value, tuple) and value:
            elements = [self._known(each, "", place) for each in value]
            if all(isinstance(each, (t.Constant, t.TupleOf)) for each in elements):
                return t.TupleOf(place, [_unnamed(each) for each in elements], name)
        return t.Known(place, value)


def _unnamed(expression: t.Expr) -> t.Expr:
    if isinstance(expression, (t.Constant, t.TupleOf)):
        expression.name = None
    return expression


def _folded(node: ast.expr) -> Any:
    """The value of an expression of literals, which CPython computes before Numba sees it; else None."""
    match node:
        case ast.Constant(value=value) if isinstance(value, (bool, int, float, complex)):
            return value
        case ast.UnaryOp(op=op, operand=operand):
            value = _folded(operand)
            return None if value is None else UNARY[type(op)](value)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
            a, b = _folded(left), _folded(right)
            if a is None or b is None:
                return None
            try:
                return BINARY[type(op)](a, b)
            except (ArithmeticError, ValueError, TypeError):
                return None
    return None


def _truth(test: t.Expr) -> bool | None:
    """Whether a condition holds, if no thread can change that; else None."""
    match test:
        case t.Constant(value=value):
            return bool(value)
        case t.Unary(operator=operator.not_, operand=operand):
            known = _truth(operand)
            return None if known is None else not known
        case t.Compare(operators=[compare], operands=[t.Constant(value=a), t.Constant(value=b)]):
            return bool(compare(a, b))
    return None


def _mark_reads(body: list[t.Stmt]) -> None:
    """A version is read if an expression reads it, or a join that is read."""
    waiting = [
        each.version
        for statement in t.walk(body)
        for outer in t.expressions(statement)
        for each in t.walk_expression(outer)
        if isinstance(each, t.Read)
    ]
    while waiting:
        version = waiting.pop()
        if not version.is_read:
            version.is_read = True
            waiting += version.sources


def _words(node: ast.AST) -> str:
    """A construct in a reader's words."""
    named = {
        "NamedExpr": "an assignment within an expression (:=)",
        "ListComp": "a list comprehension",
        "GeneratorExp": "a generator",
        "Lambda": "a lambda",
        "JoinedStr": "an f-string",
        "Constant": "this literal",
        "List": "a list",
        "Dict": "a dictionary",
        "Try": "try",
        "Raise": "raise",
        "Assert": "assert",
        "With": "with",
        "FunctionDef": "a function within a kernel",
        "Compare": "this comparison",
    }
    return named.get(type(node).__name__, type(node).__name__)


def _name_of(value: Any) -> str:
    return getattr(value, "__name__", type(value).__name__)
