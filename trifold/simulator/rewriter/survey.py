"""Analyses a kernel's source before it is changed: which calls wait for other threads, which names are the device's.

A :class:`Survey` has a decision for each node that the rewriter changes. A :class:`Body` is one function of the source,
the kernel itself or one nested in it; bodies form the call graph along which waiting propagates.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Protocol

import numpy as np

from trifold.simulator.rewriter.names import UNKNOWN, Names
from trifold.simulator.rewriter.polling import polling_loops
from trifold.simulator.rewriter.source import Definition


class Unrewritable(Exception):
    """Source that the rewriter leaves unchanged; the text says what and where."""


@dataclass(frozen=True)
class Operation:
    """A device function that waits for other threads: the scheduler returns its result.

    Attributes:
        code: its number for the scheduler; None for the plain barrier.
        parameters: names in order, each with its default, or ``...`` if it is required.
    """

    name: str
    code: int | None
    parameters: tuple[tuple[str, Any], ...] = ()


@dataclass(eq=False)
class Body:
    """One function of the source and what it calls."""

    node: Definition
    waits: bool = False
    calls: list[FunctionType | Body] = field(default_factory=list)


@dataclass(frozen=True)
class Wait:
    operation: Operation


@dataclass(frozen=True)
class DeviceCall:
    function: FunctionType


@dataclass(frozen=True)
class LocalCall:
    body: Body


@dataclass(frozen=True)
class DynamicCall:
    """A call of a value known only when it runs: perhaps a device function."""


@dataclass(frozen=True)
class Conversion:
    """The conversion to the type of numbers that the expression evaluates to."""


@dataclass(frozen=True)
class Inject:
    """The object replaces the expression."""

    value: Any


@dataclass(frozen=True)
class Capture:
    """A host array that the kernel refers to: an argument that is not passed."""

    name: str
    array: Any


@dataclass(frozen=True)
class Ask:
    """The device's value replaces the expression: a call of the object."""

    value: Any


Decision = Wait | DeviceCall | LocalCall | DynamicCall | Conversion | Inject | Capture | Ask


class Vocabulary(Protocol):
    """The device's objects as far as the rewriter must know them; all by identity."""

    grid_sync: Operation

    def operation(self, value: Any) -> Operation | None: ...
    def is_namespace(self, value: Any) -> bool: ...
    def device_function(self, value: Any) -> FunctionType | None:
        """The Python function of a device function; None for anything else."""

    def is_atomic(self, value: Any) -> bool: ...
    def is_device_array(self, value: Any) -> bool: ...
    def is_question(self, value: Any) -> bool:
        """Whether the name alone queries the device, as laneid does."""

    def called(self, value: Any) -> Any | None:
        """The function that a kernel calls in place of a host function; None: the function itself."""

    def value(self, value: Any) -> Any | None:
        """The value that a kernel sees in place of a host value; None: the value itself."""

    def literal(self, value: int) -> Any | None:
        """The object for an integer literal; None: the literal itself."""


class Survey(ast.NodeVisitor):
    """Analyses one function's source.

    Attributes:
        decisions: one for each node that changes.
        bodies: of the function itself, first, and of its nested functions, by node.
        polls: loops that wait for memory to change.
        repeated: arithmetic in loops and nested functions, which may run repeatedly on its own results.
        in_comprehension: calls in a comprehension, in which nothing can wait.
    """

    def __init__(self, function: FunctionType, node: Definition, vocabulary: Vocabulary) -> None:
        self.node = node
        self.names = Names(
            function, node, vocabulary.is_namespace, lambda value: vocabulary.device_function(value) is not None
        )
        self.decisions: dict[ast.AST, Decision] = {}
        self.bodies: dict[Definition, Body] = {node: Body(node)}
        self.synchronises_grid = False
        self.repeated: set[ast.AST] = set()
        self.in_comprehension: list[tuple[ast.Call, FunctionType | Body]] = []
        self._vocabulary = vocabulary
        self._body = self.bodies[node]
        self._atomics: set[ast.AST] = set()
        self._comprehensions = 0
        self._loops = 0
        for part in node.body if isinstance(node, ast.FunctionDef) else [node.body]:
            self.visit(part)
        self.polls = polling_loops(node, self._reads_memory)
        for loop in self.polls:
            self._body_of(loop).waits = True

    @property
    def callees(self) -> list[FunctionType]:
        """The device functions that this function calls by name."""
        return [f for body in self.bodies.values() for f in body.calls if isinstance(f, FunctionType)]

    # Scopes -------------------------------------------------------------------------------------------------------

    def _visit_function(self, node: ast.FunctionDef | ast.Lambda) -> None:
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        body = self.bodies.setdefault(node, Body(node))
        with self._within(body), self.names.scope(node):
            for part in node.body if isinstance(node, ast.FunctionDef) else [node.body]:
                self.visit(part)

    visit_FunctionDef = visit_Lambda = _visit_function

    def _visit_comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self.visit(node.generators[0].iter)  # evaluated outside
        self._comprehensions += 1
        self._loops += 1
        with self.names.scope(node):
            for name, value in ast.iter_fields(node):
                if name != "generators":
                    self.visit(value)
            for position, generator in enumerate(node.generators):
                self.visit(generator.target)
                for part in (*([generator.iter] if position else []), *generator.ifs):
                    self.visit(part)
        self._comprehensions -= 1
        self._loops -= 1

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    @contextmanager
    def _within(self, body: Body) -> Iterator[None]:
        outside = self._body, self._comprehensions
        self._body, self._comprehensions = body, 0
        yield
        self._body, self._comprehensions = outside

    def _body_of(self, loop: ast.AST) -> Body:
        """The innermost body that holds the loop."""
        holders = [body for body in self.bodies.values() if any(inner is loop for inner in ast.walk(body.node))]
        return holders[-1]

    # Statements ---------------------------------------------------------------------------------------------------

    def _visit_loop(self, node: ast.While | ast.For) -> None:
        self._loops += 1
        self.generic_visit(node)
        self._loops -= 1

    visit_While = visit_For = _visit_loop

    def _refuse(self, node: ast.Yield | ast.YieldFrom | ast.Await) -> None:
        raise Unrewritable(f"line {node.lineno}: a kernel cannot be a generator")

    visit_Yield = visit_YieldFrom = visit_Await = _refuse

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)  # an annotation of a local variable is never evaluated
        if node.value is not None:
            self.visit(node.value)

    def _visit_arithmetic(self, node: ast.BinOp | ast.AugAssign) -> None:
        if self._loops or len(self.bodies) > 1:
            self.repeated.add(node)
        self.generic_visit(node)

    visit_BinOp = visit_AugAssign = _visit_arithmetic

    # Expressions --------------------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name | ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            value = self.names.resolve(node)
            if value is not UNKNOWN:
                self._decide_value(node, value)
                return
        if isinstance(node, ast.Attribute):
            self.visit(node.value)

    visit_Attribute = visit_Name

    def _decide_value(self, node: ast.expr, value: Any) -> None:
        if isinstance(value, np.ndarray) or self._vocabulary.is_device_array(value):
            self.decisions[node] = Capture(ast.unparse(node), value)
        elif self._vocabulary.is_question(value):
            self.decisions[node] = Ask(value)
        elif (replacement := self._vocabulary.value(value)) is not None:
            self.decisions[node] = Inject(replacement)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int and (value := self._vocabulary.literal(node.value)) is not None:
            self.decisions[node] = Inject(value)

    def visit_Call(self, node: ast.Call) -> None:
        self._decide_call(node)
        for part in (*node.args, *node.keywords):
            self.visit(part)

    def _decide_call(self, node: ast.Call) -> None:
        callee = self.names.resolve(node.func)
        if callee is UNKNOWN:
            self._decide_unknown(node)
            return
        if (operation := self._vocabulary.operation(callee)) is not None:
            self._wait(node, operation)
        elif (function := self._vocabulary.device_function(callee)) is not None:
            self.decisions[node] = DeviceCall(function)
            self._calls(node, function)
        elif (replacement := self._vocabulary.called(callee)) is not None:
            self.decisions[node.func] = Inject(replacement)
            if self._vocabulary.is_atomic(callee):
                self._atomics.add(node)
        else:
            self.visit(node.func)

    def _decide_unknown(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Lambda):
            self.visit(function)
            self._local_call(node, function)
        elif isinstance(function, ast.Name) and (local := self.names.local_function(function.id)) is not None:
            self._local_call(node, local)
        elif isinstance(function, ast.Name) and self.names.is_number_type(function.id):
            self.decisions[function] = Conversion()
        elif isinstance(function, ast.Attribute):
            self.visit(function.value)
            if function.attr == "sync" and not node.args and not node.keywords:  # only a grid group has it
                self._wait(node, self._vocabulary.grid_sync)
        else:
            self.visit(function)
            if not self._comprehensions:
                self.decisions[node] = DynamicCall()
                self._body.waits = True

    def _local_call(self, node: ast.Call, definition: Definition) -> None:
        body = self.bodies.setdefault(definition, Body(definition))
        self.decisions[node] = LocalCall(body)
        self._calls(node, body)

    def _calls(self, node: ast.Call, callee: FunctionType | Body) -> None:
        self._body.calls.append(callee)
        if self._comprehensions:
            self.in_comprehension.append((node, callee))

    def _wait(self, node: ast.Call, operation: Operation) -> None:
        if self._comprehensions:
            raise Unrewritable(f"line {node.lineno}: {operation.name} in a comprehension")
        self.decisions[node] = Wait(operation)
        self._body.waits = True
        self.synchronises_grid |= operation is self._vocabulary.grid_sync

    def _reads_memory(self, node: ast.AST) -> bool:
        """Whether evaluating this node, without its parts, reads memory that other threads may write."""
        if isinstance(node, ast.Subscript):
            return isinstance(node.ctx, ast.Load)
        return node in self._atomics or isinstance(self.decisions.get(node), DeviceCall | LocalCall | DynamicCall)
