"""Infers types, as Numba does, on the typed tree. Types propagate through the joins of loops until none changes."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from numba import types

from trifold.draft import oracle, vectors
from trifold.draft import tree as t
from trifold.draft.builder import INDEX_STUBS, Builder
from trifold.draft.constructs import remedy_for
from trifold.draft.operations import ATOMICS, OPERATIONS, dtype_named, typed_call
from trifold.draft.passing import bind, indices_in, parts_of, require_storable
from trifold.draft.records import member_type
from trifold.draft.refusal import DraftError, Place
from trifold.draft.signatures import converted
from trifold.draft.source import Source, read
from trifold.draft.split import mixed_names, split

_MOST_ROUNDS = 30
_PARTIAL = None  # the type of an expression with an operand whose type is not known yet


@dataclass
class Analysis:
    """The functions of one kernel, for this number of instances: each once for each combination of argument types."""

    instances: int = 1
    functions: dict[tuple[Any, tuple[t.Type, ...]], t.Function] = field(default_factory=dict)
    running: list[Any] = field(default_factory=list)

    def analyse(self, function: Any, arguments: Sequence[t.Type], *, is_kernel: bool) -> t.Function:
        key = (function, tuple(arguments))
        if key in self.functions:
            return self.functions[key]
        source = read(function)
        if function in self.running:
            raise DraftError(
                source.place(source.tree), "a function that calls itself is not translated", "write a loop"
            )
        if len(source.parameters) != len(arguments):
            raise DraftError(
                source.place(source.tree),
                f"{source.name} has {len(source.parameters)} parameters, but {len(arguments)} argument types are given",
                "pass one argument for each parameter",
            )
        self.running.append(function)
        try:
            built = self._built(source, list(arguments), is_kernel)
        finally:
            self.running.pop()
        self.functions[key] = built
        return built

    def _built(self, source: Source, arguments: list[t.Type], is_kernel: bool) -> t.Function:
        """The function, once its tuples of several types that are used as wholes are separate variables."""
        owners = list(range(len(arguments)))  # of each parameter, that of the text
        while True:
            given = dict(zip(source.parameters, arguments, strict=True))
            absent = [name for name, kind in given.items() if set(kind) == {types.none}]
            functions = {name: kind[0].dispatcher for name, kind in given.items() if oracle.is_function(kind)}
            built = Builder(source, is_kernel, absent, functions).function
            inference = _Inference(built, arguments, self)
            inference.run()
            names = mixed_names(built)
            if not names and not inference.passed_on:
                built.widths = [owners.count(number) for number in range(len(set(owners)))]
                return built
            owners = [own for own, name in zip(owners, given, strict=True) for _ in range(names.get(name, 1))]
            arguments = [part for name, kind in given.items() for part in _parts(kind, names.get(name))]
            before, source = source, split(source, names, inference.passed_on)
            if not names and ast.dump(before.tree) == ast.dump(source.tree):
                raise DraftError(
                    inference.passed_on[0], "this tuple of several types is not passed on", "assign it to a variable"
                )


class _Inference:
    def __init__(self, function: t.Function, arguments: Sequence[t.Type], analysis: Analysis) -> None:
        self.function = function
        self.analysis = analysis
        self.instances = analysis.instances
        for version, given in zip(function.parameters, arguments, strict=True):
            version.type = tuple(given)
        self.changed = False
        self.whole: dict[t.Call, list[t.Expr]] = {}  # arguments, of which some are tuples that the callee gets in parts
        self.passed_on: list[Place] = []  # calls whose results are such arguments

    def run(self) -> None:
        for _ in range(_MOST_ROUNDS):
            self.changed = False
            for statement in t.walk(self.function.body):
                self._statement(statement)
            self._joins()
            if not self.changed:
                break
        self._require_types()
        self._result()

    # --------------------------------------------------------------------------------------------- statements

    def _set(self, version: t.Version, new: t.Type | None) -> None:
        if new is not None and new != version.type:
            version.type = new
            self.changed = True

    def _joins(self) -> None:
        for version in self.function.versions:
            if version.is_join and version.is_read:
                known = [source.type for source in version.sources if source.type is not None]
                if known:
                    self._set(version, self._unified(known, version))

    def _unified(self, parts: list[t.Type], version: t.Version) -> t.Type:
        joined = [oracle.unify(*column) for column in zip(*parts, strict=True)]
        if any(each is None for each in joined):
            names = " and ".join(sorted({str(each[0]) for each in parts}))
            raise DraftError(
                version.place, f"{version.name} is {names} by different ways", "give it one type, or two names"
            )
        return tuple(joined)

    def _statement(self, statement: t.Stmt) -> None:
        for outer in t.expressions(statement):
            self.type(outer)
        match statement:
            case t.Let(version=version, value=value):
                self._set(version, value.type)
            case t.Unpack(versions=versions, value=value):
                self._unpack(versions, value)
            case t.ForRange(version=version):
                self._range(statement)
                assert version is not None
                self._set(version, statement.counter)
            case t.ForTuple(version=version, elements=elements) if elements.type is not None:
                assert version is not None
                if not all(_is_series(each) for each in elements.type):
                    raise DraftError(
                        statement.place,
                        f"a loop over {elements.type[0]} is not translated",
                        "loop over range(...), an array of one dimension, or a tuple of numbers of one type",
                    )
                self._set(version, tuple(each.dtype for each in elements.type))
            case t.Store():
                self._store(statement)

    def _unpack(self, versions: list[t.Version], value: t.Expr) -> None:
        if value.type is None:
            return
        if all(isinstance(each, types.Array) and each.ndim == 1 for each in value.type):
            for version in versions:
                self._set(version, tuple(each.dtype for each in value.type))
            return
        for each in value.type:
            if not isinstance(each, types.BaseTuple) or len(each) != len(versions):
                raise DraftError(
                    value.place,
                    f"{len(versions)} variables cannot be assigned from {each}",
                    "write as many names as there are values",
                )
        for part, version in enumerate(versions):
            self._set(version, tuple(each[part] for each in value.type))

    def _range(self, statement: t.ForRange) -> None:
        if any(bound.type is None for bound in statement.bounds):
            return
        if not 1 <= len(statement.bounds) <= 3:
            raise DraftError(statement.place, "range takes one to three numbers", "write range(start, stop, step)")
        found = []
        for column in zip(*(bound.type or () for bound in statement.bounds), strict=True):
            signature = oracle.resolve(range, column)
            if signature is None:
                raise DraftError(
                    statement.place,
                    f"range of {', '.join(map(str, column))} is not translated",
                    "convert the bounds: int(n)",
                )
            found.append(signature.args[0])
        statement.counter = tuple(found)

    def _store(self, statement: t.Store) -> None:
        base, value = statement.base, statement.value
        if isinstance(value, t.Known):
            raise self._no_number(value)
        if base.type is None or value.type is None:
            return
        if _is_array(base.type):
            statement.indices = indices_in(statement.indices)
        element = (
            self._element(base, statement.indices)
            if statement.member is None
            else tuple(member_type(each, statement.member, statement.place) for each in base.type)
        )
        for each, given in zip(element, value.type, strict=True):
            if isinstance(given, types.Array):
                if not isinstance(each, types.Array) or given.ndim > each.ndim:
                    what = f"an array of {given.ndim} dimensions is assigned to {each}"
                    raise DraftError(statement.place, what, "assign an element, or write a loop")
            elif not isinstance(given, types.Number | types.Boolean):
                raise DraftError(statement.place, f"{given} is not assigned to an element", "assign numbers")
            if isinstance(each, types.Array) and statement.operator is not None:
                raise DraftError(statement.place, "an array is not changed as a whole", "write a loop")
        stored = value.type
        if statement.operator is not None:
            statement.signature = self._resolve(statement.operator, (element, value.type), statement)
            stored = tuple(each.return_type for each in statement.signature)
        require_storable(element, stored, statement.place)

    def _result(self) -> None:
        function = self.function
        values = [each.value for each in function.returns]
        if all(value is None for value in values):
            return
        if function.is_kernel:
            raise DraftError(function.returns[0].place, "a kernel returns nothing", "write the result to an array")
        if any(value is None for value in values) or not _always_returns(function.body):
            raise DraftError(
                function.returns[0].place, f"{function.name} returns a value by some ways only", "return one always"
            )
        columns = list(zip(*(value.type for value in values if value is not None and value.type), strict=True))
        joined = [oracle.unify(*column) for column in columns]
        if any(each is None for each in joined):
            raise DraftError(
                function.returns[0].place,
                f"{function.name} returns values of types that do not unify",
                "convert them to one type, as in float(k)",
            )
        function.result = tuple(joined)

    def _require_types(self) -> None:
        for statement in t.walk(self.function.body):
            for outer in t.expressions(statement):
                for each in t.walk_expression(outer):
                    if each.type is None and not isinstance(each, (t.Known, t.Slice, t.Call, t.Attribute)):
                        raise DraftError(
                            each.place,
                            "the type of this expression does not settle",
                            "assign numbers, arrays or tuples of numbers, of one type for each name",
                        )

    # --------------------------------------------------------------------------------------------- expressions

    def type(self, expression: t.Expr) -> t.Type | None:
        for child in expression.children():
            self.type(child)
        new = self._typed(expression)
        if new is not None:
            expression.type = new
        return expression.type

    def _each(self, kind: types.Type) -> t.Type:
        return (kind,) * self.instances

    def _typed(self, expression: t.Expr) -> t.Type | None:
        match expression:
            case t.Constant(value=value) | t.Table(values=value):
                return self._each(oracle.type_of_constant(value))
            case t.Read(version=version):
                return version.type
            case t.Known(value=value) if (kind := oracle.type_of_function(value)) is not None:
                return self._each(kind)
            case t.Known() | t.Slice():
                return _PARTIAL
            case t.Attribute():
                return self._attribute(expression)
            case t.Call():
                return self._call(expression)
        for child in expression.children():
            if isinstance(child, t.Known):
                raise self._no_number(child)
        if any(child.type is None for child in expression.children() if not isinstance(child, t.Slice)):
            return _PARTIAL
        match expression:
            case t.Unary(operator=op, operand=operand):
                expression.signature = self._resolve(op, (operand.type,), expression)
                return tuple(each.return_type for each in expression.signature)
            case t.Binary(operator=op, left=left, right=right):
                expression.signature = self._resolve(op, (left.type, right.type), expression)
                return tuple(each.return_type for each in expression.signature)
            case t.Compare(operators=operators, operands=operands):
                if any(isinstance(kind, types.BaseTuple) for each in operands for kind in each.type or ()):
                    raise DraftError(expression.place, "tuples are not compared", "compare their elements one by one")
                pairs = zip(operators, operands, operands[1:], strict=False)
                expression.signatures = [self._resolve(op, (a.type, b.type), expression) for op, a, b in pairs]
                return self._each(types.boolean)
            case t.Logical(operands=operands):
                return self._unify_expressions(operands, expression)
            case t.Choice(chosen=chosen, otherwise=otherwise):
                return self._unify_expressions([chosen, otherwise], expression)
            case t.Item(base=base):
                if _is_array(base.type):
                    expression.indices = indices_in(expression.indices)
                return self._element(base, expression.indices)
            case t.TupleOf(elements=elements):
                columns = zip(*(each.type or () for each in elements), strict=True)
                return tuple(types.BaseTuple.from_types(column) for column in columns)
        raise DraftError(
            expression.place,
            f"{type(expression).__name__} is not translated",
            "write arithmetic, comparisons and calls",
        )

    def _no_number(self, known: t.Known) -> DraftError:
        name = getattr(known.value, "__name__", str(known.value))
        return DraftError(known.place, f"{name} is no number", "call it, or compute with numbers")

    def _unify_expressions(self, parts: list[t.Expr], expression: t.Expr) -> t.Type:
        columns = list(zip(*(part.type or () for part in parts), strict=True))
        joined = [oracle.unify(*column) for column in columns]
        if any(each is None for each in joined):
            raise DraftError(
                expression.place,
                f"{' and '.join(map(str, columns[0]))} have no type in common",
                "convert one of them, as in float(k)",
            )
        return tuple(joined)

    def _resolve(self, function: Any, arguments: Any, at: t.Expr | t.Stmt) -> list[Any]:
        found = []
        for column in zip(*arguments, strict=True):
            signature = oracle.resolve(function, column)
            if signature is None:
                name = getattr(function, "__name__", str(function))
                raise DraftError(
                    at.place,
                    f"Numba has no {name} of {' and '.join(map(str, column))}",
                    "convert the operands, as in float32(x)",
                )
            found.append(signature)
        return found

    def _element(self, base: t.Expr, indices: list[t.Expr]) -> t.Type:
        found: list[types.Type] = []
        for each in base.type or ():
            if isinstance(each, types.BaseTuple):
                found.append(self._tuple_element(each, indices))
                continue
            if not isinstance(each, types.Array):
                raise DraftError(base.place, f"{each} has no elements", "index an array or a tuple")
            if len(indices) > each.ndim:
                raise DraftError(
                    base.place,
                    f"{len(indices)} indices of an array of {each.ndim} dimensions",
                    "write one index for each dimension",
                )
            for index in indices:
                if index.type is not None and not all(
                    isinstance(i, (types.Integer, types.Boolean)) for i in index.type
                ):
                    raise DraftError(
                        index.place, f"an index must be an integer, not {index.type[0]}", "convert it: int(index)"
                    )
            kept = each.ndim - sum(not isinstance(index, t.Slice) for index in indices)
            layout = each.layout if not any(isinstance(index, t.Slice) for index in indices) else "A"
            found.append(each.dtype if kept == 0 else each.copy(ndim=kept, layout=layout))
        return tuple(found)

    def _tuple_element(self, kind: types.BaseTuple, indices: list[t.Expr]) -> types.Type:
        index = indices[0]
        if isinstance(index, t.Constant) and isinstance(index.value, int):
            return kind[index.value]
        if isinstance(index, t.Slice):
            parts = kind.types[index.constant] if index.constant is not None else ()
            if not parts:
                raise DraftError(
                    index.place, "a part of a tuple has constant bounds, and elements", "write its elements one by one"
                )
            return types.BaseTuple.from_types(parts)
        if isinstance(kind, types.UniTuple):
            return kind.dtype
        raise DraftError(
            index.place,
            "an element of a tuple of mixed types is chosen by a constant",
            "write t[0] and t[1], each in its branch of an if",
        )

    def _attribute(self, expression: t.Attribute) -> t.Type | None:
        base, name = expression.base, expression.name
        if isinstance(base, t.Known):
            if name == "laneid" or (base.value in INDEX_STUBS and name in ("x", "y", "z")):
                return self._each(types.int32)
            raise DraftError(
                expression.place,
                f"{name} of {base.value} is not translated",
                "use x, y and z of cuda.threadIdx, blockIdx, blockDim and gridDim",
            )
        if base.type is None:
            return _PARTIAL
        found: list[types.Type] = []
        for each in base.type:
            part = vectors.member_type(each, name)
            if part is not None:
                found.append(part)
            elif isinstance(each, types.Record):
                found.append(member_type(each, name, expression.place))
            elif isinstance(each, types.BaseTuple) and name == "shape":
                found.append(types.UniTuple(types.int64, 1))  # the type of len
            elif isinstance(each, types.Array) and name in ("shape", "size", "ndim"):
                found.append(types.UniTuple(types.int64, each.ndim) if name == "shape" else types.int64)
            elif isinstance(each, types.Array) and name == "T":
                found.append(each if each.ndim < 2 else each.copy(layout="A"))
            elif name in ("real", "imag") and (isinstance(each, types.Complex) or _all_real(base.type)):
                found.append(getattr(each, "underlying_float", each))
            elif isinstance(each, types.Array) and name == "dtype":
                return _PARTIAL  # dtype_named determines it
            else:
                raise DraftError(
                    expression.place,
                    f".{name} of {each} is not translated",
                    "use shape, size, ndim or T of an array, or pass a number to the kernel",
                )
        return tuple(found)

    def _pass_in_parts(self, call: t.Call, callee: t.Function) -> None:
        if max(callee.widths, default=1) == 1:
            return
        self.whole[call] = call.arguments
        passed: list[t.Expr] = []
        for argument, width in zip(call.arguments, callee.widths, strict=True):
            if width > 1 and isinstance(argument, t.Call) and argument.place not in self.passed_on:
                self.passed_on.append(argument.place)
            passed += parts_of(argument, width) if width > 1 else [argument]
        call.arguments = passed

    def _index_of_atomic(self, atomic: t.Call) -> None:
        """Take the index apart if it is a tuple, and require one of an element."""
        base, index, *others = atomic.arguments
        if not _is_array(base.type):
            return
        parts = index.elements if isinstance(index, t.TupleOf) else indices_in([index])
        element = self._element(base, parts)
        if any(isinstance(each, types.Array) for each in element):
            problem = "an atomic operation is on an element of an array, not on a part of it"
            raise DraftError(atomic.place, problem, "write one index for each dimension: cuda.atomic.add(x, (i, j), v)")
        for each in others:
            if each.type is not None:
                require_storable(element, each.type, atomic.place)
        if parts != [index] and not isinstance(index, t.TupleOf):
            whole = t.TupleOf(index.place, parts)
            whole.type = index.type
            atomic.arguments = [base, whole, *others]

    def _call(self, expression: t.Call) -> t.Type | None:
        function = expression.function
        python = getattr(function, "py_func", None)
        known = _operation(function)
        expression.arguments = self.whole.get(expression, expression.arguments)
        counts = len(expression.arguments), len(expression.keywords)
        if known is None and python is not None and counts != (python.__code__.co_argcount, 0):
            bind(expression, read(python))
        arguments = [*expression.arguments, *expression.keywords.values()]
        for argument in arguments:
            self.type(argument)  # also of those that the call leaves out
        if known is None and python is None:
            name = getattr(function, "__qualname__", getattr(function, "__name__", str(function)))
            raise DraftError(expression.place, f"{name} is not translated", remedy_for(function, name))
        if known is None:
            for argument in arguments:
                if isinstance(argument, t.Known) and argument.type is None:
                    problem = "this is not passed to a device function"
                    remedy = "pass numbers, arrays, tuples and device functions, or use it there by its name"
                    raise DraftError(argument.place, problem, remedy)
            if any(argument.type is None for argument in arguments):
                return _PARTIAL
            given = [argument.type for argument in expression.arguments if argument.type]
            given, expression.result = converted(function, given, expression.place)
            callee = self.analysis.analyse(python, given, is_kernel=False)
            expression.callees = callee
            if callee not in self.function.callees:
                self.function.callees.append(callee)
            self._pass_in_parts(expression, callee)
            return expression.result or callee.result or self._each(types.none)
        if function in ATOMICS and len(expression.arguments) > 1:
            self._index_of_atomic(expression)
        signatures = []
        for instance in range(self.instances):
            signature = typed_call(known, expression, instance)
            if signature is None:
                return _PARTIAL
            signatures.append(signature)
        expression.signature = signatures
        return tuple(each.return_type for each in signatures)


def _parts(kind: t.Type, count: int | None) -> list[t.Type]:
    return [kind] if count is None else [tuple(each[number] for each in kind) for number in range(count)]


def _operation(function: Any) -> Any:
    try:
        return OPERATIONS.get(function)
    except TypeError:  # unhashable
        return None


def _all_real(kind: t.Type) -> bool:
    return all(isinstance(each, types.Integer | types.Float) for each in kind)


def _is_array(kind: t.Type | None) -> bool:
    return bool(kind) and all(isinstance(each, types.Array) for each in kind or ())


def _is_series(kind: types.Type) -> bool:
    return isinstance(kind, types.UniTuple) or (isinstance(kind, types.Array) and kind.ndim == 1)


def _always_returns(body: list[t.Stmt]) -> bool:
    match body[-1] if body else None:
        case t.Return():
            return True
        case t.If(body=chosen, otherwise=otherwise):
            return _always_returns(chosen) and _always_returns(otherwise)
        case t.While(test=t.Constant(value=value), body=inner):
            return bool(value) and not any(isinstance(each, t.Break) for each in t.walk(inner))
    return False


__all__ = ["Analysis", "dtype_named", "operator"]
