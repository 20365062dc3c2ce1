"""Writes the typed tree's statements as C++."""

from __future__ import annotations

from dataclasses import dataclass, replace

from numba import cuda, types

from trifold.draft import cpp
from trifold.draft import tree as t
from trifold.draft.arithmetic import UnnamedType
from trifold.draft.array_variables import ArrayVariables
from trifold.draft.arrays import Array, Extent
from trifold.draft.compound import assignment
from trifold.draft.cpp import fits
from trifold.draft.expressions import Expressions, is_tuple
from trifold.draft.operations import array_arguments, shape_of
from trifold.draft.order import Order
from trifold.draft.parts import Parts, stored_types
from trifold.draft.records import is_record, member_type
from trifold.draft.refusal import DraftError
from trifold.draft.remarks import Remarks
from trifold.draft.tree import Type
from trifold.draft.variables import Variable
from trifold.draft.views import NEW_ARRAYS
from trifold.draft.walk import names


@dataclass
class _Loop:
    flag: str | None  # the variable that records that the loop was left by break


class Statements(Parts):
    """The body of one function."""

    def __init__(self, function: t.Function, expressions: Expressions, result: Type | None) -> None:
        self.function = function
        self.write = expressions
        self.numbers = expressions.numbers
        self.result = result
        self.loops: list[_Loop] = []
        self.remarks = Remarks(function.source)
        self.fresh = {variable.name for variable in expressions.variables.all} | set(function.source.parameters)
        written = expressions.module.written(function)
        self.turns = ArrayVariables(function, expressions, written, self._name)

    def whole(self) -> list[cpp.Stmt]:
        """The function's body."""
        body = self.body(self.function.body)
        self.turns.settle()
        return body

    def body(self, statements: list[t.Stmt]) -> list[cpp.Stmt]:
        written: list[cpp.Stmt] = []
        for statement in statements:
            before, remark = self.remarks.of(statement, first=not written)
            try:
                declared = self._declarations(statement)
                own = [*declared, *self._computed_before(statement), *self._statement(statement)]
            except UnnamedType as error:
                raise DraftError(statement.place, str(error)) from None
            for each in own:
                each.line = statement.place.line
            if own and remark:
                # If a declaration precedes a loop or condition, the comment belongs to the latter.
                own[-1 if isinstance(own[-1], (cpp.For, cpp.ForEach, cpp.While, cpp.If)) else 0].remark = remark
            written += [*before, *own]
        return written

    def _computed_before(self, statement: t.Stmt) -> list[cpp.Stmt]:
        """Parts of a statement that C++ might compute in another order than Python, as variables."""
        order = Order(statement)
        found: list[cpp.Stmt] = []
        for number, each in enumerate(order.before):
            if number == order.old:
                found.append(self._old_value(statement))
            found.append(self._hold(each, each, self.write.value(each)))
        return [*found, self._old_value(statement)] if order.old == len(order.before) else found

    def _old_value(self, statement: t.Stmt) -> cpp.Stmt:
        """A variable for the element that ``x[i] += v`` changes."""
        assert isinstance(statement, t.Store)
        base, indices, member = statement.base, statement.indices, statement.member
        if member is not None:
            kind = tuple(member_type(each, member, statement.place) for each in base.type or ())
            return self._hold(statement, base, self.write.member(base, member, kind, None))
        kind = tuple(each.dtype for each in base.type or () if isinstance(each, types.Array))
        element, array = self.write.element(base, indices, "read")
        return self._hold(
            statement, t.Item(statement.place, base, indices), self.write.loaded(array, element, kind, None)
        )

    def _hold(self, key: t.Expr | t.Stmt, expression: t.Expr, value: cpp.Expr) -> cpp.Stmt:
        """The declaration of a variable that is used in place of an expression, or of a statement's old value."""
        wanted = "value"
        match expression:
            case t.Call(callees=t.Function(name=name)):
                wanted = f"{name}_result"
            case t.Item(base=t.Read(version=version)):
                wanted = f"old_{version.name}"
        own = self._name(wanted)
        self.write.held[key] = cpp.Name(own, type=value.type, interval=value.interval)
        kind = "auto" if value.type is None or is_tuple(value.type) else self.numbers.name(value.type)
        return cpp.Declare(f"const {kind}", [own], value)

    def _name(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self.fresh:
            name, number = f"{wanted}{number}", number + 1
        self.fresh.add(name)
        return name

    # --------------------------------------------------------------------------------------------- variables

    def _declarations(self, statement: t.Stmt) -> list[cpp.Stmt]:
        found: list[cpp.Stmt] = []
        for variable in self.write.variables.all:
            if variable.before is statement and not variable.starts and not variable.of_loop:
                if variable in self.turns.of:
                    found += self.turns.declared(variable)
                    continue
                if any(isinstance(each, types.Tuple | types.Record) for each in variable.type):
                    raise DraftError(
                        statement.place,
                        f"{variable.name} is another tuple or record by each way",
                        "give each its own name",
                    )
                found.append(cpp.Declare(self.numbers.name(variable.type), [variable.name]))
        return found

    def _variable(self, version: t.Version) -> Variable:
        return self.write.variables.of[version]

    def _assign(self, version: t.Version, value: cpp.Expr, statement: t.Stmt) -> cpp.Stmt:
        variable = self._variable(version)
        value = self.numbers.assigned(value, variable.type)
        if variable.before is statement and variable.starts:
            kind = self.numbers.name(variable.type)
            constant = variable.assignments == 1
            if isinstance(value, cpp.Braces) and value.of == kind:
                value = cpp.Braces(value.elements)
            return cpp.Declare(f"const {kind}" if constant else kind, [variable.name], value)
        return cpp.Assign(cpp.Name(variable.name), "=", value)

    # --------------------------------------------------------------------------------------------- statements

    def _statement(self, statement: t.Stmt) -> list[cpp.Stmt]:
        match statement:
            case t.Let():
                return self._let(statement)
            case t.Unpack():
                return self._unpack(statement)
            case t.Store():
                if statement.member is not None:
                    return [self._store_member(statement, statement.member)]
                if any(isinstance(each, types.Array) for each in stored_types(statement)):
                    return self._fill(statement)
                return [self._store(statement)]
            case t.Evaluate(value=value):
                return [cpp.Run(self.write.value(value))]
            case t.If(test=test, body=body, otherwise=otherwise):
                return [cpp.If(self.write.condition(test), self.body(body), self.body(otherwise))]
            case t.While():
                return self._while(statement)
            case t.ForRange():
                return self._for(statement)
            case t.ForTuple():
                return self._for_tuple(statement)
            case t.Return(of_assert=True) if self.write.module.simulated:
                raise DraftError(statement.place, "assert is not translated", "the interpreter raises it")
            case t.Return(value=value):
                return [cpp.Return(None if value is None else self._returned(value))]
            case t.Break():
                flag = self.loops[-1].flag
                left: list[cpp.Stmt] = [cpp.Assign(cpp.Name(flag), "=", cpp.Literal("true", True))] if flag else []
                return [*left, cpp.Jump("break")]
            case t.Continue():
                return [cpp.Jump("continue")]
        raise DraftError(
            statement.place,
            f"{type(statement).__name__} is not translated",
            "write assignments, conditions, loops and calls",
        )

    def _let(self, statement: t.Let) -> list[cpp.Stmt]:
        version, value = statement.version, statement.value
        if isinstance(value, t.Call) and value.function in NEW_ARRAYS:
            return self._new_array(version, value, statement)
        if any(isinstance(each, types.Array) for each in version.type or ()):
            return self._alias(version, value, statement)
        if is_record(version.type):
            return self._record(version, value, statement)
        if not version.is_read:
            # The value is not used, but its calls have effects.
            has_effect = any(isinstance(each, t.Call) for each in t.walk_expression(value))
            return [cpp.Run(self.write.value(value))] if has_effect else []
        if is_tuple(version.type):
            return self._tuple(version, value, statement)
        if isinstance(value, t.Binary) and value.in_place:
            compound = self._in_place(version, value)
            if compound is not None:
                return [compound]
        written = self._assign(version, self.write.value(value), statement)
        match written:
            case cpp.Assign(target=cpp.Name(text=name), operator="=", value=cpp.Name(text=same)) if name == same:
                return []  # a number that already has the type
        return [written]

    def _in_place(self, version: t.Version, value: t.Binary) -> cpp.Stmt | None:
        """The statement as `name += value`, if C++ computes that in the same type."""
        made = assignment(cpp.Name(self._variable(version).name), self.write.value(value))
        return made if made.operator != "=" else None

    def _store(self, statement: t.Store) -> cpp.Stmt:
        element, array = self.write.element(
            statement.base, statement.indices, "write" if statement.operator is None else "update"
        )
        kinds = [each.dtype for each in statement.base.type or () if isinstance(each, types.Array)]
        kind = tuple(kinds)
        if statement.operator is not None:
            made = self._update(statement, element, self.write.loaded(array, element, kind, None))
            if made.operator != "=":
                return made
            value = made.value
        else:
            value = self.write.value(statement.value)
        if array.stored is not None:
            return cpp.Assign(element, "=", self._as_stored(value, array.stored, kind))
        return cpp.Assign(element, "=", self.numbers.assigned(value, kind))

    # --------------------------------------------------------------------------------------------- loops

    def _while(self, statement: t.While) -> list[cpp.Stmt]:
        test = self.write.condition(statement.test)
        loop, before, after = self._with_otherwise(statement)
        return [*before, cpp.While(test, loop), *after]

    def _with_otherwise(
        self, statement: t.While | t.ForRange | t.ForTuple
    ) -> tuple[list[cpp.Stmt], list[cpp.Stmt], list[cpp.Stmt]]:
        """The body; what precedes the loop; and what follows it: `else`, unless `break` left the loop."""
        flag = None
        if statement.otherwise and _breaks(statement.body):
            flag = self._name("left_early")
        self.loops.append(_Loop(flag))
        body = self.body(statement.body)
        self.loops.pop()
        otherwise = self.body(statement.otherwise)
        if flag is None:
            return body, [], otherwise
        test = cpp.Prefix("!", cpp.Name(flag))
        return body, [cpp.Declare("bool", [flag], cpp.Literal("false", False))], [cpp.If(test, otherwise, [])]

    def _for(self, statement: t.ForRange) -> list[cpp.Stmt]:
        version = statement.version
        assert version is not None
        assert statement.counter is not None
        bounds = statement.bounds
        zero = cpp.Literal("0", 0, type=self.write.each(types.int32), interval=(0, 0))
        one = cpp.Literal("1", 1, type=self.write.each(types.int32), interval=(1, 1))
        start = self.write.value(bounds[0]) if len(bounds) > 1 else zero
        stop_source = bounds[1] if len(bounds) > 1 else bounds[0]
        before: list[cpp.Stmt] = []
        stop = self._held(stop_source, f"{version.name}_end", statement, before)
        step = self._held(bounds[2], f"{version.name}_step", statement, before) if len(bounds) > 2 else one
        variable = self._variable(version)
        kind = self._counter_type(variable, statement, stop, step)
        own = variable.name if variable.of_loop else self._name(f"next_{version.name}")
        if variable.of_loop:
            variable.type = kind
        counter = cpp.Name(own, type=kind, interval=version.interval)
        test = self._continues(counter, stop, step)
        body, declared, after = self._with_otherwise(statement)
        if not variable.of_loop:
            assigned = cpp.Assign(cpp.Name(variable.name), "=", self.numbers.assigned(counter, variable.type))
            body = [assigned, *body]
        if not any(isinstance(each, (t.While, t.ForRange, t.ForTuple, t.Break)) for each in t.walk(statement.body)):
            step = self.numbers.signed(step)
        step_by = cpp.Assign(counter, "+=", self.numbers.assigned(step, kind))
        if isinstance(step, cpp.Literal) and isinstance(step.value, int) and step.value < 0:
            positive = cpp.Literal(step.text.removeprefix("-"), -step.value)
            step_by = cpp.Assign(counter, "-=", positive)
        loop = cpp.For(self.numbers.name(kind), own, self.numbers.assigned(start, kind), test, step_by, body)
        return [*before, *declared, loop, *after]

    def _counter_type(self, variable: Variable, statement: t.ForRange, stop: cpp.Expr, step: cpp.Expr) -> Type:
        """`int` if the variable's last value, with which the loop ends, also fits."""
        assert statement.counter is not None
        if statement.counter[0] in (types.int64, types.uint64, types.int32) and stop.interval and step.interval:
            low = min(0, stop.interval[0] + 1 + min(step.interval[0], 0))
            high = stop.interval[1] - 1 + max(step.interval[1], 0)
            version = statement.version
            assert version is not None
            narrow = fits(version.interval, types.int32) and fits((low, max(high, low)), types.int32)
            if narrow:
                return self.write.each(types.int32)
            return self.write.each(types.uint64 if statement.counter[0] == types.uint64 else types.int64)
        counter: Type = statement.counter
        return counter

    def _continues(self, counter: cpp.Expr, stop: cpp.Expr, step: cpp.Expr) -> cpp.Expr:
        assert counter.type is not None
        kinds = (counter.type, counter.type)
        if step.interval is not None and step.interval[0] >= 1:
            return self.numbers.compare("<", counter, stop, kinds)
        if step.interval is not None and step.interval[1] <= -1:
            return self.numbers.compare(">", counter, stop, kinds)
        int64 = self.write.each(types.int64)
        arguments = tuple(self.numbers.convert(each, int64) for each in (counter, stop, step))
        return cpp.CallTo("trifold::in_range", arguments)

    def _held(self, bound: t.Expr, name: str, statement: t.ForRange, before: list[cpp.Stmt]) -> cpp.Expr:
        """A bound of a loop, which Python computes once, before the loop: as a variable, unless it is the same in each
        iteration."""
        value = self.write.value(bound)
        assigned = [each for each in _assigned_in(statement.body) if each in self.write.variables.of]
        changed = {name for version in assigned for name in self.turns.names_of(self._variable(version))}
        changed |= {self._variable(statement.version).name if statement.version else ""}
        loads = any(
            (isinstance(each, t.Item) and not (isinstance(each.base, t.Attribute) and each.base.name == "shape"))
            or (isinstance(each, t.Call) and each.callees is not None)
            or (isinstance(each, t.Attribute) and is_record(each.base.type))
            for each in t.walk_expression(bound)
        )
        if not loads and not (changed & names(value)):
            return value
        own = self._name(name)
        kind = value.type
        assert kind is not None
        before.append(cpp.Declare(f"const {self.numbers.name(kind)}", [own], value))
        return cpp.Name(own, type=kind, interval=value.interval)

    def _for_tuple(self, statement: t.ForTuple) -> list[cpp.Stmt]:
        version = statement.version
        assert version is not None
        variable = self._variable(version)
        if any(isinstance(each, types.Array) for each in statement.elements.type or ()):
            return self._for_array(statement, variable)
        elements = [self.numbers.convert(value, variable.type) for value in self.write.elements(statement.elements)]
        own = variable.name if variable.of_loop else self._name(f"next_{version.name}")
        body, declared, after = self._with_otherwise(statement)
        if not variable.of_loop:
            body = [cpp.Assign(cpp.Name(variable.name), "=", cpp.Name(own)), *body]
        kind = f"const {self.numbers.name(variable.type)}"
        return [*declared, cpp.ForEach(kind, own, cpp.Braces(tuple(elements)), body), *after]

    def _for_array(self, statement: t.ForTuple, variable: Variable) -> list[cpp.Stmt]:
        """A loop over the elements of an array."""
        array = self.write.array(statement.elements)
        length = array.describe(Extent.length, 0)
        before: list[cpp.Stmt] = []
        if not isinstance(length, (cpp.Literal, cpp.Name)):
            length = cpp.Name(self._name(f"{variable.name}_count"), type=length.type, interval=length.interval)
            before = [cpp.Declare("const int64_t", [length.text], array.describe(Extent.length, 0))]
        counter = cpp.Name(self._name(f"{variable.name}_place"), type=self.write.each(types.int64))
        kind = tuple(each.dtype for each in statement.elements.type or () if isinstance(each, types.Array))
        element = self.write.loaded(array, self.write.element_at(array, [counter], "read"), kind, None)
        body, declared, after = self._with_otherwise(statement)
        if variable.of_loop:
            first: cpp.Stmt = cpp.Declare(f"const {self.numbers.name(variable.type)}", [variable.name], element)
        else:
            first = cpp.Assign(cpp.Name(variable.name), "=", self.numbers.assigned(element, variable.type))
        return [*before, *declared, self._counting(counter, length, [first, *body]), *after]

    # --------------------------------------------------------------------------------------------- arrays

    def _new_array(self, version: t.Version, call: t.Call, statement: t.Let) -> list[cpp.Stmt]:
        shape, _ = array_arguments(call)
        lengths = shape_of(shape)
        kind = tuple(each.dtype for each in version.type or () if isinstance(each, types.Array))
        element = self.numbers.name(kind)
        shared = call.function is cuda.shared.array
        variable = self._in_turn(version)
        if lengths == (0,) and shared:
            made = self.write.dynamic_shared(call)
            if variable is not None:
                return [self.turns.assigned([(variable, made)], [], statement)]
            name = self._array_name(version)
            self.write.arrays[version] = replace(made, pointer=cpp.Name(name))
            return [cpp.Declare(f"{element}* const", [name], made.pointer)]
        if any(length < 1 for length in lengths):
            raise DraftError(call.place, "an array's lengths are positive", "write a constant above 0")
        name = self._array_name(version) if variable is None else self._name(f"{version.name}_memory")
        made = self.write.fixed_array(cpp.Name(name), lengths, "shared" if shared else "local")
        self.write.module.shapes[name] = lengths
        elements = shape.elements if isinstance(shape, t.TupleOf) else [shape]
        from trifold.draft.printer import expression

        extents = "".join(f"[{expression(self.write.value(each))}]" for each in elements)
        declared = cpp.Declare(f"__shared__ {element}" if shared else element, [name], extents=extents)
        if variable is None:
            self.write.arrays[version] = made
            return [declared]
        if not shared and statement not in self.function.body:
            raise DraftError(
                call.place, "a local array that is made in a branch or loop is several in turn", "make it before"
            )
        return [declared, self.turns.assigned([(variable, made)], [], statement)]

    def _array_name(self, version: t.Version) -> str:
        variable = self.write.variables.of.get(version)
        return variable.name if variable is not None else version.name

    def _alias(self, version: t.Version, value: t.Expr, statement: t.Stmt) -> list[cpp.Stmt]:
        """Another name for an array, or for a part of it."""
        if version not in self.write.variables.of:
            return []  # it is never read
        view = self.write.array(value)
        variable = self._in_turn(version)
        if variable is not None:
            return [self.turns.assigned([(variable, view)], [], statement)]
        if isinstance(value, (t.Read, t.Table)) and not view.changes:
            self.write.arrays[version] = view
            return []
        view = replace(view, pointer=self.write.first(view), nested=False)
        held = self._held_lengths(view, self._array_name(version), statement)
        kind = tuple(each.dtype for each in version.type or () if isinstance(each, types.Array))
        element = view.stored or self.numbers.name(kind)
        written = view.root is None or view.root in self.write.module.written(self.function)
        name = self._array_name(version)
        declared = cpp.Declare(f"{element if written else f'const {element}'}* const", [name], view.pointer)
        self.write.arrays[version] = replace(view, pointer=cpp.Name(name), changes=False)
        return [declared, held]

    def _in_turn(self, version: t.Version) -> Variable | None:
        """The variable that is assigned this array and others."""
        variable = self.write.variables.of.get(version)
        return variable if variable in self.turns.of else None

    def _held_lengths(self, view: Array, name: str, statement: t.Stmt) -> cpp.Several:
        """From now on, a length of the view is a variable, declared with the view as soon as it is used."""
        declared = cpp.Several([])
        known: dict[tuple[Extent, int], cpp.Expr] = {}
        describe = view.describe

        def held(kind: Extent, dimension: int) -> cpp.Expr:
            found = known.get((kind, dimension)) or describe(kind, dimension)
            if isinstance(found, (cpp.CallTo, cpp.Ternary)) or (view.changes and not isinstance(found, cpp.Literal)):
                suffix = f"{kind.value}{dimension if view.dimensions > 1 else ''}"
                own = self._name(f"{name}_{suffix}")
                declared.body.append(cpp.Declare("const int64_t", [own], found, line=statement.place.line))
                found = cpp.Name(own, type=found.type, interval=found.interval)
            known[kind, dimension] = found
            return found

        view.describe = held
        return declared


def _breaks(body: list[t.Stmt]) -> bool:
    """Whether a break leaves this loop and not one within it."""
    for statement in body:
        if isinstance(statement, t.Break):
            return True
        if isinstance(statement, t.If) and (_breaks(statement.body) or _breaks(statement.otherwise)):
            return True
    return False


def _assigned_in(body: list[t.Stmt]) -> list[t.Version]:
    found: list[t.Version] = []
    for statement in t.walk(body):
        if isinstance(statement, t.Let):
            found.append(statement.version)
        elif isinstance(statement, t.Unpack):
            found += statement.versions
        elif isinstance(statement, (t.ForRange, t.ForTuple)) and statement.version is not None:
            found.append(statement.version)
    return found
