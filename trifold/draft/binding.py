"""The two C++ files of an op: its kernels (``.cuh``), and its binding (``.cu``), from the launch functions."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import torch
from numba import types

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.arithmetic import Arithmetic
from trifold.draft.from_calls import Calls, FromCalls, Unchecked, What, rows_after, rows_of, tensors_after
from trifold.draft.functions import Module, Written, constant_definitions
from trifold.draft.host import Host, Launch
from trifold.draft.host_cpp import call, scalar_of, scalar_type, text_of
from trifold.draft.infer import Analysis
from trifold.draft.kernel import file_of
from trifold.draft.launch_bounds import LaunchBounds
from trifold.draft.overlap import Overlaps, read_parameters
from trifold.draft.printer import expression, formatted, print_file
from trifold.draft.ranges import find_ranges
from trifold.draft.refusal import DraftError
from trifold.draft.signatures import converted
from trifold.draft.tree import Interval, Type
from trifold.draft.type_names import TypeNames, element_name
from trifold.draft.unify import unify
from trifold.draft.variables import KEYWORDS
from trifold.draft.walk import walk
from trifold.draft.widened import widened
from trifold.errors import PrototypeError

_AS_CALLED = "checks, as the prototype does not, what all calls of the spec have: "
_SHARED_WITHOUT_PERMISSION = 48 << 10  # bytes of dynamic shared memory


@dataclass(frozen=True)
class DraftedOp:
    """The texts of an op's files.

    Attributes:
        remarks: in what the binding differs from the prototype.
        widened: where the kernels compute in float64 with float32 numbers.
    """

    header: str
    binding: str
    remarks: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Instance:
    """The kernel for one launch: for arguments of these types, stored in these types."""

    kernel: Any
    types: tuple[Type, ...]
    stored: tuple[str | None, ...]
    space: tuple[Any, ...]  # the dtypes of its instances


def launch_functions(module: ModuleType, op: str) -> list[FunctionType]:
    """The prototype's functions that are operators, in the order of the text."""
    found = [
        value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType)
        and value.__module__ == module.__name__
        and (name == op or name.startswith(f"{op}_"))
    ]
    return sorted(found, key=lambda each: each.__code__.co_firstlineno)


def draft_op(module: ModuleType, op: str, calls: Calls = tuple) -> DraftedOp:
    """Write the C++ files of an op.

    Args:
        module: the op's prototype, imported without Numba's simulator.
        calls: returns calls of the op; called only if a launch function does not check the dtypes or dimensions of its
            tensors: then they are those of the calls.

    Raises:
        DraftError: something in the prototype is not translated.
        PrototypeError: the prototype has no launch function.
    """
    functions = launch_functions(module, op)
    if not functions:
        raise PrototypeError(f"prototypes/{op}.py has no function named {op}", "write the launch function")
    if taken := [each.__name__ for each in functions if each.__name__ in KEYWORDS]:
        raise PrototypeError(f"{taken[0]} is a keyword of C++", "give the op another name")
    unchecked: dict[FunctionType, set[tuple[What, str]]] = {}
    calls = functools.cache(calls)
    while True:
        try:
            return _drafted(module, op, functions, unchecked, calls)
        except Unchecked as error:
            known = unchecked.setdefault(error.function, set())
            if error.unknown <= known:
                raise
            known |= error.unknown


def _drafted(
    module: ModuleType,
    op: str,
    functions: Sequence[FunctionType],
    unchecked: Mapping[FunctionType, set[tuple[What, str]]],
    calls: Calls,
) -> DraftedOp:
    """The C++ files; of what ``unchecked`` lists, the launch functions check what the calls say.

    Raises:
        Unchecked: there is more that is not known.
    """
    hosts: list[Host] = []
    known: dict[str, v.Tensor] = {}
    tables: dict[str, cpp.PairsDefinition] = {}
    constants: dict[str, tuple[int | float, types.Type]] = {}
    remarks: list[str] = []
    for function in functions:
        added = None
        if function in unchecked:
            rows = rows_after(function, hosts[0]) if hosts else rows_of(function, calls())
            added = FromCalls(function.__name__, rows, unchecked[function])
        grads = tensors_after(function, hosts[0]) if hosts else {}
        earlier = {name: tensor for name, tensor in grads.items() if tensor.dtypes is not None} | known
        hosts.append(Host(function, earlier, tables, constants, added))
        known = {**hosts[-1].known_by_name(), **known}
        remarks += [f"{_AS_CALLED}{function.__name__}: {', '.join(added.said)}"] if added else []
        if hosts[-1].other_errors:
            errors = " and ".join(sorted(hosts[-1].other_errors))
            remarks.append(f"{function.__name__} raises RuntimeError, not {errors}: torch's C++ interface has no other")
    drafts = _Kernels(hosts, constants)
    for host in hosts:
        for launch in host.launches:
            launch.written = drafts.launch(host, launch)
    drafts.qualify()
    header = file_of(drafts.module, [f"{op}: {_summary(module, op)}"])
    own = [each for each in constant_definitions(constants) if f" {each.name} = " not in header]
    return DraftedOp(header, _binding(op, hosts, own, tables), tuple(remarks), tuple(drafts.widened))


def _summary(module: ModuleType, op: str) -> str:
    return f"the kernels of prototypes/{op}.py."


class _Kernels:
    """All kernels that an op's launch functions launch, each written once for each combination of argument types."""

    def __init__(self, hosts: Sequence[Host], constants: dict[str, tuple[int | float, types.Type]]) -> None:
        varying = [host for host in hosts if any(self._varies(each) for each in host.launches)]
        #: The dtypes of launches that have a single one. Kernels that these call may be called by others for several.
        self.key: v.Dtypes = varying[0].key_dtypes if varying else (torch.float32,)
        self.spaces: dict[Any, TypeNames] = {}
        self.definitions: list[cpp.AliasDefinition] = []
        for host in hosts:
            for launch in host.launches:
                names = self._names(host, launch)
                for array, argument in zip(_parameters(launch), launch.arguments, strict=False):
                    tensor = argument.tensor if isinstance(argument, v.Output) else argument
                    if isinstance(tensor, v.Tensor) and tensor.dtypes is not None:
                        names.name_elements(tensor.dtypes, array)
        self.module = Module(Arithmetic(TypeNames(self.key)))
        self.module.constants.update(constants)
        ranges: dict[_Instance, dict[int, Interval | None]] = {}
        for host in hosts:
            for launch in host.launches:
                own = ranges.setdefault(self._instance(host, launch), {})
                for number, argument in enumerate(launch.arguments):
                    if isinstance(argument, (v.Number, int)) and not isinstance(argument, bool):
                        given = v.number(argument)
                        interval = given.interval if given.type == v.INT else None
                        first = number not in own
                        before = own.get(number)
                        own[number] = interval if first else _both(before, interval)
        self.widened: dict[str, None] = {}  # remarks, each once
        self.written: dict[_Instance, Written] = {}
        self.overlaps: dict[int, tuple[Written, Overlaps]] = {}  # by the identity of the kernel's text
        self.bounds: dict[int, LaunchBounds] = {}  # by the identity of the kernel's function
        for instance, known in ranges.items():
            self.written[instance] = self._write(instance, known)
        self._unify()

    def _names(self, host: Host, launch: Launch) -> TypeNames:
        """The names of types in kernels with these dtypes."""
        key = host.key_dtypes if any(self._varies(each) for each in host.launches) else self.key
        space = key, launch.over, launch.key_array
        if space not in self.spaces:
            self.spaces[space] = TypeNames(*space, self.definitions)
        return self.spaces[space]

    def _varies(self, launch: Launch) -> bool:
        tensors = [each.tensor if isinstance(each, v.Output) else each for each in launch.arguments]
        return any(isinstance(each, v.Tensor) and len(set(each.dtypes or ())) > 1 for each in tensors)

    def _instance(self, host: Host, launch: Launch) -> _Instance:
        found: list[Type] = []
        stored: list[str | None] = []
        names = self._names(host, launch)
        for number, argument in enumerate(launch.arguments):
            tensor = argument.tensor if isinstance(argument, v.Output) else argument
            if isinstance(tensor, v.Tensor):
                found.append(self._array(host, tensor, launch, number, names))
                own = tensor.dtypes
                halves = any(each in v.HALF for each in own or ())
                stored.append(names.of_elements.get(own) if own is not None and halves else None)
            elif isinstance(argument, (v.Number, bool, int, float)):
                number_given = v.number(argument)
                precision = number_given.precision
                found.append(names.expanded(number_given.type if precision is None else precision.kinds))
                stored.append(None)
            else:
                raise DraftError(
                    launch.place,
                    f"argument {number + 1} of the launch is not translated",
                    "pass tensors and numbers, one by one",
                )
        taken, _ = converted(launch.kernel, found, launch.place)
        return _Instance(launch.kernel, tuple(taken), tuple(stored), (names.key, names.others, names.key_array))

    def _array(self, host: Host, tensor: v.Tensor, launch: Launch, number: int, names: TypeNames) -> Type:
        name = _parameters(launch)[number]
        if tensor.dtypes is None:
            raise Unchecked(
                launch.place,
                host,
                "dtype",
                tensor,
                f"the dtype of the kernel's argument {name} is not known",
                f"check it in the launch function: check_floating(...), or if {name}.dtype not in (A, B): raise ...",
            )
        if tensor.dimensions is None:
            raise Unchecked(
                launch.place,
                host,
                "dimensions",
                tensor,
                f"the number of dimensions of the kernel's argument {name} is not known",
                "check x.dim(), or reshape it",
            )
        dtypes = tensor.dtypes
        if len(dtypes) != names.instances:
            dtypes = names.expanded(dtypes if len(set(dtypes)) > 1 else dtypes[:1])
        # A row that is read is copied if there are gaps; one that is written has a stride.
        written = isinstance(launch.arguments[number], v.Output) and not tensor.dense
        layout = "A" if tensor.strided and (tensor.dimensions > 1 or written) else "C"
        return tuple(types.Array(kind, tensor.dimensions, layout) for kind in v.computed(dtypes))

    def _write(self, instance: _Instance, known: dict[int, Interval | None]) -> Written:
        function, names = instance.kernel.py_func, self.spaces[instance.space]
        self.module.numbers = Arithmetic(names, self.module.numbers.records)
        # Ranges depend on the kernel: functions that it calls are analysed for it alone.
        built = Analysis(names.instances).analyse(function, instance.types, is_kernel=True)
        parameters = list(inspect.signature(function).parameters)
        find_ranges(built, {parameters[n]: each for n, each in known.items() if each is not None})
        self.widened |= dict.fromkeys(widened(built))
        written = self.module.write(built, instance.stored)
        self.overlaps.setdefault(id(written), (written, Overlaps(read_parameters(built))))
        return written

    def _unify(self) -> None:
        """Make one template of the instances of a kernel that differ in the type of an array's elements."""
        for number, (instance, own) in enumerate(self.written.items()):
            for before, first in list(self.written.items())[:number]:
                same = (before.kernel, before.space) == (instance.kernel, instance.space)
                if not same or own.function is first.function:
                    continue
                written = own.function
                if unify(first, own, self.spaces[instance.space].order):
                    self.module.parts.remove(written)
                    self.overlaps[id(own)] = self.overlaps[id(first)]
                    break

    def qualify(self) -> None:
        """Qualify the kernels with ``__launch_bounds__``, and their pointers with ``__restrict__``, after all launches
        are written."""
        for written, overlaps in {id(each): each for each in self.overlaps.values()}.values():
            overlaps.qualify(written)
        for bounds in self.bounds.values():
            bounds.qualify()

    # --------------------------------------------------------------------------------------------- launches

    def launch(self, host: Host, launch: Launch) -> list[cpp.Stmt]:
        instance = self._instance(host, launch)
        written = self.written[instance]
        self.overlaps[id(written)][1].add(written, launch.arguments)
        self.bounds.setdefault(id(written.function), LaunchBounds(written.function)).add(launch.block)
        tensors = [each.tensor if isinstance(each, v.Output) else each for each in launch.arguments]
        places: dict[int, cpp.Expr] = {}
        prepared: list[cpp.Stmt] = []
        for number, tensor in enumerate(tensors):
            if isinstance(tensor, v.Tensor):
                places[number] = self._prepared(host, launch, number, tensor, prepared)
        on_device = host.key if host.key is not None and not host.key.is_dtype else None
        first = on_device.expr if on_device is not None else places[min(places)]
        arguments = tuple(self._argument(host, launch, instance, written, p, places) for p in written.parameters)
        letters = written.function.template.replace("class ", "").split(", ") if written.function.template else []
        names = self._names(host, launch)
        given = ", ".join(written.given.get(each) or names.meanings.get(each, each) for each in letters)
        kernel = written.function.name + (f"<{given}>" if given else "")
        grid, block = (_extent(each) for each in (launch.grid, launch.block))
        device = "device" if "device" not in host.taken else "current"
        stream = call(f"{device}.stream")
        function = "trifold::launch_cooperative" if self._waits_for_grid(written.function) else "trifold::launch"
        shared = launch.shared
        permitted = shared.interval is not None and shared.interval[1] <= _SHARED_WITHOUT_PERMISSION
        run: list[cpp.Stmt] = [
            *prepared,
            cpp.Declare("const trifold::OnDevice", [device], None, f"({text_of(first)})"),
            *([] if permitted else [cpp.Run(call(f"trifold::permit_shared<{kernel}>", shared.expr))]),
            cpp.Run(cpp.CallTo(f"{function}<{kernel}>", (stream, grid, block, shared.expr, *arguments))),
            cpp.Run(call("trifold::check_launch")),
        ]
        may_be_empty = (n.expr for n in launch.grid if n.interval is None or n.interval[0] < 1)
        tests = list({expression(each): each for each in may_be_empty}.values())
        made_of = {parameter for each in letters if each not in written.given for parameter in names.made_of(each)}
        free = list(zip(launch.over, launch.free, list(names.parameters)[1:], strict=True))
        for (_, dtypes), tensor, parameter in reversed(free):
            if parameter in made_of:
                run = [cpp.Dispatch(_dispatch(dtypes), scalar_of(tensor), run, parameter)]
        if names.key_name in made_of:
            assert host.key is not None
            over = call(f"{text_of(host.key.expr)}.element_size") if host.key_sizes else scalar_of(host.key)
            if launch.possible is not None and not all(launch.possible):
                run = [cpp.If(_one_of(names.key_name, names.key, launch.possible), run, [], constant=True)]
            run = [cpp.Dispatch(_dispatch(names.key, bool(host.key_sizes)), over, run, names.key_name)]
        if not tests:
            return run if letters else [cpp.Scope(run)]
        test = cpp.Infix(">", tests[0], cpp.Literal("0", 0))
        for each in tests[1:]:
            test = cpp.Infix("&&", test, cpp.Infix(">", each, cpp.Literal("0", 0)))
        return [cpp.If(test, run, [])]

    def _waits_for_grid(self, kernel: cpp.Function) -> bool:
        """Whether the kernel, or a function that it calls, waits for all blocks."""
        reached, waiting = {kernel.name}, [kernel.name]
        while waiting:
            called = set(re.findall(r"\w+", self._texts[waiting.pop()])) & self._texts.keys() - reached
            reached |= called
            waiting += called
        return any(".sync()" in self._texts[name] for name in reached)

    @functools.cached_property
    def _texts(self) -> dict[str, str]:
        """The functions' texts by name, of overloads together."""
        texts: dict[str, str] = {}
        for part in self.module.parts:
            if isinstance(part, cpp.Function):
                texts[part.name] = texts.get(part.name, "") + print_file(cpp.File([], [], [part], once=False))
        return texts

    def _prepared(
        self, host: Host, launch: Launch, number: int, tensor: v.Tensor, prepared: list[cpp.Stmt]
    ) -> cpp.Expr:
        """The tensor in a form that the kernel accepts: with contiguous rows, unless it has stride parameters."""
        layout = self._array(host, tensor, launch, number, self._names(host, launch))[0].layout
        is_output = isinstance(launch.arguments[number], v.Output)
        name = _parameters(launch)[number]
        expr = launch.tensors[number]
        if layout == "C" and not tensor.dense and not is_output:
            expr = call("trifold::without_gaps", expr)
        if isinstance(expr, cpp.Name):
            return expr
        own = f"{name}_argument"
        prepared.append(cpp.Declare("const Tensor", [own], expr))
        return cpp.Name(own)

    def _argument(
        self,
        host: Host,
        launch: Launch,
        instance: _Instance,
        written: Written,
        parameter: Any,
        places: dict[int, cpp.Expr],
    ) -> cpp.Expr:
        given = launch.arguments[parameter.argument]
        place = places.get(parameter.argument)
        dimension = cpp.Literal(str(parameter.dimension), parameter.dimension)
        match parameter.kind:
            case "value":
                return v.number(given).expr
            case "array":
                element = parameter.type.removeprefix("const ").rstrip("*")
                element = self._names(host, launch).meanings.get(element, element)
                access = "trifold::data" if parameter.type.startswith("const ") else "trifold::mutable_data"
                assert place is not None
                return call(f"{access}<{element}>", place)
            case "stride":
                assert place is not None
                return call(f"{text_of(place)}.stride", dimension)
            case "length":
                assert place is not None
                dense = (given.tensor if isinstance(given, v.Output) else given).dense
                dimensions = instance.types[parameter.argument][0].ndim
                if dense and dimensions == 1:
                    return call(f"{text_of(place)}.numel")
                return call(f"{text_of(place)}.size", dimension)
        assert place is not None
        return call(f"{text_of(place)}.numel")


def _parameters(launch: Launch) -> list[str]:
    """The names of a kernel's parameters."""
    return list(inspect.signature(launch.kernel.py_func).parameters)


def _dispatch(dtypes: v.Dtypes, by_size: bool = False) -> str:
    if dtypes == v.FLOATING and not by_size:
        return "trifold::dispatch_floating"
    return f"trifold::dispatch_{'sizes' if by_size else 'dtypes'}<{', '.join(element_name(each) for each in dtypes)}>"


def _one_of(name: str, key: v.Dtypes, possible: tuple[bool, ...]) -> cpp.Expr:
    """The condition that the parameter is one of the dtypes: other kernels are never launched, and not compiled."""
    wanted = [dtype for dtype, each in zip(key, possible, strict=True) if each]
    if all(dtype in v.HALF for dtype in wanted) and set(v.HALF) <= set(wanted):
        return cpp.Infix("==", cpp.Name(f"sizeof({name})"), cpp.Literal("2", 2))
    others = [dtype for dtype, each in zip(key, possible, strict=True) if not each]
    if len(others) == 1:
        return cpp.Name(f"!std::is_same_v<{name}, {element_name(others[0])}>")
    tests: list[cpp.Expr] = [cpp.Name(f"std::is_same_v<{name}, {element_name(dtype)}>") for dtype in wanted]
    joined = tests[0]
    for test in tests[1:]:
        joined = cpp.Infix("||", joined, test)
    return joined


def _both(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _extent(numbers: tuple[v.Number, ...]) -> cpp.Expr:
    known = all(n.interval is not None and n.interval[0] == n.interval[1] for n in numbers)
    return cpp.CallTo("dim3" if known else "trifold::extents", tuple(n.expr for n in numbers))


def _resolved(body: list[cpp.Stmt]) -> list[cpp.Stmt]:
    """The body with each placeholder of a launch replaced."""
    found: list[cpp.Stmt] = []
    for statement in body:
        if isinstance(statement, Launch):
            found += statement.written
        elif isinstance(statement, cpp.If):
            body, otherwise = (_without_scope(_resolved(each)) for each in (statement.body, statement.otherwise))
            found.append(cpp.If(statement.test, body, otherwise))
        elif isinstance(statement, (cpp.For, cpp.ForEach, cpp.While)):
            found.append(dataclasses.replace(statement, body=_without_scope(_resolved(statement.body))))
        else:
            found.append(statement)
    return found


def _without_scope(body: list[cpp.Stmt]) -> list[cpp.Stmt]:
    """Removes the launch's own braces if a condition's or loop's are enough."""
    return body[0].body if len(body) == 1 and isinstance(body[0], cpp.Scope) else body


def _complex_types(dispatched: set[str]) -> str:
    """The dtypes of complex elements, where a launch chooses among kernels for them."""
    return "".join(
        f"""
template <>
constexpr trifold::ScalarType trifold::scalar_type_of<{element_name(dtype)}>() {{
return {scalar_type(dtype)};
}}
"""
        for dtype in (torch.complex64, torch.complex128)
        if any(element_name(dtype) in each for each in dispatched)
    )


def _binding(
    op: str,
    hosts: Sequence[Host],
    constants: list[cpp.ConstantDefinition],
    tables: dict[str, cpp.PairsDefinition],
) -> str:
    parts: list[Any] = [*constants, *tables.values()]
    dispatched: set[str] = set()
    for host in hosts:
        parameters = [cpp.Parameter(kind, name) for kind, name in host.parameters]
        name, resolved = host.function.__name__, _resolved(host.body)
        dispatched |= {x.function for each in resolved for x in walk(each) if isinstance(x, cpp.Dispatch)}
        parts.append(cpp.Function([], "", "", host.result, name, parameters, resolved, host.frames[0][0]))
    text = print_file(cpp.File([], [], parts, once=False), line_directives=True)
    complex_types = _complex_types(dispatched)
    include = "\n#include <trifold/complex_numbers.cuh>" if complex_types else ""
    body = "\n".join(line.removeprefix("inline ") for line in text.splitlines() if not line.startswith("#line"))
    registered = "\n".join(f'trifold::implement<&{h.function.__name__}>(m, "{h.function.__name__}");' for h in hosts)
    return formatted(
        f"""#include <trifold/launch_functions.h>{include}

#include "{op}.cuh"
{complex_types}
namespace {{

using trifold::Tensor;

{body}

}}  // namespace

TRIFOLD_LIBRARY(m) {{
{registered}
}}
"""
    )
