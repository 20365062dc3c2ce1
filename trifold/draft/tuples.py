"""Tuples in C++. A tuple that is only unpacked becomes variables, an array or a result's members; any other tuple of
one type is a ``trifold::Array``."""

from __future__ import annotations

from dataclasses import replace

from numba import types

from trifold.draft import cpp
from trifold.draft import tree as t
from trifold.draft.array_variables import ArrayVariables, Move, in_parallel
from trifold.draft.arrays import Array
from trifold.draft.expressions import Expressions, is_pure, is_tuple
from trifold.draft.libdevice import WITH_OUTPUTS
from trifold.draft.origins import is_array
from trifold.draft.refusal import DraftError
from trifold.draft.tree import Type
from trifold.draft.variables import Variable, narrowed


def whole_results(kernel: t.Function) -> set[t.Function]:
    """The functions that return a tuple of one type of which some call is used as a whole."""
    found: set[t.Function] = set()
    passed_on: dict[t.Function, set[t.Function]] = {}
    waiting, seen = [kernel], {kernel}
    while waiting:
        function = waiting.pop()
        waiting += [each for each in function.callees if each not in seen]
        seen |= set(function.callees)
        apart = taken_apart(function)
        for statement in t.walk(function.body):
            own = [
                each
                for outer in t.expressions(statement)
                for each in t.walk_expression(outer)
                if isinstance(each, t.Call) and each.callees is not None and is_tuple(each.type)
            ]
            match statement:
                case t.Return(value=value) if value in own:
                    passed_on.setdefault(function, set()).add(value.callees)
                    own.remove(value)
                case t.Unpack(value=value) if value in own:
                    own.remove(value)
                case t.Let(value=value, version=version) if value in own and version in apart:
                    own.remove(value)
            found |= {each.callees for each in own}
    for function in list(found):
        found |= passed_on.get(function, set())
    return found


def taken_apart(function: t.Function) -> set[t.Version]:
    """The tuples of which only elements are used, and whose names have no other value."""
    tuples = {version for version in function.versions if is_tuple(version.type) and not version.is_join}
    names = [version.name for version in function.versions if version.is_read or not version.is_join]
    used_whole: set[t.Version] = set()
    for statement in t.walk(function.body):
        apart: set[t.Expr] = set()
        if isinstance(statement, t.Unpack):
            apart.add(statement.value)
        elif isinstance(statement, t.ForTuple):
            apart.add(statement.elements)
        for outer in t.expressions(statement):
            for each in t.walk_expression(outer):
                if isinstance(each, (t.Item, t.Attribute)):
                    apart.add(each.base)
            for each in t.walk_expression(outer):
                if isinstance(each, t.Read) and each not in apart:
                    used_whole.add(each.version)
    return {version for version in tuples - used_whole if names.count(version.name) == 1 and version.parameter is None}


def chosen_by_variables(function: t.Function) -> set[t.Version]:
    """The tuples with an element selected by a non-constant index, or that are looped over."""
    found: set[t.Version] = set()
    for statement in t.walk(function.body):
        if isinstance(statement, t.ForTuple) and isinstance(statement.elements, t.Read):
            found.add(statement.elements.version)
        for outer in t.expressions(statement):
            for each in t.walk_expression(outer):
                if isinstance(each, t.Item) and isinstance(each.base, t.Read) and not _is_constant(each.indices):
                    found.add(each.base.version)
    return found


def _is_constant(indices: list[t.Expr]) -> bool:
    return all(isinstance(index, t.Constant) for index in indices)


class Tuples:
    """A base class of :class:`trifold.draft.statements.Statements`."""

    function: t.Function
    write: Expressions
    turns: ArrayVariables
    result: Type | None

    def _name(self, wanted: str) -> str:
        raise NotImplementedError

    def _array_name(self, version: t.Version) -> str:
        raise NotImplementedError

    def _variable(self, version: t.Version) -> Variable:
        raise NotImplementedError

    def _assign(self, version: t.Version, value: cpp.Expr, statement: t.Stmt) -> cpp.Stmt:
        raise NotImplementedError

    def _alias(self, version: t.Version, value: t.Expr, statement: t.Stmt) -> list[cpp.Stmt]:
        raise NotImplementedError

    def _in_turn(self, version: t.Version) -> Variable | None:
        raise NotImplementedError

    # --------------------------------------------------------------------------------------------- variables

    def _tuple(self, version: t.Version, value: t.Expr, statement: t.Let) -> list[cpp.Stmt]:
        kinds = version.type or ()
        mixed = any(not isinstance(each, types.UniTuple) for each in kinds)
        if version not in taken_apart(self.function):
            if mixed:
                raise DraftError(
                    statement.place, "a variable that is a tuple of several types is not translated", "unpack it"
                )
            return [self._assign(version, self.write.value(value), statement)]
        if isinstance(value, t.Call) and value.callees is not None:
            if version in chosen_by_variables(self.function):
                name = self._name(f"{version.name}_parts")
                parts = self.write.members(value, cpp.Name(name))
                return [cpp.Declare("const auto", [name], self.write.value(value)), self._as_array(version, parts)]
            name = self._array_name(version)
            self.write.parts[version] = self.write.members(value, cpp.Name(name))
            return [cpp.Declare("const auto", [name], self.write.value(value))]
        elements = self.write.elements(value)
        return self._as_variables(version, elements) if mixed else [self._as_array(version, elements)]

    def _as_array(self, version: t.Version, parts: list[cpp.Expr]) -> cpp.Stmt:
        """A constant array."""
        numbers = self.write.numbers
        kind = tuple(each.dtype for each in version.type or () if isinstance(each, types.UniTuple))
        intervals = [each.interval for each in parts]
        if all(isinstance(each, cpp.Literal) for each in parts) and None not in intervals:
            kind = narrowed(kind, (min(low for low, _ in intervals), max(high for _, high in intervals)))  # type: ignore[misc]
        elements = tuple(each if isinstance(each, cpp.Literal) else numbers.convert(each, kind) for each in parts)
        name = self._array_name(version)
        made = self.write.fixed_array(cpp.Name(name), (len(parts),), "local")
        self.write.arrays[version] = replace(made, element=kind)
        return cpp.Declare(f"const {numbers.name(kind)}", [name], cpp.Braces(elements), f"[{len(parts)}]")

    def _as_variables(self, version: t.Version, elements: list[cpp.Expr]) -> list[cpp.Stmt]:
        """Separate variables for the elements of a tuple of several types."""
        written: list[cpp.Stmt] = []
        parts: list[cpp.Expr] = []
        for number, element in enumerate(elements):
            kind = tuple(each[number] for each in version.type or () if isinstance(each, types.BaseTuple))
            name = self._name(f"{version.name}{number}")
            value = self.write.numbers.assigned(element, kind)
            written.append(cpp.Declare(f"const {self.write.numbers.name(kind)}", [name], value))
            parts.append(cpp.Name(name, type=kind))
        self.write.parts[version] = parts
        return written

    # --------------------------------------------------------------------------------------------- unpacking

    def _unpack(self, statement: t.Unpack) -> list[cpp.Stmt]:
        value, versions = statement.value, statement.versions
        if any(is_array(version.type) for version in versions) and isinstance(value, t.TupleOf):
            return self._unpack_arrays(versions, value.elements, statement)
        if isinstance(value, t.Call) and value.function in WITH_OUTPUTS:
            return self._unpack_outputs(versions, value, statement)
        if isinstance(value, t.Call) and value.callees is not None:
            return self._unpack_call(versions, value, statement)
        if is_array(value.type):
            elements = self.write.elements_of_array(value, len(versions))
            return self._in_parallel(versions, elements, statement)
        assigned = self._in_parallel(versions, self.write.elements(value), statement)
        return [*self._unused(versions, value), *assigned]

    def _unused(self, versions: list[t.Version], value: t.Expr) -> list[cpp.Stmt]:
        """The elements of a tuple that are assigned to variables that are never read, if they have effects."""
        elements = value.elements if isinstance(value, t.TupleOf) else []
        return [
            cpp.Run(self.write.value(element))
            for version, element in zip(versions, elements, strict=False)
            if not version.is_read
            and any(
                isinstance(each, t.Call) and each not in self.write.held and not is_pure(each)
                for each in t.walk_expression(element)
            )
        ]

    def _in_parallel(self, versions: list[t.Version], values: list[cpp.Expr], statement: t.Stmt) -> list[cpp.Stmt]:
        """Computes all values before the first is assigned."""
        pairs = [(version, value) for version, value in zip(versions, values, strict=True) if version.is_read]
        return in_parallel([self._move(*pair, statement) for pair in pairs], self._name)

    def _move(self, version: t.Version, value: cpp.Expr, statement: t.Stmt) -> Move:
        assigned = self._assign(version, value, statement)
        assert isinstance(assigned, (cpp.Assign, cpp.Declare))
        return Move(assigned, self.write.numbers.name(self._variable(version).type))

    def _unpack_arrays(self, versions: list[t.Version], values: list[t.Expr], statement: t.Unpack) -> list[cpp.Stmt]:
        """Unpacks arrays, and possibly numbers."""
        written: list[cpp.Stmt] = []
        arrays: list[tuple[Variable, Array]] = []
        numbers: list[Move] = []
        for version, value in zip(versions, values, strict=True):
            variable = self._in_turn(version)
            if not version.is_read:
                continue
            if variable is not None:
                arrays.append((variable, self.write.array(value)))
            elif is_array(version.type):
                written += self._alias(version, value, statement)
            else:
                numbers.append(self._move(version, self.write.value(value), statement))
        return [*written, self.turns.assigned(arrays, numbers, statement)]

    def _unpack_call(self, versions: list[t.Version], call: t.Call, statement: t.Unpack) -> list[cpp.Stmt]:
        value = self.write.value(call)
        if self.write.module.returns_array(call.callees):
            name = self._name(f"{call.callees.name}_result")
            parts = self.write.members(call, cpp.Name(name))
            return [cpp.Declare("const auto", [name], value), *self._in_parallel(versions, parts, statement)]
        members = self.write.module.members_of(call)
        variables = [self.write.variables.of.get(version) for version in versions]
        alone = all(
            variable is not None
            and variable.before is statement
            and variable.starts
            and variable.assignments == 1
            and variable.type == kind
            for variable, (kind, _) in zip(variables, members, strict=True)
        )
        if alone:
            names = ", ".join(variable.name for variable in variables if variable is not None)
            return [cpp.Declare("const auto", [f"[{names}]"], value)]
        name = self._name(f"{call.callees.name}_result")
        written: list[cpp.Stmt] = [cpp.Declare("const auto", [name], value)]
        for version, (kind, member) in zip(versions, members, strict=True):
            if version.is_read:
                part = cpp.Member(cpp.Name(name), member, type=kind, interval=version.interval)
                written.append(self._assign(version, part, statement))
        return written

    def _unpack_outputs(self, versions: list[t.Version], call: t.Call, statement: t.Unpack) -> list[cpp.Stmt]:
        """A function of CUDA that writes some of its results through pointers."""
        function = WITH_OUTPUTS[call.function]
        kinds = [tuple(each[part] for each in call.type or ()) for part in range(len(versions))]
        names = [self._name(f"{version.name}_part") for version in versions]
        parts: list[cpp.Expr] = [cpp.Name(name, type=kind) for name, kind in zip(names, kinds, strict=True)]
        outputs = parts[1:] if function.returns else parts
        addresses = tuple(cpp.Prefix("&", each) for each in outputs)
        called = self.write.call(function.name, call)
        assert isinstance(called, cpp.CallTo)
        called = cpp.CallTo(called.function, (*called.arguments, *addresses), type=kinds[0])
        numbers = self.write.numbers
        written: list[cpp.Stmt] = [
            cpp.Declare(numbers.name(kind), [name])
            for name, kind in list(zip(names, kinds, strict=True))[len(parts) - len(outputs) :]
        ]
        if function.returns:
            written.append(cpp.Declare(f"const {numbers.name(kinds[0])}", [names[0]], called))
        else:
            written.append(cpp.Run(called))
        return [*written, *self._in_parallel(versions, parts, statement)]

    # --------------------------------------------------------------------------------------------- results

    def _returned(self, value: t.Expr) -> cpp.Expr:
        numbers = self.write.numbers
        if not is_tuple(value.type):
            written = self.write.value(value)
            return written if self.result is None else numbers.assigned(written, self.result)
        if isinstance(value, t.Call) and value.callees is not None:
            if self.result is None and len(self.function.returns) > 1:
                raise DraftError(value.place, "this tuple is not translated", "return the elements, written out")
            return self.write.value(value)
        if self.result is not None and not isinstance(value, t.TupleOf):
            return self.write.value(value)
        members = self.write.module.members(self.function)
        if self.result is not None:
            members = [(tuple(each[n] for each in self.result), "") for n in range(len(members))]
        parts = []
        for own, (kind, _) in zip(self.write.elements(value), members, strict=True):
            parts.append(own if isinstance(own, cpp.Literal) else numbers.convert(own, kind))
        return cpp.Braces(tuple(parts))
