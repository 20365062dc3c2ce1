"""An op's schema, fakes and gradient, ``ports/OP.py``, from the launch functions of its prototype.

- **Schema**: from the annotations of a launch function; arguments passed to :func:`trifold.prototype.output` are
  written.
- **Fake**: the statements on which its results depend, without checks and launches.
- **Gradient**: from a function named ``OP_backward``, by its names: parameters ``grad`` or ``grad_<result>`` are the
  upstream gradients, other parameters are saved tensors, named as in the forward function; results are named
  ``grad_<argument>``.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import torch

import trifold.port
import trifold.prototype
from trifold.draft.binding import launch_functions
from trifold.draft.needed import reads_numbers, what_results_need, without_equal_returns
from trifold.draft.refusal import DraftError, Place
from trifold.draft.source import function_tree, without_none
from trifold.draft.tree import assigned_names, read_names
from trifold.errors import PrototypeError

_SIMPLE = {
    torch.Tensor: "Tensor",
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    torch.dtype: "ScalarType",
    torch.device: "Device",
}
_WIDTH = 110
_SHADOWED = "_operators"  # of the ports' functions, where a parameter is named op


@dataclass(frozen=True)
class DraftedPort:
    """The text of ``ports/OP.py``, and what its author must add."""

    text: str
    remarks: tuple[str, ...] = ()


def draft_port(module: ModuleType, op: str) -> DraftedPort:
    """Write the wiring of an op.

    Args:
        module: the op's prototype, with functions named as its operators: ``OP``, ``OP_backward`` and such.

    Raises:
        DraftError: an annotation is not a type of a schema, or a result's shape depends on something that a port cannot
            contain.
        PrototypeError: the prototype has no launch function of the op's name.
    """
    launches = [_Launch(function) for function in launch_functions(module, op)]
    forward = next((each for each in launches if each.name == op), None)
    if forward is None:
        raise PrototypeError(f"prototypes/{op}.py has no function named {op}", "write the launch function")
    names = _Names(module)
    fakes = {each.name: names.fake(each) for each in launches}
    backward = next((each for each in launches if each.name == f"{op}_backward"), None)
    gradient = _gradient(module, forward, backward) if backward else f"there is no function {op}_backward"
    stated = gradient.autograd if isinstance(gradient, _Gradient) else f"# No gradient is stated: {gradient}."
    remarks = [] if isinstance(gradient, _Gradient) else [f"no gradient is stated: {gradient}"]
    more = [name for name in forward.parameters if name not in _parameters_of_reference(module, forward)]
    if more:
        remarks.append(f"the operator takes {', '.join(more)}, unlike reference: let {op} pass it")
    without = gradient.without if isinstance(gradient, _Gradient) else ()
    if without:
        names.add_module("torch")
    own = _operators(*launches)
    lines = [*(_defined(each, fakes[each.name]) for each in launches), stated]
    parts = [
        f'"""{op}: the operator."""',
        names.imports(),
        *names.copied,
        f"def register(op: Operators) -> None:\n{textwrap.indent(chr(10).join(lines), '    ')}",
        *(gradient.functions if isinstance(gradient, _Gradient) else ()),
        _called(module, forward, without),
        "\n".join(["op = wire(__name__, register)", *([f"{own} = op"] if own != "op" else [])]),
    ]
    text = parts[0] + "\n\n" + "\n\n\n".join(part.strip("\n") for part in parts[1:]) + "\n"
    return DraftedPort(text, tuple(remarks))


class _Launch:
    """A launch function's source and annotations."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.name = function.__name__
        self.tree, self._before = function_tree(function)
        hints = typing.get_type_hints(function)
        self.parameters = {each.arg: self._type(hints.get(each.arg), each.arg) for each in self.tree.args.args}
        self.results = self._results(hints.get("return"))
        self.result_names = self._result_names()
        self.written = self._written()
        if not self.results and not self.written:
            raise DraftError(
                self.place(self.tree),
                f"{self.name} returns nothing, and none of its arguments is passed to output()",
                "return a tensor, or pass what it writes to output(...)",
            )

    def place(self, node: ast.AST) -> Place:
        return Place(inspect.getsourcefile(self.function) or "?", getattr(node, "lineno", 1) + self._before)

    def _type(self, hint: Any, name: str) -> str:
        inner, optional = without_none(hint)
        if inner not in _SIMPLE:
            raise DraftError(
                self.place(self.tree),
                f"{self.name}'s parameter {name} has no type of a schema",
                "annotate it as Tensor, int, float, bool, str, torch.dtype or torch.device, or one of them | None",
            )
        return _SIMPLE[inner] + ("?" if optional else "")

    def _results(self, hint: Any) -> tuple[str, ...]:
        if hint is type(None):
            return ()
        parts = typing.get_args(hint) if typing.get_origin(hint) is tuple else (hint,)
        if not all(part is torch.Tensor for part in parts):
            raise DraftError(
                self.place(self.tree),
                "the result is not annotated as Tensor, a tuple of them, or None",
                "write -> Tensor, -> tuple[Tensor, Tensor] or -> None",
            )
        return ("Tensor",) * len(parts)

    def _result_names(self) -> tuple[str, ...]:
        """The names of the last return's values; "" for a value that is not a variable."""
        returns = [node for node in ast.walk(self.tree) if isinstance(node, ast.Return) and node.value is not None]
        if not returns:
            return ()
        value = max(returns, key=lambda node: node.lineno).value
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        return tuple(part.id if isinstance(part, ast.Name) else "" for part in parts)

    def _written(self) -> tuple[str, ...]:
        """Arguments that are passed to output(), directly or as a view: ``output(rows(x))``."""
        outputs = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and self._global(node.func) is trifold.prototype.output:
                passed = node.args[0]
                while (viewed := _viewed(passed)) is not None:
                    passed = viewed
                outputs |= {passed.id} if isinstance(passed, ast.Name) else set()
        return tuple(name for name in self.parameters if name in outputs - assigned_names(self.tree.body))

    def _global(self, node: ast.expr) -> Any:
        return self.function.__globals__.get(node.id) if isinstance(node, ast.Name) else None

    @property
    def schema(self) -> str:
        marks = {name: f"({chr(ord('a') + number)}!)" for number, name in enumerate(self.written)}
        types = (f"{kind[:6]}{marks[n]}{kind[6:]}" if n in marks else kind for n, kind in self.parameters.items())
        arguments = ", ".join(f"{kind} {name}" for kind, name in zip(types, self.parameters, strict=True))
        returned = self.results[0] if len(self.results) == 1 else f"({', '.join(self.results)})"
        return f"{self.name}({arguments}) -> {returned}"


def _viewed(node: ast.expr) -> ast.expr | None:
    """The expression of which this one is a view: x of rows(x), x[0], x.view(-1) and x.T."""
    match node:
        case ast.Subscript(value=inner) | ast.Call(func=ast.Attribute(value=inner)) | ast.Attribute(value=inner):
            return inner
        case ast.Call(args=[inner, *_]):
            return inner
    return None


def _defined(launch: _Launch, fake: str) -> str:
    line = f'op.define("{launch.schema}", fake={fake})'
    return line if len(line) <= _WIDTH else f'op.define(\n    "{launch.schema}",\n    fake={fake},\n)'


# ------------------------------------------------------------------------------------------------- fakes


class _Names:
    """The names that a port's functions use: imports, and functions copied from the prototype."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._modules: set[str] = set()
        self._from: dict[str, set[str]] = {"torch": {"Tensor"}, "trifold.port": {"Operators", "wire"}}
        self._known: set[str] = {"Tensor"}
        self.copied: list[str] = []

    def fake(self, launch: _Launch) -> str:
        """The fake of an operator as an expression; functions that it calls are copied."""
        if not launch.results:
            return "lambda *_: None"
        if not launch.result_names:
            raise DraftError(launch.place(launch.tree), f"{launch.name} has a result, and no return", "return it")
        body = without_equal_returns(what_results_need(launch.tree.body, set()))
        body = what_results_need(body, set())  # without statements that only the removed conditions used
        if any(reads_numbers(each) for each in body):
            raise DraftError(
                launch.place(launch.tree),
                f"the sizes of {launch.name}'s results depend on numbers that are read from a tensor",
                "allocate what is enough for all of them, or write ports/*.py",
            )
        expression = self._one_expression(body)
        if expression is not None:
            self._provide(launch, read_names([expression]) - set(launch.parameters))
            called = expression if isinstance(expression, ast.Call) else None
            if called is not None and not called.keywords and isinstance(called.func, ast.Name):
                given = [each.id if isinstance(each, ast.Name) else "" for each in called.args]
                if given == list(launch.parameters):
                    return called.func.id
            fake = f"lambda {', '.join(launch.parameters)}: {ast.unparse(expression)}"
            if len(fake) <= _WIDTH:
                return fake
        name = f"_{launch.name}_fake"
        self._provide(launch, read_names(body) - assigned_names(body) - set(launch.parameters))
        self.copied.append(_function(name, launch.tree, body))
        return name

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
        parts = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        if any(isinstance(part, ast.Name) and part.id not in values for part in parts):
            return None
        if read_names(values.values()) & set(values):
            return None
        made = [values.get(part.id, part) if isinstance(part, ast.Name) else part for part in parts]
        return ast.Tuple(made, ast.Load()) if isinstance(last.value, ast.Tuple) else made[0]

    def _provide(self, launch: _Launch, names: Iterable[str]) -> None:
        for name in sorted(names):
            if name not in self._known and not hasattr(builtins, name):
                self._known.add(name)
                self._provide_one(launch, name)

    def _provide_one(self, launch: _Launch, name: str) -> None:
        value = vars(self._module).get(name)
        own = getattr(value, "__module__", "")
        if isinstance(value, ModuleType):
            self._modules.add(value.__name__ if value.__name__ == name else f"{value.__name__} as {name}")
        elif getattr(trifold.port, name, None) is value and value is not None:
            self._from["trifold.port"].add(name)
        elif isinstance(value, FunctionType) and own == self._module.__name__:
            self._provide_helper(launch, value)
        elif own and not own.startswith(("numba", "trifold.prototype")) and own != self._module.__name__:
            self._from.setdefault(own, set()).add(name)
        elif _is_literal(value):
            self.copied.append(f"{name} = {value!r}")
        else:
            raise DraftError(
                launch.place(launch.tree),
                f"the results of {launch.name} are made with {name}, which a port cannot have",
                "write ports/*.py, or make them by functions of trifold.port and torch",
            )

    def _provide_helper(self, launch: _Launch, helper: FunctionType) -> None:
        """Copy a function of the prototype; one that launches or checks is reduced to what its result depends on."""
        tree, _ = function_tree(helper)
        parameters = set(inspect.signature(helper).parameters)
        names = read_names([tree]) - assigned_names([tree]) - parameters
        if any(_is_of_prototypes(vars(self._module).get(name)) for name in names):
            body = without_equal_returns(what_results_need(tree.body, set()))
            self._provide(launch, read_names(body) - assigned_names(body) - parameters)
            self.copied.append(_function(helper.__name__, tree, body))
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


def _function(name: str, like: ast.FunctionDef, body: list[ast.stmt]) -> str:
    """A function like another, with another body."""
    written = ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))
    returned = "" if like.returns is None else ast.unparse(like.returns)
    return f"{_signature(name, like.args, returned)}\n{textwrap.indent(written, '    ')}"


def _is_of_prototypes(value: Any) -> bool:
    """Whether a port cannot have it: a function of trifold.prototype that trifold.port lacks."""
    own, name = getattr(value, "__module__", None) or "", getattr(value, "__name__", "")
    return own.startswith("trifold.prototype") and not hasattr(trifold.port, name)


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


# ------------------------------------------------------------------------------------------------- the gradient


@dataclass(frozen=True)
class _Gradient:
    """``without``: the operator's tensor arguments that get no gradient."""

    autograd: str
    functions: tuple[str, ...]
    without: tuple[str, ...]


@dataclass
class _Saved:
    """What backward has as arguments besides upstream gradients."""

    tensors: list[str] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)

    def unpacked(self) -> Iterator[str]:
        for names, attribute in ((self.tensors, "saved_tensors"), (self.constants, "constants")):
            if names:
                yield f"    {f'({names[0]},)' if len(names) == 1 else ', '.join(names)} = ctx.{attribute}"


def _gradient(module: ModuleType, forward: _Launch, backward: _Launch) -> _Gradient | str:
    """The gradient, or the reason why the names do not define it."""
    upstream = [name for name in backward.parameters if name == "grad" or name.startswith("grad_")]
    single = len(_returned(module, forward)) == 1
    places: dict[int, str] = {}
    for name in upstream:
        result = name.removeprefix("grad_")
        if single or name == "grad":
            places[0] = name
        elif result in forward.result_names:
            places[forward.result_names.index(result)] = name
        else:
            return f"{backward.name}'s parameter {name} is named after no result of {forward.name}"
    if len(places) != len(upstream) or not places:
        return f"of {backward.name}'s parameters, one for each result must be named grad or grad_<result>"
    saved, from_results = _Saved(), {}
    for name, kind in backward.parameters.items():
        if name in upstream:
            continue
        if name in forward.parameters:
            (saved.tensors if kind.startswith("Tensor") else saved.constants).append(name)
        elif name in forward.result_names:
            saved.tensors.append(name)
            from_results[name] = forward.result_names.index(name)
        else:
            return f"{backward.name}'s parameter {name} is no parameter and no result of {forward.name}"
    of_tensors = [name for name, kind in forward.parameters.items() if kind.startswith("Tensor")]
    wanted = {name: f"grad_{name}" for name in of_tensors if f"grad_{name}" in backward.result_names}
    if len(wanted) != len(backward.results):
        if len(of_tensors) != 1 or len(backward.results) != 1:
            return f"the results of {backward.name} must be named grad_<argument>, each after another one"
        wanted = {of_tensors[0]: f"grad_{of_tensors[0]}"}
    return _written_gradient(module, forward, backward, places, saved, from_results, wanted)


def _written_gradient(
    module: ModuleType,
    forward: _Launch,
    backward: _Launch,
    places: dict[int, str],
    saved: _Saved,
    from_results: dict[str, int],
    wanted: dict[str, str],
) -> _Gradient:
    several = len(forward.results) > 1
    functions = []
    if saved.constants:
        taken = [
            (f"results[{from_results[name]}]" if several else "results") if name in from_results else name
            for name in (*saved.tensors, *saved.constants)
        ]
        arguments, values = f"{', '.join(forward.parameters)}, results", ", ".join(taken)
        save = f"lambda {arguments}: ({values}{',' if len(taken) == 1 else ''})"
        if len(save) > _WIDTH:
            save = "_save"
            functions.append(f"def _save({arguments}):  # type: ignore[no-untyped-def]\n    return {values}")
    else:
        names = [
            (f"result[{from_results[name]}]" if several else "result") if name in from_results else name
            for name in saved.tensors
        ]
        save = "[" + ", ".join(f'"{name}"' for name in names) + "]"
    only_backward = tuple(range(len(_returned(module, forward)), len(forward.results)))
    extra = f", no_gradient={only_backward}" if only_backward else ""
    line = f'op.autograd("{forward.name}", save={save}, backward=_backward{extra})'
    if len(line) > _WIDTH:
        line = f'op.autograd(\n    "{forward.name}",\n    save={save},\n    backward=_backward{extra},\n)'
    gradients = [places.get(number, "_") for number in range(len(_returned(module, forward)))]
    made = ", ".join(wanted[name] for name in sorted(wanted, key=_order(backward, wanted)))
    returned = ", ".join(wanted.get(name, "None") for name in forward.parameters)
    lines = [
        f"def _backward(ctx, {', '.join(gradients)}):  # type: ignore[no-untyped-def]",
        *saved.unpacked(),
        f"    {made} = {_operators(forward, backward)}.{backward.name}({', '.join(backward.parameters)})",
        f"    return {returned}",
    ]
    without = [name for name, kind in forward.parameters.items() if kind.startswith("Tensor") and name not in wanted]
    return _Gradient(line, (*functions, "\n".join(lines)), tuple(without))


def _order(backward: _Launch, wanted: dict[str, str]) -> Any:
    names = backward.result_names
    return lambda name: names.index(wanted[name]) if wanted[name] in names else 0


# ------------------------------------------------------------------------------------------------- the op's function


def _returned(module: ModuleType, forward: _Launch) -> tuple[str, ...]:
    """The results that a call returns: those of the reference; others are for backward."""
    reference = getattr(module, "reference", None)
    hint = None if reference is None else typing.get_type_hints(reference).get("return")
    if hint is torch.Tensor:
        return forward.results[:1]
    return forward.results[: len(typing.get_args(hint))] if typing.get_origin(hint) is tuple else forward.results


def _parameters_of_reference(module: ModuleType, forward: _Launch) -> list[str]:
    reference = getattr(module, "reference", None)
    return list(forward.parameters if reference is None else inspect.signature(reference).parameters)


def _called(module: ModuleType, forward: _Launch, without: Sequence[str]) -> str:
    """The op's public function, with the reference's parameters if they are the operator's.

    It refuses a gradient of the arguments ``without`` one, which would otherwise be taken for 0.
    """
    reference = getattr(module, "reference", None)
    source = forward.tree.args
    if reference is not None and _parameters_of_reference(module, forward) == list(forward.parameters):
        source = function_tree(reference)[0].args
    said = inspect.getdoc(forward.function) or (inspect.getdoc(reference) if reference is not None else None)
    text = said or f"What ``reference`` of prototypes/{forward.name}.py computes."
    doc = textwrap.indent(f'"""{text}{chr(10) if chr(10) in text else ""}"""', "    ")
    call = f"{_operators(forward)}.{forward.name}({', '.join(forward.parameters)})"
    count = len(_returned(module, forward))
    kind = "None" if not count else "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"
    body = f"    {call}" if not count else f"    result: {kind} = {call}\n    return result"
    if without:
        pairs = ", ".join(f'("{name}", {name})' for name in without)
        refusal = f"{forward.name}: {{name}} has no gradient here; pass {{name}}.detach()"
        lines = (
            "    if torch.is_grad_enabled():",
            f"        for name, value in ({pairs}{',' if len(without) == 1 else ''}):",
            '            if getattr(value, "requires_grad", False):',
            f'                raise RuntimeError(f"{refusal}")',
        )
        body = "\n".join((*lines, body))
    return f"{_signature(forward.name, source, kind)}\n{doc}\n{body}"


def _operators(*launches: _Launch) -> str:
    """The name of the operators in a function that has these launch functions' parameters as variables."""
    return _SHADOWED if any("op" in each.parameters for each in launches) else "op"


def _signature(name: str, arguments: ast.arguments, returned: str) -> str:
    """The head of a function, in one or several lines."""
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + list(arguments.defaults)
    written = [
        ast.unparse(each) + ("" if default is None else f" = {ast.unparse(default)}")
        for each, default in zip(arguments.args, defaults, strict=True)
    ]
    end = f") -> {returned}:" if returned else "):"
    line = f"def {name}({', '.join(written)}{end}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"def {name}(", *(f"    {each}," for each in written), end])
