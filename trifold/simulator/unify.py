"""Finds the places where a variable assigned several types must be converted to Numba's one type for it.

Numba renames a variable at each assignment; where two assignments meet, after an ``if`` or around a loop, the value has
one type that holds both. ``acc = x[0]`` of float32 before a loop that adds float64 makes ``acc`` a float64 in the loop.
Here the value keeps the type of its own assignment, so that code that reads it after such a meeting must convert it,
unless the result would be the same without.

An abstract interpretation of the function's body: each name has Numba's type and the types that its value may have when
it runs. As in Numba's inference, it passes over the whole body until nothing changes, and types only widen: an
expression typed in an early pass, when less was known of a loop's variables, gets a type that includes the earlier one.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trifold import _simulator
from trifold.simulator import arithmetic, refused
from trifold.simulator.meeting import UNKNOWN, Flow, Names, Variable, meet, merged, of_type
from trifold.simulator.pruned import truth
from trifold.simulator.refused import Refusal
from trifold.simulator.types_of import (
    ArrayType,
    Resolve,
    Type,
    Typing,
    attribute,
    operated,
    range_item,
    subscripted,
    type_of,
    unified,
)

_Function = ast.FunctionDef | ast.Lambda
_INDEX = type(_simulator.threadIdx)
_CLZ = _simulator.functions["cuda.clz"]
_MOST_PASSES = 24  # a type widens at most from bool to complex128, through one loop after another


Definitions = Mapping[Any, tuple[_Function, Resolve, Resolve]]
Key = tuple[Any, tuple[Type, ...]]  # a function and the types of its arguments


@dataclass
class Instance:
    """A function for one list of argument types: Numba compiles it once for each.

    Attributes:
        casts: for each expression that is converted, the conversion.
        calls: for each call of a device function, the called instance.
        returned: the result.
        refused: code that does not compile for these types, by node.
    """

    casts: dict[ast.AST, Any] = field(default_factory=dict)
    calls: dict[ast.AST, Key] = field(default_factory=dict)
    returned: Variable | None = None
    refused: dict[ast.AST, Refusal] = field(default_factory=dict)


def instances(
    definitions: Definitions, kernel: Any, arguments: tuple[Type, ...], device_function: Callable[[Any], Any]
) -> dict[Key, Instance]:
    """A kernel and its device functions, with the conversions that their argument types require.

    Args:
        definitions: for the kernel and for each device function: its definition, and a function that resolves
            expressions of names and attributes that are not local to it; and the same for values that decide what is
            typed.
        kernel: the one with the arguments.
        arguments: their types (:func:`~trifold.simulator.types_of.type_of`).
        device_function: the key in ``definitions`` of an object that is called; anything else for other objects.
    """
    calls = _Calls(definitions, device_function)
    calls.instance((kernel, arguments))
    return calls.found


def may_need_casts(function: _Function) -> bool:
    """Whether any argument types could require conversions: a name is assigned where paths meet, several values are
    returned, or leading zeros of an int32 are counted."""
    branching = (ast.If, ast.For, ast.While, ast.IfExp, ast.BoolOp)
    if sum(isinstance(node, ast.Return) for node in ast.walk(function)) > 1:
        return True
    for node in ast.walk(function):
        if isinstance(node, ast.IfExp | ast.BoolOp) or (isinstance(node, ast.Attribute) and node.attr == "clz"):
            return True
        if isinstance(node, branching) and any(
            isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) for inner in ast.walk(node)
        ):
            return True
    return False


class _Calls:
    """Functions by the argument types of their calls.

    Attributes:
        found: what is known of each.
    """

    def __init__(self, definitions: Definitions, device_function: Callable[[Any], Any]) -> None:
        self.found: dict[Key, Instance] = {}
        self._definitions = definitions
        self._device_function = device_function

    def instance(self, key: Key) -> Instance:
        """The facts known about a function; none yet for a recursive one that is being read."""
        if key not in self.found:
            made = self.found[key] = Instance()
            definition, resolve, decide = self._definitions[key[0]]
            if isinstance(definition, ast.FunctionDef):
                _Reader(resolve, decide, self, made).function(definition, key[1])
        return self.found[key]

    def called(self, callee: Any, arguments: tuple[Type, ...]) -> Key | None:
        function = self._device_function(callee)
        return (function, arguments) if function in self._definitions else None


class _Reader:
    def __init__(self, resolve: Resolve, decide: Resolve, calls: _Calls, instance: Instance) -> None:
        self._instance = instance
        self._targets: set[str] = set()
        self._calls = calls
        self._resolve, self._decide = resolve, decide
        self._typing = Typing(resolve)
        self._names: Names | None = {}
        self._loops: list[Flow] = []
        self._returned: list[Variable] = []
        # From earlier passes: the type of each expression, and the names at the start of each loop iteration.
        self._types: dict[ast.AST, Type] = {}
        self._again: dict[ast.AST, list[Names | None]] = {}
        self._changed = False
        self._reading: dict[type[ast.AST], Callable[[Any], Type]] = {
            ast.Constant: lambda node: type_of(node.value),
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Subscript: self._subscript,
            ast.BinOp: self._operation,
            ast.UnaryOp: self._unary,
            ast.Compare: self._comparison,
            ast.BoolOp: lambda node: self._choice(node.values),
            ast.IfExp: self._conditional,
            ast.Call: self._call,
            ast.Tuple: lambda node: tuple(map(self._read, node.elts)),
            ast.NamedExpr: self._named,
        }

    def function(self, node: ast.FunctionDef, arguments: tuple[Type, ...]) -> None:
        parameters = (*node.args.posonlyargs, *node.args.args)
        names = {each.arg: UNKNOWN for each in (*parameters, *node.args.kwonlyargs)}
        names.update({each.arg: of_type(kind) for each, kind in zip(parameters, arguments, strict=False)})
        for extra in (node.args.vararg, node.args.kwarg):
            if extra is not None:
                names[extra.arg] = UNKNOWN
        for _ in range(_MOST_PASSES):
            self._changed = False
            self._names = dict(names)
            self._instance.casts.clear()
            self._instance.calls.clear()
            self._instance.refused.clear()
            self._returned.clear()
            self._block(node.body)
            if not self._changed:
                break
        if self._names is None and self._returned:  # otherwise it may end without a value
            self._instance.returned = functools.reduce(merged, self._returned)

    # Statements ---------------------------------------------------------------------------------------------------

    def _block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            if self._names is None:
                return
            special = getattr(self, f"_run_{type(statement).__name__}", None)
            if special is not None:
                special(statement)
                continue
            for part in ast.iter_child_nodes(statement):
                if isinstance(part, ast.expr):
                    self._read(part)

    def _run_Assign(self, node: ast.Assign) -> None:
        kind = self._read(node.value)
        for target in node.targets:
            self._assign(target, kind)
            if isinstance(target, ast.Name) and self._names is not None and self._is_narrow(node.value):
                self._names[target.id] = replace(self._names[target.id], narrow=True)

    def _run_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, self._read(node.value))

    def _run_AugAssign(self, node: ast.AugAssign) -> None:
        """The target is read where no cast is possible: the operand is converted to the type that a cast would give the
        sum."""
        value = self._read(node.value)
        if not isinstance(node.target, ast.Name):
            self._read(node.target)
            return
        before = self._variable(node.target.id)
        result = self._widened(node, operated(node.op, before.type, value))
        for real in before.real:
            if operated(node.op, real, value) != result and result is not None:
                self._cast(node.value, result)
        self._assign(node.target, result)

    def _run_If(self, node: ast.If) -> None:
        self._read(node.test)
        known = truth(node.test, self._names or {}, self._decide)
        if known is not None:
            self._block(node.body if known else node.orelse)
            return
        before = dict(self._names or {})
        self._block(node.body)
        after = self._names
        self._names = before
        self._block(node.orelse)
        self._names = meet((after, self._names))

    def _run_While(self, node: ast.While) -> None:
        self._loop(node, lambda: self._read(node.test))

    def _run_For(self, node: ast.For) -> None:
        item = self._item(node.iter)
        self._targets |= {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
        self._loop(node, lambda: self._assign(node.target, item))

    def _loop(self, node: ast.While | ast.For, start: Callable[[], Any]) -> None:
        header = meet((self._names, *self._again.get(node, ()))) or {}
        flow = Flow()
        self._loops.append(flow)
        self._names = dict(header)
        start()
        condition = dict(self._names)
        self._block(node.body)
        self._loops.pop()
        again: list[Names | None] = [self._names, *flow.continues]
        if again != self._again.get(node):
            self._again[node], self._changed = again, True
        if isinstance(node, ast.While):  # CPython tests once before the loop, and once more at its end
            endless = isinstance(node.test, ast.Constant) and node.test.value
            self._names = None if endless else meet((condition, *again))
        else:  # one that ends has not assigned its target once more
            self._names = meet((header, condition))
        self._block(node.orelse)
        self._names = meet((self._names, *flow.breaks))

    def _run_Break(self, node: ast.Break) -> None:
        self._loops[-1].breaks.append(self._names or {})
        self._names = None

    def _run_Continue(self, node: ast.Continue) -> None:
        self._loops[-1].continues.append(self._names or {})
        self._names = None

    def _run_Return(self, node: ast.Return) -> None:
        self._returned.append(UNKNOWN if node.value is None else self._value(node.value))
        self._names = None

    def _run_Raise(self, node: ast.Raise) -> None:
        self._names = None

    def _run_With(self, node: ast.With) -> None:
        for item in node.items:
            self._read(item.context_expr)
            if item.optional_vars is not None:
                self._assign(item.optional_vars, None)
        self._block(node.body)

    def _run_elsewhere(self, node: ast.stmt) -> None:
        """A statement whose control flow is not followed: names that it binds are unknown afterwards."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                self._assign(inner, None)

    _run_Try = _run_Match = _run_elsewhere

    def _run_FunctionDef(self, node: ast.FunctionDef) -> None:
        if self._names is not None:
            self._names[node.name] = UNKNOWN

    def _assign(self, target: ast.expr, kind: Type) -> None:
        if isinstance(target, ast.Name):
            if self._names is not None:
                self._names[target.id] = of_type(kind)
        elif isinstance(target, ast.Tuple | ast.List):
            kinds = kind if isinstance(kind, tuple) and len(kind) == len(target.elts) else (None,) * len(target.elts)
            for part, member in zip(target.elts, kinds, strict=True):
                self._assign(part, member)
        elif isinstance(target, ast.Starred):
            self._assign(target.value, None)
        else:
            self._read(target)

    def _item(self, node: ast.expr) -> Type:
        """The type of the items of an iteration."""
        kind = self._read(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and self._resolve(node.func) is range:
            if range_item([self._types.get(part) for part in node.args]) != "uint64":
                return "int64"  # int32s too: all results computed from them are the same
            self._instance.casts[node] = arithmetic.unsigned_items
            return "uint64"
        if isinstance(kind, ArrayType):
            return kind.item if kind.ndim == 1 else ArrayType(kind.item, kind.ndim - 1)
        if isinstance(kind, tuple) and kind and None not in kind:
            if all(member == kind[0] for member in kind):
                return kind[0]
            self._instance.refused[node] = refused.of_tuple(node, kind)
        return None

    # Expressions: each gives Numba's type, after the casts that it asks for -------------------------------------------

    def _read(self, node: ast.expr) -> Type:
        special = self._reading.get(type(node))
        if special is not None:
            return self._widened(node, special(node))
        if not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    self._read(part)
        return None

    def _widened(self, node: ast.AST, kind: Type) -> Type:
        """The expression's type: this one, united with those of earlier passes."""
        result = unified(self._types[node], kind) if node in self._types else kind
        if self._types.get(node, UNKNOWN) != result:
            self._types[node], self._changed = result, True
        if result != kind and isinstance(node, ast.BinOp | ast.UnaryOp | ast.Call):
            self._cast(node, result)
        return result

    def _value(self, node: ast.expr) -> Variable:
        """The type of an expression whose conversion can be deferred."""
        kind = self._read(node)
        if isinstance(node, ast.Name) and node in self._instance.casts:
            del self._instance.casts[node]
            return self._variable(node.id)
        return of_type(kind)

    def _variable(self, name: str) -> Variable:
        return (self._names or {}).get(name, UNKNOWN)

    def _name(self, node: ast.Name) -> Type:
        if self._names is not None and node.id in self._names:
            variable = self._names[node.id]
            if variable.real != {variable.type}:
                self._cast(node, variable.type)
            return variable.type
        return type_of(self._resolve(node))

    def _attribute(self, node: ast.Attribute) -> Type:
        value = self._resolve(node)
        known = type_of(value) if isinstance(value, int | float) or hasattr(value, "dtype") else None
        if self._is_narrow(node):
            return "int64"
        return known if known is not None else attribute(self._read(node.value), node.attr)

    def _is_narrow(self, node: ast.expr) -> bool:
        """Whether this is itself a thread's index or the like."""
        if isinstance(node, ast.Name) and node.id in (self._names or {}):
            return self._variable(node.id).narrow
        if isinstance(node, ast.Attribute) and node.attr in ("x", "y", "z"):
            return type(self._resolve(node.value)) is _INDEX
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        return name in ("laneid", "warpsize") and self._resolve(node) is getattr(_simulator, name)

    def _subscript(self, node: ast.Subscript) -> Type:
        owner = self._read(node.value)
        self._read_index(node.slice)
        if isinstance(owner, tuple) and None not in owner and len(set(owner)) > 1 and self._varies(node.slice):
            self._instance.refused[node] = refused.of_element(node, owner)
        return subscripted(owner, node.slice)

    def _varies(self, index: ast.expr) -> bool:
        """Whether an index is a loop's variable, or computed."""
        return isinstance(index, ast.BinOp) or (isinstance(index, ast.Name) and index.id in self._targets)

    def _read_index(self, node: ast.expr) -> None:
        """An integer is an index, whatever its type."""
        before = set(self._instance.casts)
        self._read(node)
        for inner in (node, *(node.elts if isinstance(node, ast.Tuple) else ())):
            if isinstance(inner, ast.Name) and inner not in before:
                self._instance.casts.pop(inner, None)

    def _operation(self, node: ast.BinOp) -> Type:
        left, right = self._read(node.left), self._read(node.right)
        result = operated(node.op, left, right)
        self._drop(node.left, lambda real: operated(node.op, real, right) == result)
        lefts = self._real_types(node.left, left)  # after that: of x * x one is converted
        self._drop(node.right, lambda real: all(operated(node.op, each, real) == result for each in lefts))
        return result

    def _real_types(self, node: ast.expr, kind: Type) -> frozenset[Type]:
        """The types that a value may have when it is used."""
        if isinstance(node, ast.Name) and node not in self._instance.casts and node.id in (self._names or {}):
            return self._variable(node.id).real
        return frozenset((kind,))

    def _unary(self, node: ast.UnaryOp) -> Type:
        operand = self._read(node.operand)
        return "bool" if isinstance(node.op, ast.Not) else operated(node.op, operand)

    def _comparison(self, node: ast.Compare) -> Type:
        for part in (node.left, *node.comparators):
            self._read(part)
            self._drop(part, lambda real: real not in ("int64", "uint64"))  # float64 holds the others exactly
        return "bool"

    def _drop(self, node: ast.expr, same: Callable[[Type], bool]) -> None:
        """Drop the cast of a name if the operation has the same result for each type that it may have."""
        if isinstance(node, ast.Name) and node in self._instance.casts and all(map(same, self._variable(node.id).real)):
            del self._instance.casts[node]

    def _conditional(self, node: ast.IfExp) -> Type:
        self._read(node.test)
        known = truth(node.test, self._names or {}, self._decide)
        if known is not None:
            return self._read(node.body if known else node.orelse)
        return self._choice([node.body, node.orelse])

    def _choice(self, nodes: list[ast.expr]) -> Type:
        """One of several values: each is converted to the type that holds all."""
        kinds = [self._read(node) for node in nodes]
        result = kinds[0]
        for kind in kinds[1:]:
            result = unified(result, kind)
        for node, kind in zip(nodes, kinds, strict=True):
            if kind != result:
                self._cast(node, result)
        return result

    def _call(self, node: ast.Call) -> Type:
        if isinstance(node.func, ast.Attribute):
            self._read(node.func.value)
        kinds = [self._read(part) for part in node.args]
        for keyword in node.keywords:
            self._read(keyword.value)
        if self._resolve(node.func) is _CLZ and node.args and self._is_narrow(node.args[0]):
            self._cast(node.args[0], "int32")  # an int64 has 32 more leading zeros
        known = self._typing.constructed(node) or self._typing.called(node, kinds)
        if known is not None or node.keywords:
            return known
        key = self._calls.called(self._resolve(node.func), tuple(kinds))
        if key is None:
            return None
        self._instance.calls[node] = key
        returned = self._calls.instance(key).returned or UNKNOWN
        if returned.real != {returned.type}:
            self._cast(node, returned.type)
        return returned.type

    def _named(self, node: ast.NamedExpr) -> Type:
        kind = self._read(node.value)
        self._assign(node.target, kind)
        return kind

    def _cast(self, node: ast.expr, kind: Type) -> None:
        cast = arithmetic.cast_to(kind)
        if cast is not None:
            self._instance.casts[node] = cast
