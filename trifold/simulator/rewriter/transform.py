"""Carries out the decisions of a :class:`Survey` on a copy of the source tree.

Waiting becomes ``yield``, a helper that waits ``yield from``, arithmetic that differs between Python and a GPU a call.
Objects are written into the tree as marks, which :mod:`link` replaces by the objects themselves: no name is added to
the kernel's scope. Every node keeps its line and columns.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeVar

from trifold.simulator.rewriter.link import Forward, Objects
from trifold.simulator.rewriter.survey import (
    Ask,
    Body,
    Capture,
    Conversion,
    DeviceCall,
    DynamicCall,
    Inject,
    LocalCall,
    Operation,
    Survey,
    Unrewritable,
    Wait,
)

_Node = TypeVar("_Node", bound=ast.AST)

# Exact with a literal right operand other than 0. Not // and %, which differ from Python's for floats.
_SAFE_AFTER_LITERAL = (ast.Div, ast.RShift)
_GROWS_BY_ONE_BIT = (ast.Add, ast.Sub)
_STORE_WRAPS = (ast.Add, ast.Sub, ast.Mult)


@dataclass(frozen=True)
class Runtime:
    """The objects that rewritten code calls.

    Attributes:
        arithmetic: a function for each operator that differs from Python's.
        indices: objects whose x, y, z are small integers, so that products of two cannot overflow.
        dynamic: (callee) -> what to call for it; the result is passed to ``awaited``.
        awaited: (result of a dynamic call) -> an iterator that waits if necessary and returns the result.
        conversions: [type of an array's numbers] -> the conversion to it.
        site: (line) -> the number of a place where threads wait.
        poll: the request of a polling thread.
    """

    arithmetic: Mapping[type[ast.AST], Any]
    indices: tuple[Any, ...]
    dynamic: Any
    awaited: Any
    conversions: Mapping[Any, Any]
    site: Callable[[int], int]
    poll: int


@dataclass(frozen=True)
class Conversions:
    """For a device function with an explicit signature: the conversions of its arguments and its result."""

    arguments: tuple[Any | None, ...]
    result: Any | None


class Transform:
    """Rewrites the function of one survey.

    Args:
        waits: whether a device function or nested function waits, directly or through others.
        function: returns the rewritten form of a called device function.
        captured: returns the holder of a host array that the kernel refers to.
        called: the function is called by others, so that its arithmetic may be repeated.
        conversions: those of its signature.
        casts: conversions of assigned values, by the node of the value.
    """

    def __init__(
        self,
        survey: Survey,
        objects: Objects,
        runtime: Runtime,
        *,
        waits: Callable[[FunctionType | Body], bool],
        function: Callable[[ast.Call, FunctionType], Forward],
        captured: Callable[[str, Any], Any],
        called: bool,
        conversions: Conversions | None,
        casts: Mapping[ast.AST, Any],
    ) -> None:
        self._survey = survey
        self._objects = objects
        self._runtime = runtime
        self._waits = waits
        self._function = function
        self._captured = captured
        self._called = called
        self._conversions = conversions
        self._casts = casts
        self._folded = set(self._where_folded())
        self._temporaries = 0
        self._polling: list[ast.While | ast.For | None] = []  # each enclosing loop, if it polls

    def run(self) -> ast.FunctionDef | ast.Lambda:
        """The copy, without decorators, annotations and defaults, which have already been evaluated."""
        for call, callee in self._survey.in_comprehension:
            if self._waits(callee):
                raise Unrewritable(f"line {call.lineno}: a function that waits is called in a comprehension")
        node = self._survey.node
        copy = self._copy(node)
        copy.args = _bare(node.args)
        if isinstance(copy, ast.FunctionDef):
            copy.decorator_list = []
            copy.returns = None
            if self._conversions is not None:
                self._convert(copy, self._conversions)
        return copy

    def _convert(self, function: ast.FunctionDef, conversions: Conversions) -> None:
        """Converts arguments at its start, on the line that runs first anyway; the result at each of its returns."""
        documented = ast.get_docstring(function, clean=False) is not None
        place = function.body[1 if documented and len(function.body) > 1 else 0]
        parameters = (*function.args.posonlyargs, *function.args.args)
        function.body[int(documented) : int(documented)] = [
            _at(place, ast.Assign([_name(place, p.arg, ast.Store())], self._call(place, cast, _name(place, p.arg))))
            for p, cast in zip(parameters, conversions.arguments, strict=False)
            if cast is not None
        ]
        if conversions.result is not None:
            for statement in _own_statements(function.body):
                if isinstance(statement, ast.Return) and statement.value is not None:
                    statement.value = self._call(statement.value, conversions.result, statement.value)

    def visit(self, node: _Node) -> ast.AST:
        decision = self._survey.decisions.get(node)
        result: ast.AST
        if decision is not None:
            result = self._carry_out(node, decision)
        else:
            special = getattr(self, f"_visit_{type(node).__name__}", self._copy)
            result = special(node)
        if node in self._casts:
            assert isinstance(result, ast.expr)
            result = self._call(node, self._casts[node], result)
        return result

    def _where_folded(self) -> Iterator[ast.expr]:
        """Replaces objects that the compiler would compute with, or branch on, as if they were their marks."""
        for node in ast.walk(self._survey.node):
            match node:
                case ast.BinOp(left, _, right):
                    if all(isinstance(self._survey.decisions.get(each), Inject) for each in (left, right)):
                        yield left
                case ast.If(test) | ast.While(test) | ast.IfExp(test) | ast.Assert(test):
                    yield test
                case ast.BoolOp(_, values):
                    yield from values
                case ast.UnaryOp(ast.Not(), operand):
                    yield operand

    def _copy(self, node: _Node) -> _Node:
        """A copy with rewritten children."""
        copy = type(node).__new__(type(node))
        for name, value in vars(node).items():
            if isinstance(value, list):
                value = self._list(value)
            elif isinstance(value, ast.AST):
                value = self.visit(value)
            setattr(copy, name, value)
        return copy

    def _list(self, nodes: list[Any]) -> list[Any]:
        result: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Continue) and (loop := self._polling[-1]) is not None:
                result.append(self._poll(node, loop))
            result.append(self.visit(node) if isinstance(node, ast.AST) else node)
        return result

    # Decisions ----------------------------------------------------------------------------------------------------

    def _carry_out(self, node: ast.AST, decision: object) -> ast.expr:
        match decision:
            case Inject(value):
                mark = self._object(node, value)
                return self._call(node, _itself, mark) if node in self._folded else mark
            case Ask(value):
                return self._call(node, value)
            case Capture(name, array):
                holder = self._object(node, self._captured(name, array))
                return _at(node, ast.Attribute(holder, "array", ast.Load()))
            case Conversion():
                assert isinstance(node, ast.Name)
                known = self._object(node, self._runtime.conversions)
                return _at(node, ast.Subscript(known, self._copy(node), ast.Load()))
        assert isinstance(node, ast.Call)
        match decision:
            case Wait(operation):
                return self._wait(node, operation)
            case DeviceCall(function):
                call = _at(
                    node, ast.Call(self._object(node.func, self._function(node, function)), *self._arguments(node))
                )
                return self._awaited_if(self._waits(function), node, call)
            case LocalCall(body):
                return self._awaited_if(self._waits(body), node, self._copy(node))
            case DynamicCall():
                callee = self._call(node.func, self._runtime.dynamic, self._expression(node.func))
                call = _at(node, ast.Call(callee, *self._arguments(node)))
                return _at(node, ast.YieldFrom(self._call(node, self._runtime.awaited, call)))
        raise AssertionError(decision)

    def _wait(self, node: ast.Call, operation: Operation) -> ast.expr:
        site = self._runtime.site(node.lineno)
        if operation.code is None:
            if node.args or node.keywords:
                raise Unrewritable(f"line {node.lineno}: {operation.name} takes no arguments")
            return _at(node, ast.Yield(_constant(node, site)))
        parts = [_constant(node, value) for value in (site, operation.code)]
        request = _at(node, ast.Tuple([*parts, *self._bind(node, operation)], ast.Load()))
        return _at(node, ast.Yield(request))

    def _bind(self, node: ast.Call, operation: Operation) -> list[ast.expr]:
        """The operands in the operation's order."""
        given, keywords = self._arguments(node)
        if any(isinstance(argument, ast.Starred) for argument in given):
            return given
        names = [name for name, _ in operation.parameters]
        by_name = {keyword.arg: keyword.value for keyword in keywords}
        result = list(given)
        for name, default in operation.parameters[len(given) :]:
            value = by_name.pop(name, None)
            if value is None and default is not ...:
                value = _constant(node, default)
            if value is None:
                break
            result.append(value)
        if by_name or len(result) != len(names):
            raise TypeError(f"{operation.name}({', '.join(names)}) got other arguments in line {node.lineno}")
        return result

    def _awaited_if(self, waits: bool, node: ast.AST, call: ast.Call) -> ast.expr:
        return _at(node, ast.YieldFrom(call)) if waits else call

    # Loops --------------------------------------------------------------------------------------------------------

    def _visit_loop(self, node: ast.While | ast.For) -> ast.While | ast.For:
        polls = node in self._survey.polls
        self._polling.append(node if polls else None)
        copy = self._copy(node)
        self._polling.pop()
        if polls:
            copy.body.append(self._poll(node, node))
        return copy

    _visit_While = _visit_For = _visit_loop

    def _visit_FunctionDef(self, node: ast.FunctionDef | ast.Lambda) -> ast.AST:
        self._polling.append(None)
        copy = self._copy(node)
        self._polling.pop()
        return copy

    _visit_Lambda = _visit_FunctionDef

    def _poll(self, node: ast.stmt, loop: ast.stmt) -> ast.stmt:
        request = _constant(node, (self._runtime.site(loop.lineno), self._runtime.poll))
        return _at(node, ast.Expr(_at(node, ast.Yield(request))))

    # Arithmetic ---------------------------------------------------------------------------------------------------

    def _visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        function = self._arithmetic(node, node.op, node.left, node.right)
        if function is None:
            return self._copy(node)
        return self._call(node, function, self._expression(node.left), self._expression(node.right))

    def _visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        function = self._runtime.arithmetic.get(type(node.op))  # ~True is -2 in Python
        if function is None:
            return self._copy(node)
        return self._call(node, function, self._expression(node.operand))

    def _visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        function = self._arithmetic(node, node.op, None, node.value)
        if function is None or (isinstance(node.op, _STORE_WRAPS) and not isinstance(node.target, ast.Name)):
            return self._copy(node)
        read, write = self._target(node.target)
        value = self._call(node, function, read, self._expression(node.value))
        return _at(node, ast.Assign([write], value, lineno=node.lineno))

    def _arithmetic(
        self, node: ast.AST, operator: ast.operator, left: ast.expr | None, right: ast.expr
    ) -> object | None:
        """The function for the operator; None if Python's own has the same result."""
        function = self._runtime.arithmetic.get(type(operator))
        literals = [operand for operand in (left, right) if operand is not None and _literal(operand) is not None]
        if isinstance(operator, _GROWS_BY_ONE_BIT):
            return None if literals or not (self._called or node in self._survey.repeated) else function
        if isinstance(operator, _SAFE_AFTER_LITERAL) and (_literal(right) or 0) > 0:
            return None
        if isinstance(operator, ast.Mult) and left is not None and self._is_index(left) and self._is_index(right):
            return None
        return function

    def _is_index(self, node: ast.expr) -> bool:
        """threadIdx.x and the like, or a literal that is no larger than those."""
        if isinstance(node, ast.Attribute):
            decision = self._survey.decisions.get(node.value)
            return isinstance(decision, Inject) and any(decision.value is index for index in self._runtime.indices)
        value = _literal(node)
        return isinstance(value, int) and abs(value) < 2**16

    def _target(self, node: ast.expr) -> tuple[ast.expr, ast.expr]:
        """A target as an expression to read and one to write; its parts are evaluated once."""
        if isinstance(node, ast.Name):
            return _at(node, ast.Name(node.id, ast.Load())), self._expression(node)
        assert isinstance(node, ast.Attribute | ast.Subscript)
        read, write = self._copy(node), self._copy(node)
        read.ctx = ast.Load()
        read.value, write.value = self._once(node.value)
        if isinstance(read, ast.Subscript) and isinstance(write, ast.Subscript) and isinstance(node, ast.Subscript):
            if any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)):
                return read, write  # its bounds are evaluated twice: they cannot be named
            read.slice, write.slice = self._once(node.slice)
        return read, write

    def _once(self, node: ast.expr) -> tuple[ast.expr, ast.expr]:
        """The expression twice, evaluated only the first time."""
        if _stable(node):
            return self._expression(node), self._expression(node)
        self._temporaries += 1
        name = f".operand{self._temporaries}"
        named = _at(node, ast.NamedExpr(_at(node, ast.Name(name, ast.Store())), self._expression(node)))
        return named, _at(node, ast.Name(name, ast.Load()))

    # Building -----------------------------------------------------------------------------------------------------

    def _expression(self, node: ast.expr) -> Any:
        return self.visit(node)

    def _arguments(self, node: ast.Call) -> tuple[list[ast.expr], list[ast.keyword]]:
        return self._list(node.args), self._list(node.keywords)

    def _object(self, node: ast.AST, value: Any) -> ast.expr:
        return _constant(node, self._objects.mark(value))

    def _call(self, node: ast.AST, function: Any, *arguments: ast.expr) -> ast.Call:
        return _at(node, ast.Call(self._object(node, function), list(arguments), []))


def _itself(value: Any) -> Any:
    return value


def _at(place: ast.AST, node: _Node) -> _Node:
    return ast.copy_location(node, place)


def _constant(place: ast.AST, value: Any) -> ast.Constant:
    return _at(place, ast.Constant(value))


def _name(place: ast.AST, name: str, context: ast.expr_context | None = None) -> ast.Name:
    return _at(place, ast.Name(name, context or ast.Load()))


def _own_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a function without those of its nested functions."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield from _own_statements([n for n in ast.iter_child_nodes(statement) if isinstance(n, ast.stmt)])


def _bare(arguments: ast.arguments) -> ast.arguments:
    """Parameters that only have names."""

    def bare(argument: ast.arg) -> ast.arg:
        return _at(argument, ast.arg(argument.arg, None))

    return ast.arguments(
        [bare(a) for a in arguments.posonlyargs],
        [bare(a) for a in arguments.args],
        arguments.vararg and bare(arguments.vararg),
        [bare(a) for a in arguments.kwonlyargs],
        [None for _ in arguments.kwonlyargs],
        arguments.kwarg and bare(arguments.kwarg),
        [],
    )


def _literal(node: ast.expr) -> int | float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _literal(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and abs(node.value) < 2**31:  # type: ignore[arg-type]
        return node.value  # type: ignore[return-value]
    return None


def _stable(node: ast.expr) -> bool:
    """Whether evaluating the expression again has the same value and no side effects."""
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute():
            return _stable(node.value)
        case ast.Tuple():
            return all(map(_stable, node.elts))
        case ast.UnaryOp():
            return _stable(node.operand)
        case ast.BinOp():
            return _stable(node.left) and _stable(node.right)
    return False
