"""Executes a launch function symbolically, on values that represent all calls, and writes the binding's C++."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from numba import types

from trifold import prototype
from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.folding import BINARY
from trifold.draft.from_calls import FromCalls
from trifold.draft.host_calls import Returned
from trifold.draft.host_lists import lists_returned
from trifold.draft.host_loops import HostLoops
from trifold.draft.host_syntax import simplified, statement_remedy
from trifold.draft.host_values import NUMBERS
from trifold.draft.launch_function import return_nothing, returned_argument
from trifold.draft.one_device import OneDevice
from trifold.draft.refusal import DraftError, Place
from trifold.draft.source import function_tree, with_positional_parameters, without_none
from trifold.draft.variables import KEYWORDS

_LIST = "std::vector<Tensor>"  # of results


@dataclass
class Launch(cpp.Stmt):
    """A launch, a placeholder that is replaced once the kernel has been written."""

    kernel: Any
    grid: tuple[v.Number, ...]
    block: tuple[v.Number, ...]
    shared: v.Number  # bytes of dynamic shared memory
    arguments: list[Any]
    place: Place
    tensors: dict[int, cpp.Expr]  # those among the arguments: an optional one is another expression elsewhere
    possible: tuple[bool, ...] | None = None  # the dtypes of the key for which it is reached; None: all
    free: tuple[v.Tensor, ...] = ()  # tensors whose dtypes do not follow from the key's
    over: tuple[tuple[str, v.Dtypes], ...] = ()  # for each of these, the kernel's parameter and the dtypes
    key_array: str = ""  # the kernel's parameter of the key, if any tensors are free
    written: list[cpp.Stmt] = field(default_factory=list)


class Host(HostLoops):
    """One launch function. ``body`` is its C++; ``launches`` are in the order of the text.

    ``earlier``: the tensors of the functions before it, by name. One that forward returns, and backward takes by the
    same name without a check of its dtype, is of the dtype that forward gives it; the binding checks that after the
    function's own first checks. ``tables``: the dicts of constants that the binding has, by name; one that is used here
    is added. ``constants``: its numbers, likewise. ``calls``: the checks to add, for tensors that the function does not
    check.
    """

    def __init__(
        self,
        function: FunctionType,
        earlier: dict[str, v.Tensor],
        tables: dict[str, cpp.PairsDefinition],
        constants: dict[str, tuple[int | float, types.Type]],
        calls: FromCalls | None = None,
    ) -> None:
        self.function, self.calls = function, calls
        self.earlier = earlier
        self.results: dict[str, v.Tensor] = {}
        self.frames: list[tuple[str, int]] = []
        self.key: v.Tensor | None = None
        self.expecting = False
        self.key_dtypes: v.Dtypes = ()
        self.of_lists: dict[str, v.Tensor] = {}
        self.key_sizes: tuple[int, ...] = ()  # where only the size of the key's elements is known
        self.integers: v.Dtypes | None = None  # then, the dtypes as which the key is viewed
        self.dimension_calls: dict[int, v.Tensor] = {}
        self.facts_if_false: dict[int, v.Facts] = {}
        self.kept: list[Any] = []  # keeps objects alive, so that ids stay unique
        self.launches: list[Launch] = []
        self.taken = {"T"}  # the parameter of the lambdas that a dtype chooses
        self.body: list[cpp.Stmt] = []
        self.globals = function.__globals__ | vars(__import__("builtins"))
        self.names: dict[str, Any] = {}
        self.depth = 0
        self.tables, self.constants = tables, constants
        self.possible: tuple[bool, ...] | None = None
        self.holds: dict[str, bool] = {}  # conditions of the enclosing branches, by their text
        self.parameters: list[tuple[str, str]] = []
        self.changing: set[str] = set()
        self.turns: list[dict[str, Any]] = []
        self.callers: list[dict[str, Any]] = []
        self.maybe = 0
        self.other_errors = set()
        self.result, self.result_lists = "void", frozenset()
        self.one_device = OneDevice()
        tree = with_positional_parameters(self._tree(function))
        self.returns_argument = returned_argument(function, tree) is not None
        if self.returns_argument:
            return_nothing(tree)
        self._parameters(function, tree)
        self.arguments = dict(self.names)
        if self.statements(tree.body, self.body) is None and self.result != "void":
            problem = f"{function.__name__} ends without a result in some calls"
            raise DraftError(self.place(tree.body[-1]), problem, "return one always, or raise RuntimeError")

    def known_by_name(self, *, with_choices: bool = False) -> dict[str, v.Tensor]:
        """The tensors among its parameters and results whose dtypes are known; ``with_choices`` also those that may be
        of several, whatever the key's dtype is."""
        taken = {name: value for name, value in self.arguments.items() if isinstance(value, v.Tensor)}
        return {
            name: each
            for name, each in {**taken, **self.results}.items()
            if each.dtypes is not None or (with_choices and each.root.choices)
        }

    def place(self, node: ast.AST) -> Place:
        path, offset = self.frames[-1]
        return Place(path, getattr(node, "lineno", 1) + offset)

    def _tree(self, function: FunctionType) -> ast.FunctionDef:
        tree, before = function_tree(function)
        self.frames.append((inspect.getsourcefile(function) or "?", before))
        return simplified(tree)

    def _parameters(self, function: FunctionType, tree: ast.FunctionDef) -> None:
        hints = typing.get_type_hints(function)
        for each in tree.args.args:
            name, hint = each.arg, hints.get(each.arg)
            own = self.fresh(name)
            inner, optional = without_none(hint)
            if inner is torch.Tensor:
                kind = "const std::optional<Tensor>&" if optional else "const Tensor&"
                self.names[name] = v.Tensor(
                    cpp.Name(own), optional=optional, present=not optional, strided=True, memory=v.of_argument(name)
                )
            elif inner in (int, float, bool):
                types_ = {int: v.INT, float: v.FLOAT, bool: v.BOOL}[inner]
                kind = v.NUMBERS[types_]
                self.names[name] = v.Number(cpp.Name(own, type=types_), types_)
                if optional:
                    kind = f"std::optional<{kind}>"
                    self.names[name] = v.Perhaps(cpp.Name(own, type=types_), types_)
            elif inner is str and not optional:
                kind = "std::string_view"
                self.names[name] = v.Text((cpp.Name(own),))
            elif inner is torch.dtype:
                kind = "std::optional<trifold::ScalarType>" if optional else "trifold::ScalarType"
                of = v.Tensor(cpp.Name(own), is_dtype=True, optional=optional, present=not optional)
                self.names[name] = v.DtypeOf(None, of)
            elif inner is torch.device and not optional:
                kind = "trifold::Device"
                self.names[name] = v.DeviceOf(None, cpp.Name(own))
            elif inner == list[torch.Tensor] and not optional:
                kind = "const std::vector<Tensor>&"
                self.names[name] = v.Tensors(name, cpp.Name(own))
            elif inner == list[int] and optional:
                kind = "const std::optional<std::vector<int64_t>>&"
                self.names[name] = v.Perhaps(cpp.Name(own), v.INT, listed=True)
            elif inner == list[int]:
                kind = "trifold::Dims"
                self.names[name] = v.Sizes(cpp.Name(own), listed=True)
            elif inner == list[float] and not optional:
                kind = "const std::vector<double>&"
                self.names[name] = v.Floats(cpp.Name(own))
            else:
                raise DraftError(
                    self.place(tree),
                    f"{function.__name__}'s parameter {name} has no type that is drafted",
                    "annotate it as Tensor, int, float, bool, torch.dtype, list[int] or one of them | None, or as str, "
                    "list[Tensor], list[float] or torch.device",
                )
            self.parameters.append((kind, own))
        if not any(isinstance(value, v.Tensor | v.Tensors) for value in self.names.values()):
            raise DraftError(
                self.place(tree),
                f"{function.__name__} takes no tensor, by whose device torch chooses the operator's code",
                "take a tensor whose device the result has",
            )
        self.result = "void" if self.returns_argument else self._result_type(hints.get("return"), tree)

    def _result_type(self, hint: Any, tree: ast.FunctionDef) -> str:
        if hint is type(None):
            return "void"
        if hint is torch.Tensor:
            return "Tensor"
        if hint == list[torch.Tensor]:
            self.result_lists = lists_returned(tree)
            return _LIST
        if typing.get_origin(hint) is tuple and all(a is torch.Tensor for a in typing.get_args(hint)):
            return f"std::tuple<{', '.join('Tensor' for _ in typing.get_args(hint))}>"
        raise DraftError(
            self.place(tree),
            "the result is not annotated as Tensor, a tuple or list of them, or None",
            "write -> Tensor, -> tuple[Tensor, Tensor], -> list[Tensor] or -> None",
        )

    def fresh(self, wanted: str) -> str:
        wanted = wanted.lstrip("_").partition(".")[0] or "value"
        name, number = wanted + ("_" if wanted in KEYWORDS else ""), 2
        while name in self.taken:
            name, number = f"{wanted}{number}", number + 1
        self.taken.add(name)
        return name

    # --------------------------------------------------------------------------------------------- statements

    def statements(self, nodes: Sequence[ast.stmt], into: list[cpp.Stmt]) -> Returned | None:
        """Execute until a return; None: control reaches the end."""
        for number, node in enumerate(nodes):
            done = self.statement(node, into, nodes[number + 1 :])
            if done is not None:
                return done
        return None

    def statement(self, node: ast.stmt, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned | None:
        try:
            return self._executed(node, into, rest)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            # An operation of Python that a value of this kind does not have.
            problem = f"this statement is not translated ({error})"
            raise DraftError(self.place(node), problem, statement_remedy(node)) from error

    def _executed(self, node: ast.stmt, into: list[cpp.Stmt], rest: Sequence[ast.stmt]) -> Returned | None:
        self.into = into
        if (self.calls or self.expecting) and not self._only_checks(node):
            if self.calls and self.depth == 0:
                self.check_as_called(self.calls)
            if self.expecting:
                self.expect_earlier()
        if self.result_lists and self.depth == 0 and self.in_list_of_results(node, into):
            return None
        match node:
            case ast.Assign(targets=targets, value=value):
                assigned = self.evaluate(value)
                for target in targets:
                    self.assign(target, assigned, into)
                    assigned = self.names.get(target.id, assigned) if isinstance(target, ast.Name) else assigned
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, self.evaluate(value), into)
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Import() | ast.ImportFrom():
                return None
            case ast.Expr(value=ast.Call() as value):
                self.evaluate(value)
            case ast.If():
                return self.condition(node, into, rest)
            case ast.Return(value=ast.ListComp() as value) if self.depth == 0 and self.result == _LIST:
                self.result_lists = self.result_lists | {"results"}
                results = ast.Name("results", ast.Store())
                self.statement(ast.copy_location(ast.Assign([results], value), node), into, ())
                into.append(cpp.Return(self.names["results"].expr))
                return Returned(self.names["results"])
            case ast.Return(value=value):
                found = None if value is None else self.evaluate(value)
                if self.depth == 0:
                    into.append(cpp.Return(self.returned(found, node)))
                return Returned(found)
            case ast.With(body=body):
                return self.statements(body, into)
            case ast.For():
                return self.loop(node, into, rest)
            case ast.While():
                return self.while_loop(node, into)
            case ast.Break() | ast.Continue():
                return self.jump(node, into)
            case ast.AugAssign(target=ast.Name(), op=op):
                self.augmented(node, BINARY[type(op)], into)
            case ast.FunctionDef():
                self.names[node.name] = v.Local(node, self.names)
            case ast.Raise():
                return self.fail(node, into)
            case _:
                problem = f"{type(node).__name__} in a launch function is not translated"
                raise DraftError(self.place(node), problem, statement_remedy(node))
        return None

    into: list[cpp.Stmt]

    def _only_checks(self, node: ast.stmt) -> bool:
        """Whether a statement checks arguments and does nothing else. Those of a called function, and of a loop that is
        unrolled, decide for themselves."""
        from trifold.draft.host_functions import HANDLERS  # which imports this class

        match node:
            case ast.Assign(value=ast.BoolOp() as joined) if self.is_choice(joined):
                return False
            case ast.If(body=[ast.Raise()], orelse=[]) | ast.Assign(value=ast.Compare() | ast.BoolOp()):
                return True
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Import() | ast.ImportFrom():
                return True
            case ast.Return():
                return self.depth > 0
            case (
                ast.Assign(value=ast.Call(ast.Attribute(ast.Name(), "items"), [], []))
                | ast.For(iter=ast.Call(ast.Attribute(ast.Name(), "items"), [], []))
            ):
                return True  # of tensors that are passed by name to a function that checks them
            case ast.Expr(value=ast.Call(func=ast.Name() as name)):
                function = self.evaluate(name)
                checks = function in (prototype.check_floating, prototype.check_alike)
                return checks or (isinstance(function, FunctionType) and function not in HANDLERS)
            case _:
                return False

    def returned(self, value: Any, node: ast.AST) -> cpp.Expr | None:
        if value is None:
            return None
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, v.Tensor) and isinstance(each.expr, cpp.Name):
                self.results[each.expr.text] = each
        if isinstance(value, v.Tensor) or (isinstance(value, v.Tensors) and self.result == _LIST):
            return value.expr
        if isinstance(value, tuple) and all(isinstance(each, v.Tensor) for each in value):
            return cpp.Braces(tuple(each.expr for each in value))
        raise DraftError(self.place(node), "only tensors are returned", "return a tensor or a tuple of tensors")

    def assign(self, target: ast.expr, value: Any, into: list[cpp.Stmt]) -> None:
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(value, v.Listed) and not isinstance(target, (ast.Tuple, ast.List)):
            raise DraftError(self.place(target), "a list of a tensor's numbers", "read one: x[0].item()")
        if isinstance(target, ast.Name) and target.id == "_":
            return
        if isinstance(target, ast.Name):
            self.names[target.id] = self.named(value, target.id, into)
            return
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = self.unpacked(value, target)
            for each, part in zip(target.elts, parts, strict=True):
                self.assign(each, part, into)
            return
        if isinstance(target, ast.Subscript) and isinstance(base := self.evaluate(target.value), v.Tensor):
            self.assign_elements(base, value, target)
            return
        problem = "this assignment in a launch function is not translated"
        raise DraftError(self.place(target), problem, "assign names, or elements of a tensor that the function made")

    def unpacked(self, value: Any, target: ast.Tuple | ast.List) -> tuple[Any, ...]:
        if isinstance(value, v.Shape) and len(value.parts) == 1 and isinstance(value.parts[0], v.Part):
            part, count = value.parts[0], len(target.elts)
            stars = [n for n, each in enumerate(target.elts) if isinstance(each, ast.Starred)]
            if stars:
                return self.unpacked_around(part, count, stars[0])
            left_out = part.start - part.stop
            if part.tensor.dimensions not in (None, count + left_out):
                sizes = part.tensor.dimensions - left_out
                problem = f"a shape of {sizes} dimensions is unpacked into {count}"
                raise DraftError(self.place(target), problem, f"write {sizes} names")
            self.require_dimensions(part.tensor, count + left_out)
            return tuple(self.size(part.tensor, part.start + d) for d in range(count))
        if isinstance(value, tuple) and len(value) == len(target.elts):
            return value
        if isinstance(value, v.Pieces):
            return tuple(value.make(place, len(target.elts)) for place in range(len(target.elts)))
        if isinstance(value, v.Listed):
            return tuple(self.numbers_of(value.tensor, range(len(target.elts)), target, all_of=True))
        if isinstance(value, v.Sizes | v.Floats):
            value = self.named(value, "sizes", self.into)
            self.require_length(value, len(target.elts))
            return tuple(self.element(value, place) for place in range(len(target.elts)))
        raise DraftError(
            self.place(target),
            "what is unpacked here is not known while drafting",
            "unpack a shape, or a tuple of as many values",
        )

    def named(self, value: Any, name: str, into: list[cpp.Stmt]) -> Any:
        """The value in a variable, unless it is a name or a literal."""
        match value:
            case v.Number(expr=expr) if not isinstance(expr, (cpp.Name, cpp.Literal)):
                own = self.fresh(name)
                kind = NUMBERS[value.type]
                into.append(cpp.Declare(f"const {kind}", [own], expr))
                name_of_it = cpp.Name(own, type=value.type, interval=value.interval)
                kept = dataclasses.replace(value, expr=name_of_it)
                if id(value) in self.facts_if_false:
                    self.facts_if_false[id(kept)] = self.facts_if_false[id(value)]
                self.kept += [value, kept]
                return kept
            case v.Tensor(expr=expr) if not isinstance(expr, cpp.Name):
                own = self.fresh(name)
                into.append(cpp.Declare("const Tensor", [own], expr))
                value.expr = cpp.Name(own)
                return value
            case v.DtypeOf(tensor=v.Tensor(is_dtype=True) as of) if isinstance(of.expr, cpp.Ternary):
                own = self.fresh(name)
                into.append(cpp.Declare("const trifold::ScalarType", [own], of.expr))
                of.expr = cpp.Name(own)
            case v.Sizes(expr=expr) if not isinstance(expr, cpp.Name):
                own = self.fresh(name)
                into.append(cpp.Declare("const std::vector<int64_t>", [own], expr))
                return v.Sizes(cpp.Name(own), value.listed)
            case v.Either(test=test, chosen=v.Tensor() as chosen, otherwise=v.Tensor() as otherwise):
                return v.Either(test, self.named(chosen, name, into), self.named(otherwise, name, into))
            case v.Output(tensor=tensor):
                return v.Output(self.named(tensor, name, into))
            case tuple():
                return type(value)(self.named(each, f"{name}_{number}", into) for number, each in enumerate(value))
        return value
