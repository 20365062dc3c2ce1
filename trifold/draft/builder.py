"""From Python's syntax tree to the typed tree: resolves names, and gives variables their versions."""

from __future__ import annotations

import ast
import enum
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
from numba import cuda

from trifold.draft import oracle
from trifold.draft import tree as t
from trifold.draft.constructs import not_called, refused
from trifold.draft.folding import BINARY, COMPARE, UNARY, folded, truth
from trifold.draft.loops import Loops
from trifold.draft.refusal import DraftError, Place
from trifold.draft.source import Source, is_short_row

METHODS = {"conjugate": oracle.conjugate, "sync": oracle.sync}
INDEX_STUBS = (cuda.threadIdx, cuda.blockIdx, cuda.blockDim, cuda.gridDim)

Names = dict[str, t.Version]


class Builder(Loops):
    """Builds one function. ``names`` is None where control does not reach."""

    def __init__(
        self, source: Source, is_kernel: bool, absent: Collection[str] = (), functions: Mapping[str, Any] | None = None
    ) -> None:
        """``absent``: the parameters that are None; ``functions``: those that are device functions."""
        self.source = source
        self.absent = absent
        self.is_kernel = is_kernel
        self.local = {*source.parameters, *t.assigned_names(source.tree.body)}
        self.versions: list[t.Version] = []
        self.returns: list[t.Return] = []
        self.names: Names | None = {}
        self.aliases: dict[str, t.Known] = {}  # what is no number, such as a function, by the name that it has here
        self.dtypes: dict[str, t.Expr] = {}  # the array of `x.dtype.type`, by the name to which that was assigned
        self.leaving: list[tuple[list[Names], list[Names]]] = []  # for each enclosing loop: names at break, at continue
        parameters = []
        for number, name in enumerate(source.parameters):
            version = self._version(name, source.place(source.tree))
            version.parameter = number
            parameters.append(version)
        for name, function in (functions or {}).items():
            self.aliases[name] = t.Known(source.place(source.tree), function)
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
        """Join the versions of variables where control arrives from several places."""
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
                break  # unreachable
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
            case ast.AugAssign(
                target=ast.Subscript(value=holder, slice=ast.Constant(value=str(name)))
                | ast.Attribute(value=holder, attr=name),
                op=op,
                value=value,
            ):
                record = self._expression(holder)
                return [t.Store(place, last, record, [], self._expression(value), BINARY[type(op)], member=name)]
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
            case ast.Assert(test=test):
                return self._assert(test, place, last)
            case ast.Break() | ast.Continue():
                stops = isinstance(node, ast.Break)
                self.leaving[-1][0 if stops else 1].append(dict(self.names or {}))
                self.names = None
                return [t.Break(place, last) if stops else t.Continue(place, last)]
        raise refused(node, place)

    def _assert(self, test: ast.expr, place: Place, last: int) -> list[t.Stmt]:
        """Without ``debug=True``, Numba silently ends a thread whose assertion fails."""
        if not self.is_kernel:
            raise DraftError(
                place, "assert in a device function, which ends its caller, is not translated", "leave it out"
            )
        if truth(built := self._expression(test)) is True:
            return []
        ends = t.Return(place, last, None, of_assert=True)
        return [t.If(place, last, t.Unary(place, operator.not_, built), [ends], [])]

    def _if(self, node: ast.If, place: Place) -> list[t.Stmt]:
        test = self._expression(node.test)
        known = truth(test)
        if known is not None:  # as in Numba, the other branch is not even typed
            return self._block(node.body if known else node.orelse)
        built = t.If(place, node.test.end_lineno or node.lineno, test, [], [])
        before = dict(self.names or {})
        built.body = self._block(node.body)
        after, self.names = self.names, before
        built.otherwise = self._block(node.orelse)
        self._join([after, self.names], place, built)
        return [built]

    # --------------------------------------------------------------------------------------------- expressions

    def _indices(self, node: ast.expr) -> list[t.Expr]:
        elements = node.elts if isinstance(node, ast.Tuple) else [node]
        if not elements:
            place = self.source.place(node)
            raise DraftError(
                place, "an array without dimensions is not translated", "pass one of one element: x.reshape(1)"
            )
        match elements:
            case [*others, ast.Constant(value=value)] if value is ...:  # whole dimensions, as if omitted
                elements = others or [ast.copy_location(ast.Slice(), node)]
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
        value = folded(node)
        if value is not None:
            return t.Constant(place, value, None, self.source.text(node) if isinstance(node, ast.Constant) else None)
        match node:
            case ast.Name(id=name) if name in self.aliases:
                return replace(self.aliases[name], place=place)
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
                if len(ops) == 1 and any(isinstance(each, t.Known) for each in operands):
                    return self._compare_members(ops[0], operands, place)
                return t.Compare(place, [COMPARE[type(op)] for op in ops], operands)
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
                return t.Constant(place, self._is_none(left) == isinstance(op, ast.Is))
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[values]):
                found = self._membership(left, values, place)
                return found if isinstance(op, ast.In) else t.Unary(place, operator.not_, found)
            case ast.BoolOp(op=op, values=values):
                return self._logical(isinstance(op, ast.And), values, place)
            case ast.IfExp():
                return self._choice(node, place)
            case ast.Call(func=function, args=arguments, keywords=keywords):
                return self._call(function, arguments, keywords, place)
            case ast.Subscript(value=base, slice=ast.Constant(value=str(name))):  # of a record
                return t.Attribute(place, self._expression(base), name)
            case ast.Subscript(value=base, slice=index):
                return t.Item(place, self._expression(base), self._indices(index))
            case ast.Tuple(elts=elements):
                return t.TupleOf(place, [self._expression(element) for element in elements])
        raise refused(node, place)

    def _membership(self, left: ast.expr, values: ast.expr, place: Place) -> t.Expr:
        """``left in (a, b)`` as ``left == a or left == b``."""
        whole = self._expression(values)
        if isinstance(whole, t.Read) and whole.version.part is None and isinstance(whole.version.value, t.TupleOf):
            count = len(whole.version.value.elements)
            elements: list[t.Expr] = [t.Item(place, whole, [t.Constant(place, number)]) for number in range(count)]
        elif isinstance(whole, t.TupleOf):
            elements = whole.elements
        else:
            elements = []
        calls = any(isinstance(each, ast.Call) for node in (left, values) for each in ast.walk(node))
        if not elements or calls:
            problem = "`in` is translated of a tuple of numbers, without calls"
            raise DraftError(place, problem, "write a tuple, as in k in (65, 67), and assign what calls return before")
        equal = [t.Compare(place, [operator.eq], [self._expression(left), each]) for each in elements]
        return equal[0] if len(equal) == 1 else t.Logical(place, False, list(equal))

    def _is_none(self, node: ast.expr) -> bool:
        """Whether it is a parameter that is None; no other variable can be."""
        if isinstance(node, ast.Constant):
            return node.value is None
        read = self._expression(node)
        if isinstance(read, t.Known):
            return read.value is None
        return isinstance(read, t.Read) and read.version.parameter is not None and read.version.name in self.absent

    def _compare_members(self, op: ast.cmpop, operands: list[t.Expr], place: Place) -> t.Expr:
        """A comparison of members of an enumeration that are not integers."""
        members = [each.value for each in operands if isinstance(each, t.Known) and isinstance(each.value, enum.Enum)]
        if len(members) < 2 or not isinstance(op, ast.Eq | ast.NotEq):
            return t.Compare(place, [COMPARE[type(op)]], operands)
        same = len({(type(each).__name__, each.name) for each in members}) == 1
        return t.Constant(place, same == isinstance(op, ast.Eq))

    def _logical(self, all_of: bool, values: list[ast.expr], place: Place) -> t.Expr:
        """As in Numba, operands after one that is known to decide the result are not even typed."""
        operands: list[t.Expr] = []
        for value in values:
            operand = self._expression(value)
            known = operand.value if isinstance(operand, t.Constant) and operand.value in (True, False) else None
            if known is None or known is not all_of or value is values[-1]:
                operands.append(operand)
            if known is (not all_of):
                break
        return operands[0] if len(operands) == 1 else t.Logical(place, all_of, operands)

    def _choice(self, node: ast.IfExp, place: Place) -> t.Expr:
        test = self._expression(node.test)
        known = truth(test)
        if known is not None:
            return self._expression(node.body if known else node.orelse)
        chosen, otherwise = self._expression(node.body), self._expression(node.orelse)
        parts = [each.elements for each in (chosen, otherwise) if isinstance(each, t.TupleOf)]
        if len(parts) < 2 or len(parts[0]) != len(parts[1]):
            return t.Choice(place, test, chosen, otherwise)
        if any(isinstance(each, t.Call) for each in t.walk_expression(test)):
            raise DraftError(place, "a tuple that a call chooses is not translated", "assign the condition before")
        return t.TupleOf(place, [t.Choice(place, test, a, b) for a, b in zip(*parts, strict=True)])

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
            raise not_called(called, place)
        if called.value is len and len(arguments) == 1:
            return self._length_of(arguments[0])
        if called.value is float and len(arguments) == 1:
            match arguments[0]:
                case ast.Constant(value=str(text)):  # "nan", "inf"
                    return t.Constant(place, _number_of(text, place))
        if called.value is cuda.const.array_like and len(arguments) == 1:
            constant = self._expression(arguments[0])
            if not isinstance(constant, t.Table):
                raise DraftError(place, "this is no array from outside of the kernel", "pass a global array")
            return constant
        if called.value is divmod and len(arguments) == 2:
            return self._quotient_and_rest(arguments, place)
        if called.value is ord and len(arguments) == 1:
            return self._character(arguments[0], place)
        if called.value is pow and len(arguments) == 2:
            return t.Binary(place, operator.pow, self._expression(arguments[0]), self._expression(arguments[1]))
        operated = self._operated(called.value, arguments, place)
        if operated is not None:
            return operated
        if called.value is print:
            return t.Call(
                place, print, [self._printed(each) for each in arguments], {k.arg or "": called for k in keywords}
            )
        argument = self._dtype_or_shape if called.value in (cuda.shared.array, cuda.local.array) else self._argument
        named = {str(k.arg): argument(k.value) for k in keywords}
        return t.Call(place, called.value, [argument(each) for each in arguments], named)

    def _operated(self, function: Any, arguments: list[ast.expr], place: Place) -> t.Expr | None:
        """A call of a function of the module operator."""
        build: Callable[..., t.Expr] | None = None
        match len(arguments):
            case 1 if function in UNARY.values():
                build = t.Unary
            case 2 if function in BINARY.values():
                build = t.Binary
            case 2 if function in COMPARE.values():
                return t.Compare(place, [function], [self._expression(each) for each in arguments])
        return None if build is None else build(place, function, *(self._expression(each) for each in arguments))

    def _character(self, node: ast.expr, place: Place) -> t.Constant:
        """``ord("x")``."""
        text = node.value if isinstance(node, ast.Constant) else getattr(self._expression(node), "value", None)
        if not isinstance(text, str) or len(text) != 1:
            raise DraftError(place, "ord is translated of a string of one character", "pass numbers to the kernel")
        plain = " " <= text <= "~" and text not in "'\\"
        return t.Constant(place, ord(text), None, f"'{text}'" if plain else None)

    def _printed(self, node: ast.expr) -> t.Expr:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return t.Constant(self.source.place(node), node.value)
        built = self._expression(node)
        text = isinstance(built, t.Known) and isinstance(built.value, str)
        return t.Constant(built.place, built.value) if text else built  # type: ignore[attr-defined]

    def _dtype_or_shape(self, node: ast.expr) -> t.Expr:
        """A dtype may be written as a string: ``"float32"``."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return t.Known(self.source.place(node), node.value)
        return self._expression(node)

    def _argument(self, node: ast.expr) -> t.Expr:
        if isinstance(node, ast.Constant) and node.value is None:
            return t.Constant(self.source.place(node), None)
        return self._expression(node)

    def _quotient_and_rest(self, arguments: list[ast.expr], place: Place) -> t.Expr:
        """``divmod(a, b)`` as ``(a // b, a % b)``."""
        if any(isinstance(each, ast.Call) for argument in arguments for each in ast.walk(argument)):
            raise DraftError(place, "divmod of what a call returns is not translated", "assign it before")
        both = [[self._expression(argument) for argument in arguments] for _ in range(2)]
        parts = zip((operator.floordiv, operator.mod), both, strict=True)
        return t.TupleOf(place, [t.Binary(place, op, left, right) for op, (left, right) in parts])

    def _array_of_dtype(self, function: ast.expr) -> t.Expr | None:
        """The array x if the function is ``x.dtype.type``, which converts a number to its dtype."""
        match function:
            case ast.Name(id=name) if name in self.dtypes:
                return self.dtypes[name]
            case ast.Attribute(attr="type", value=ast.Attribute(attr="dtype", value=array)):
                return self._expression(array)
        return None

    def _attribute(self, base: t.Expr, name: str, place: Place) -> t.Expr:
        if isinstance(base, t.Constant) and base.of_enumeration and name == "value":
            return base
        if isinstance(base, t.TupleOf) and name in base.fields:
            return base.elements[base.fields.index(name)]
        if not isinstance(base, t.Known) or base.value in INDEX_STUBS:
            return t.Attribute(place, base, name)
        if not hasattr(base.value, name):
            raise DraftError(place, f"{_name_of(base.value)} has no attribute {name}", "correct the name")
        if base.value is cuda and name == "warpsize":
            return t.Constant(place, np.int32(32))
        if base.value is cuda and name == "laneid":
            return t.Attribute(place, base, name)
        prefix = f"{base.value.__name__}." if isinstance(base.value, ModuleType) else ""
        return self._known(getattr(base.value, name), f"{prefix}{name}", place)

    def _known(self, value: Any, name: str, place: Place) -> t.Expr:
        if isinstance(value, enum.Enum):
            return self._member(value, place)
        if isinstance(value, (bool, int, float, complex, np.number, np.bool_)):
            return t.Constant(place, value, name)
        if isinstance(value, np.ndarray) and value.size:
            return t.Table(place, value, name)
        if isinstance(value, tuple) and value:
            fields: tuple[str, ...] = getattr(value, "_fields", ())  # of a named tuple
            named = bool(fields) or is_short_row(value)
            names = [f"{name}_{field}" for field in fields or range(len(value))]
            elements = [self._known(each, own, place) for each, own in zip(value, names, strict=True)]
            if all(isinstance(each, (t.Constant, t.TupleOf)) for each in elements):
                return t.TupleOf(place, elements if named else [t.unnamed(each) for each in elements], name, fields)
        return t.Known(place, value)

    def _member(self, member: enum.Enum, place: Place) -> t.Expr:
        """A member of an enumeration; one of integers is its number."""
        if not isinstance(member, int):
            return t.Known(place, member)
        name = f"{type(member).__name__.lstrip('_')}_{member.name}"
        return t.Constant(place, int(member), None if name in self.local else name, of_enumeration=True)


def _number_of(text: str, place: Place) -> float:
    try:
        return float(text)
    except ValueError:
        raise DraftError(place, f"{text!r} is no number", "write a number, 'nan' or 'inf'") from None


def _mark_reads(body: list[t.Stmt]) -> None:
    """Mark versions as read: those that an expression reads, or a join that is read."""
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


def _name_of(value: Any) -> str:
    return getattr(value, "__name__", type(value).__name__)
