"""Writes functions: kernels and the device functions that they call, each of these once for each combination of
argument types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from numba import types

from trifold.draft import cpp, oracle
from trifold.draft import tree as t
from trifold.draft.arithmetic import Arithmetic, UnnamedType
from trifold.draft.arrays import Array, Extent, Wanted
from trifold.draft.expressions import Expressions, is_tuple
from trifold.draft.operations import WRITE_ELEMENTS
from trifold.draft.origins import origins, written_with
from trifold.draft.overloads import Signature
from trifold.draft.printer import function_text
from trifold.draft.ranges import MOST_ELEMENTS, result_ranges
from trifold.draft.refusal import DraftError
from trifold.draft.reserved import FUNCTION_NAMES, VARIABLES
from trifold.draft.statements import Statements
from trifold.draft.tree import Type
from trifold.draft.tuples import whole_results
from trifold.draft.type_names import replaced
from trifold.draft.variables import KEYWORDS, choose_variables, narrowed
from trifold.draft.walk import walk
from trifold.prototype import THREADS_PER_BLOCK


@dataclass(frozen=True)
class Parameter:
    """A parameter of a C++ kernel, and the argument of the Python kernel that it comes from."""

    name: str
    type: str
    argument: int
    kind: str  # array, value, stride, length or size
    dimension: int = 0


@dataclass
class Written:
    function: cpp.Function
    parameters: list[Parameter]
    types: list[Type | None]  # of each parameter of the Python function; None: an array
    wanted: list[list[Wanted]]  # for each of them, the numbers that describe the array
    result: Type | None
    explicit: tuple[str, ...]  # template arguments that C++ cannot deduce
    given: dict[str, str] = field(default_factory=dict)  # see :func:`trifold.draft.unify.unify`


@dataclass
class Module:
    """The contents of one file.

    ``names``: the name of a type that differs between instances, a template parameter. ``stored``: by the number of a
    kernel's array parameter, the name of its element type if loads and stores convert. ``simulated``: see
    :func:`trifold.draft.kernel.draft_kernel`. ``shapes``: the lengths of shared and local arrays.
    """

    numbers: Arithmetic
    simulated: bool = False
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    parts: list[cpp.Part] = field(default_factory=list)
    constants: dict[str, tuple[object, types.Type]] = field(default_factory=dict)
    tables: dict[str, cpp.TableDefinition] = field(default_factory=dict)
    _written: dict[tuple[t.Function, tuple[str | None, ...]], Written] = field(default_factory=dict)
    _whole: set[t.Function] = field(default_factory=set)
    _structs: dict[t.Function, str] = field(default_factory=dict)
    _stores: dict[t.Function, set[int]] = field(default_factory=dict)
    _signatures: dict[str, list[Signature]] = field(default_factory=dict)
    _texts: dict[str, Written] = field(default_factory=dict)

    def constant(self, name: str, value: object, kind: types.Type) -> str | None:
        """The name of a global constant; None: it has none, or the name is taken."""
        if (name, value) == ("THREADS_PER_BLOCK", THREADS_PER_BLOCK):
            return "trifold::threads_per_block"
        own = name.lstrip("_")
        if "." in name or own in KEYWORDS or own in self.numbers.names.order:
            return None
        if own in self.tables or self.constants.setdefault(own, (value, kind)) != (value, kind):
            return None
        return own

    def table(self, name: str, kind: str, shape: tuple[int, ...], values: list[cpp.Expr]) -> str:
        """The name of an array of constants."""
        wanted = name.rpartition(".")[2].lstrip("_") or "table"
        own, number = wanted, 2
        made = cpp.TableDefinition(kind, own, shape, values)
        while own in KEYWORDS or own in self.constants or self.tables.get(own, made) != made:
            own, number = f"{wanted}{number}", number + 1
            made = cpp.TableDefinition(kind, own, shape, values)
        self.tables[own] = made
        return own

    def constant_definitions(self, used: set[str]) -> list[cpp.Part]:
        tables: list[cpp.Part] = [table for name, table in self.tables.items() if name in used]
        return [*tables, *constant_definitions({name: each for name, each in self.constants.items() if name in used})]

    # --------------------------------------------------------------------------------------------- functions

    def write(self, function: t.Function, stored: tuple[str | None, ...]) -> Written:
        if function.is_kernel:
            self._whole |= whole_results(function)
        key = (function, stored)
        if key not in self._written:
            own = self._write(function, stored)
            # Two kernels that call a function with arguments of the same types share it.
            text = function_text(own.function)
            if text in self._texts:
                own = self._texts[text]
            else:
                self._texts[text] = own
                own.function.name = self._free_name(own.function)
                self.parts.append(own.function)
            self._written[key] = own
        return self._written[key]

    def _write(
        self, function: t.Function, stored: tuple[str | None, ...], taken: frozenset[str] = VARIABLES
    ) -> Written:
        """``taken``: names that variables must not get."""
        instances = self.numbers.names.instances
        expressions = Expressions(self, instances)
        letters = self.numbers.names.order if instances > 1 or any(stored) else ()
        expressions.variables = choose_variables(function, {*taken, *letters})
        wanted: dict[int, list[Wanted]] = {}
        kinds: list[Type | None] = []
        used_before, self.numbers.used = self.numbers.used, set()
        for number, version in enumerate(function.parameters):
            kind = version.type
            assert kind is not None
            if any(isinstance(each, types.Array) for each in kind):
                kinds.append(None)
                expressions.arrays[version] = self._array_parameter(
                    number, version, expressions, stored[number], wanted.setdefault(number, [])
                )
                if not function.is_kernel:
                    expressions.arrays[version].space = "passed"
            elif oracle.has_no_value(kind):
                kinds.append(kind)
            else:
                variable = expressions.variables.of[version]
                if not function.is_kernel and len(variable.versions) == 1:
                    variable.type = narrowed(variable.type, version.interval)
                elif variable.type != kind and function.is_kernel:
                    raise DraftError(version.place, f"{version.name} changes its type", "use another name")
                kinds.append(variable.type)
        result = self._result(function)
        try:
            body = Statements(function, expressions, result).whole()
            clashing = self._clashing(expressions, wanted, body)
            if clashing - taken:
                self.numbers.used = used_before
                return self._write(function, stored, taken | clashing)
            made = self._function(function, expressions, kinds, wanted, stored, result, body)
        except UnnamedType as error:
            raise DraftError(function.source.place(function.source.tree), str(error)) from None
        self.numbers.used = used_before
        return made

    def _clashing(
        self, expressions: Expressions, wanted: dict[int, list[Wanted]], body: list[cpp.Stmt]
    ) -> frozenset[str]:
        """Variables whose names the body uses for functions, or for an array's length or stride."""
        called = {each.function for part in body for each in walk(part) if isinstance(each, cpp.CallTo)}
        arrays = expressions.arrays.values()
        for array in [each for each in arrays if each.root is not None and isinstance(each.pointer, cpp.Name)]:
            for one in wanted.get(array.root or 0, []):
                if one.array == array.pointer.text:  # type: ignore[attr-defined]
                    called.add(one.name(array.dimensions, array.contiguous))
        return frozenset(called & {each.name for each in expressions.variables.all})

    def _array_parameter(
        self, number: int, version: t.Version, expressions: Expressions, stored: str | None, wanted: list[Wanted]
    ) -> Array:
        kind = version.type
        assert kind is not None
        array = kind[0]
        assert isinstance(array, types.Array)
        name = expressions.variables.of[version].name

        def describe(extent: Extent, dimension: int) -> cpp.Expr:
            if extent is Extent.size and array.ndim == 1:
                extent = Extent.length
            one = Wanted(name, extent, dimension)
            if one not in wanted:
                wanted.append(one)
            bounds = (
                (-MOST_ELEMENTS, MOST_ELEMENTS)
                if extent is Extent.stride and array.layout != "C"
                else (0, MOST_ELEMENTS)
            )
            return cpp.Name(
                one.name(array.ndim, array.layout == "C"), type=expressions.each(types.int64), interval=bounds
            )

        contiguous = array.layout == "C"
        return Array(cpp.Name(name), array.ndim, describe, contiguous=contiguous, stored=stored, root=number)

    def _function(
        self,
        function: t.Function,
        expressions: Expressions,
        kinds: list[Type | None],
        wanted: dict[int, list[Wanted]],
        stored: tuple[str | None, ...],
        result: Type | None,
        body: list[cpp.Stmt],
    ) -> Written:
        parameters: list[Parameter] = []
        written = self.written(function)
        for number, version in enumerate(function.parameters):
            name = expressions.variables.of[version].name
            kind = version.type
            assert kind is not None
            if oracle.has_no_value(kind):
                continue
            if kinds[number] is not None:
                parameters.append(Parameter(name, self.numbers.name(kinds[number]), number, "value"))  # type: ignore[arg-type]
                continue
            element = stored[number] or self.numbers.name(tuple(each.dtype for each in kind))
            if stored[number]:
                self.numbers.used.add(element)
            pointer = f"{element}*" if number in written else f"const {element}*"
            parameters.append(Parameter(name, pointer, number, "array"))
            dimensions, contiguous = kind[0].ndim, kind[0].layout == "C"
            wanted[number].sort(key=lambda each: (list(Extent).index(each.kind), each.dimension))
            parameters += [
                Parameter(one.name(dimensions, contiguous), "int64_t", number, one.kind.value, one.dimension)
                for one in wanted[number]
            ]
        text = "void" if function.is_kernel else self._result_name(function, result)
        letters, derived = self.numbers.names.template(set(self.numbers.used), function.is_kernel)
        parameters = [replace(each, type=replaced(each.type, derived)) for each in parameters]
        text = replaced(text, derived)
        body = [*_definitions(derived, body), *body]
        # C++ deduces the others.
        found = {each.type.removeprefix("const ").rstrip("*") for each in parameters}
        explicit = tuple(letter for letter in letters if letter not in found)
        template = ", ".join(f"class {letter}" for letter in sorted(letters, key=lambda each: each in found))
        name = function.name.lstrip("_") or function.name
        name += "_" if name in KEYWORDS or name in FUNCTION_NAMES else ""
        made = cpp.Function(
            _comment(function),
            template,
            "__global__" if function.is_kernel else "__device__ __forceinline__",
            text,
            name,
            [cpp.Parameter(p.type, p.name) for p in parameters],
            body,
            function.source.path,
        )
        return Written(made, parameters, kinds, [wanted.get(n, []) for n in range(len(kinds))], result, explicit)

    def _free_name(self, function: cpp.Function) -> str:
        """Functions of one name must differ in their parameters. A kernel cannot be overloaded, since launches name
        it."""
        is_kernel = function.qualifiers == "__global__"
        types = () if is_kernel else tuple(each.type for each in function.parameters)
        signature = Signature.of(types, "" if is_kernel else function.template)
        own, number = function.name, 2
        while not all(signature.allows(each) for each in self._signatures.get(own, ())):
            own, number = f"{function.name}{number}", number + 1
        self._signatures.setdefault(own, []).append(signature)
        return own

    # --------------------------------------------------------------------------------------------- calls

    def call(self, expressions: Expressions, call: t.Call) -> cpp.Expr:
        callee: t.Function = call.callees
        arrays = [self._argument_array(expressions, argument) for argument in call.arguments]
        written = self.write(callee, tuple(array.stored if array else None for array in arrays))
        arguments: list[cpp.Expr] = []
        for number, (argument, array) in enumerate(zip(call.arguments, arrays, strict=True)):
            kind = written.types[number]
            if oracle.has_no_value(kind or ()):
                continue
            if array is None:
                assert kind is not None
                arguments.append(self.numbers.convert(expressions.value(argument), kind))
                continue
            if array.contiguous is False and call.callees.parameters[number].type[0].layout == "C":
                raise DraftError(
                    argument.place,
                    "a part of an array that is not contiguous is passed as if it were",
                    "pass the whole array, and the index at which the part begins",
                )
            arguments.append(expressions.first(array))
            arguments += [array.describe(one.kind, one.dimension) for one in written.wanted[number]]
        result = written.result
        name = written.function.name + (f"<{', '.join(written.explicit)}>" if written.explicit else "")
        self.numbers.used.update(written.explicit)
        interval = call.interval
        if call.result is None:
            return cpp.CallTo(name, tuple(arguments), type=result or call.type, interval=interval)
        made = cpp.CallTo(name, tuple(arguments), type=result or callee.result)
        return self.numbers.convert(made, call.result)

    def _argument_array(self, expressions: Expressions, argument: t.Expr) -> Array | None:
        if not any(isinstance(each, types.Array) for each in argument.type or ()):
            return None
        return expressions.array(argument)

    def returns_array(self, function: t.Function) -> bool:
        """Whether a device function returns a tuple as a ``trifold::Array``."""
        return function in self._whole and all(isinstance(each, types.UniTuple) for each in function.result or ())

    def members_of(self, call: t.Call) -> list[tuple[Type, str]]:
        return self.members(call.callees)

    def members(self, function: t.Function) -> list[tuple[Type, str]]:
        """Types and names of the elements of the tuple that a device function returns."""
        function = _maker(function)
        assert function.result is not None
        count = len(function.result[0])
        ranges = result_ranges(function)
        rows = [each.value.elements for each in function.returns if isinstance(each.value, t.TupleOf)]
        # Named as in the last return.
        names = [_name_of(each) for each in rows[-1]] if rows else []
        if len(set(names)) < count or "" in names:
            names = [("first", "second", "third", "fourth")[i] if i < 4 else f"part{i}" for i in range(count)]
        kinds = [tuple(each[i] for each in function.result) for i in range(count)]
        return [(narrowed(kind, interval), name) for kind, interval, name in zip(kinds, ranges, names, strict=True)]

    def _result(self, function: t.Function) -> Type | None:
        if function.result is None:
            return None
        if is_tuple(function.result):
            return function.result if self.returns_array(function) else None
        return narrowed(function.result, result_ranges(function)[0])

    def _result_name(self, function: t.Function, result: Type | None) -> str:
        if function.result is None:
            return "void"
        if result is not None:
            return self.numbers.name(result)
        function = _maker(function)
        members = [(self.numbers.name(kind), name) for kind, name in self.members(function)]
        letters = [each for each in self.numbers.names.order if each in {kind for kind, _ in members}]
        if function not in self._structs:
            words = "".join(word.capitalize() for word in function.name.split("_"))
            template = ", ".join(f"class {each}" for each in letters)
            struct = cpp.Struct(f"{words}Result", template, members)
            known = [each for each in self.parts if isinstance(each, cpp.Struct)]
            if struct not in known:
                count = sum(each.name.startswith(struct.name) for each in known)
                struct.name += str(count + 1) if count else ""
                self.parts.append(struct)
            self._structs[function] = struct.name
        name = self._structs[function]
        return f"{name}<{', '.join(letters)}>" if letters else name

    def written(self, function: t.Function) -> set[int]:
        """The numbers of the array parameters that a function, or what it calls, writes to."""
        if function in self._stores:
            return self._stores[function]
        found: set[int] = set()
        for statement in t.walk(function.body):
            if isinstance(statement, t.Store):
                found |= origins(statement.base).parameters
            for outer in t.expressions(statement):
                for each in t.walk_expression(outer):
                    if isinstance(each, t.Call) and each.callees is not None:
                        for number in self.written(each.callees):
                            found |= origins(each.arguments[number]).parameters
                    elif isinstance(each, t.Call) and each.function in WRITE_ELEMENTS:
                        found |= origins(each.arguments[0]).parameters
        found = written_with(found, function)
        self._stores[function] = found
        return found


def _name_of(value: t.Expr) -> str:
    """The name of the variable that is returned, perhaps converted; "" if another expression is."""
    if isinstance(value, t.Call) and isinstance(value.function, types.Number) and len(value.arguments) == 1:
        value = value.arguments[0]
    return value.version.name if isinstance(value, t.Read) else ""


def constant_definitions(constants: Mapping[str, tuple[object, types.Type]]) -> list[cpp.ConstantDefinition]:
    """The definitions of named numbers, with their types."""
    found = []
    for name, (value, kind) in constants.items():
        masks = isinstance(value, int) and value >= 2**31
        text = (f"0x{value:X}" if masks else repr(value)) + ("f" if kind == types.float32 else "")
        found.append(cpp.ConstantDefinition(cpp.NAMES[kind], name, text))
    return found


def _maker(function: t.Function) -> t.Function:
    """The function that creates the tuple that this one returns: itself, or the one whose result it passes on."""
    (first, *others) = function.returns
    if not others and isinstance(first.value, t.Call) and first.value.callees is not None:
        return _maker(first.value.callees)
    return function


def _definitions(names: dict[str, str], body: list[cpp.Stmt]) -> list[cpp.Stmt]:
    """``using`` declarations for those of these names that a body uses."""
    text = function_text(cpp.Function([], "", "", "", "", [], body, ""))
    wanted: list[cpp.Stmt] = []
    for name, meaning in reversed(names.items()):
        if re.search(rf"\b{name}\b", text):
            wanted.append(cpp.Declare(f"using {name}", [], cpp.Name(meaning)))
            text += meaning
    return wanted[::-1]


def _comment(function: t.Function) -> list[str]:
    text = function.source.docstring
    return re.sub(r":\w+:`", "`", text.replace("``", "`")).splitlines() if text else []
