"""The fakes of operators: functions that make results of the right shapes, dtypes and strides without computing."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import typing
from collections.abc import Iterable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import trifold.port
from trifold.draft.launch_function import LaunchFunction
from trifold.draft.needed import reads_numbers, what_results_need, without_equal_returns
from trifold.draft.open_sizes import decide, has_open_size, with_open_sizes
from trifold.draft.refusal import DraftError
from trifold.draft.source import function_tree
from trifold.draft.tree import assigned_names, read_names

WIDTH = 110  # of the lines of a port


class Fakes:
    """The names that a port's functions use: imports, and functions copied from the prototype."""

    def __init__(self, module: ModuleType, op: str) -> None:
        self._module, self._op = module, op
        self._modules: set[str] = set()
        self._from: dict[str, set[str]] = {"torch": {"Tensor"}, "trifold.port": {"Operators", "wire"}}
        self._known: set[str] = {"Tensor"}
        self.copied: list[str] = []
        self.open_sizes = False  # whether a fake leaves a size of a result open

    def fake(self, launch: LaunchFunction) -> str:
        """The fake of an operator as an expression; functions that it calls are copied."""
        if not launch.results:
            return "lambda *_: None"
        if not launch.result_names:
            raise DraftError(launch.place(launch.tree), f"{launch.name} has a result, and no return", "return it")
        body = without_equal_returns(what_results_need(with_open_sizes(launch.tree.body), set()))
        body = what_results_need(body, set())  # without statements that only the removed conditions used
        if self._op not in launch.parameters:
            body = [self._renamed(each) for each in body]
        if any(reads_numbers(each) for each in body) or decide(body):
            raise DraftError(
                launch.place(launch.tree),
                f"numbers that are read from a tensor decide how {launch.name} makes its results",
                "let them be sizes alone, without conditions and loops, or write ports/*.py",
            )
        if has_open_size(body):
            self.open_sizes = True
            self.add_module("torch")
        expression = self._one_expression(body)
        if expression is not None:
            self._provide(launch, read_names([expression]) - set(launch.parameters))
            called = expression if isinstance(expression, ast.Call) else None
            if called is not None and not called.keywords and isinstance(called.func, ast.Name):
                given = [each.id if isinstance(each, ast.Name) else "" for each in called.args]
                if given == list(launch.parameters):
                    return called.func.id
            fake = f"lambda {', '.join(launch.parameters)}: {ast.unparse(expression)}"
            if len(fake) <= WIDTH:
                return fake
        name = _name_of_fake(launch.name)
        self._provide(launch, read_names(body) - assigned_names(body) - set(launch.parameters))
        if name not in self._known:
            self._known.add(name)
            self.provide_types(launch, launch.tree.args)
            self.copied.append(function_like(name, launch.tree, body))
        return name

    def provide_types(self, launch: LaunchFunction, arguments: ast.arguments) -> None:
        """Import what these arguments are annotated with."""
        self._provide(launch, read_names([each.annotation for each in arguments.args if each.annotation is not None]))

    def _renamed(self, statement: ast.stmt) -> ast.stmt:
        """The statement with the name of the fake in place of the op's launch function: in a port, the op's name is the
        public function's."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == self._op:
                node.id = _name_of_fake(self._op)
        return statement

    @staticmethod
    def _one_expression(body: Sequence[ast.stmt]) -> ast.expr | None:
        """The returned expression, with each variable replaced by its value, if it is used once."""
        *before, last = body
        if not isinstance(last, ast.Return) or last.value is None:
            return None
        values: dict[str, ast.expr] = {}
        for node in before:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    values[name] = value
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=each)):
                    names = [target.id for target in targets if isinstance(target, ast.Name)]
                    if len(names) != len(targets) or len(names) != len(each):
                        return None
                    values |= dict(zip(names, each, strict=True))
                case _:
                    return None
        parts = last.value.elts if isinstance(last.value, (ast.Tuple, ast.List)) else [last.value]
        if any(isinstance(part, ast.Name) and part.id not in values for part in parts):
            return None
        if read_names(part for part in parts if not isinstance(part, ast.Name)) & set(values):
            return None
        if read_names(values.values()) & set(values):
            return None
        made = [values.get(part.id, part) if isinstance(part, ast.Name) else part for part in parts]
        return type(last.value)(made, ast.Load()) if isinstance(last.value, (ast.Tuple, ast.List)) else made[0]

    def _provide(self, launch: LaunchFunction, names: Iterable[str]) -> None:
        for name in sorted(names):
            if name not in self._known and not hasattr(builtins, name):
                self._known.add(name)
                self._provide_one(launch, name)

    def _provide_one(self, launch: LaunchFunction, name: str) -> None:
        own_name = self._op if name == _name_of_fake(self._op) else name
        value = vars(self._module).get(own_name)
        own = getattr(value, "__module__", "")
        if typing.get_args(value):  # a type with a name of the prototype's: Mode = Literal["a", "b"]
            self._modules |= {value.__module__} - {"builtins"}
            self.copied.append(f"{name} = {value!r}")
        elif isinstance(value, ModuleType):
            self._modules.add(value.__name__ if value.__name__ == name else f"{value.__name__} as {name}")
        elif getattr(trifold.port, name, None) is value and value is not None:
            self._from["trifold.port"].add(name)
        elif isinstance(value, FunctionType) and own == self._module.__name__:
            self._provide_helper(launch, value, name)
        elif own and not own.startswith(("numba", "trifold.prototype")) and own != self._module.__name__:
            self._from.setdefault(own, set()).add(name)
        elif own_name in vars(self._module) and _is_literal(value):
            self.copied.append(f"{name} = {value!r}")
        else:
            raise DraftError(
                launch.place(launch.tree),
                f"the results of {launch.name} are made with {name}, which a port cannot have",
                "write ports/*.py, or make them by functions of trifold.port and torch",
            )

    def _provide_helper(self, launch: LaunchFunction, helper: FunctionType, name: str) -> None:
        """Copy a function of the prototype under a name; one that launches or checks is reduced to what its result
        depends on."""
        tree, _ = function_tree(helper)
        parameters = set(inspect.signature(helper).parameters)
        names = read_names([tree]) - assigned_names([tree]) - parameters
        if any(_is_of_prototypes(vars(self._module).get(name)) for name in names):
            body = without_equal_returns(what_results_need(tree.body, set()))
            self._provide(launch, read_names(body) - assigned_names(body) - parameters)
            self.copied.append(function_like(name, tree, body))
        else:
            self._provide(launch, names)
            self.copied.append(inspect.getsource(helper))

    def add_module(self, name: str) -> None:
        self._modules.add(name)

    def imports(self) -> str:
        modules = [f"import {name}" for name in sorted(self._modules)]
        groups: list[list[str]] = [[], []]
        for module, names in sorted(self._from.items()):
            groups[module.startswith("trifold")].append(f"from {module} import {', '.join(sorted(names))}")
        return "\n\n".join("\n".join(each) for each in ([*modules, *groups[0]], groups[1]) if each)


def _name_of_fake(function: str) -> str:
    return f"_{function}_fake"


def function_like(name: str, like: ast.FunctionDef, body: list[ast.stmt]) -> str:
    """A function like another, with another body."""
    written = ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))
    returned = "" if like.returns is None else ast.unparse(like.returns)
    return f"{signature(name, like.args, returned)}\n{textwrap.indent(written, '    ')}"


def _is_of_prototypes(value: Any) -> bool:
    """Whether a port cannot have it: a function of trifold.prototype that trifold.port lacks."""
    own, name = getattr(value, "__module__", None) or "", getattr(value, "__name__", "")
    return own.startswith("trifold.prototype") and not hasattr(trifold.port, name)


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def signature(name: str, arguments: ast.arguments, returned: str) -> str:
    """The head of a function, in one or several lines."""
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + list(arguments.defaults)
    written = [
        ast.unparse(each) + ("" if default is None else f" = {ast.unparse(default)}")
        for each, default in zip(arguments.args, defaults, strict=True)
    ]
    end = f") -> {returned}:" if returned else "):"
    line = f"def {name}({', '.join(written)}{end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"def {name}(", *(f"    {each}," for each in written), end])
