"""An op's schema, fakes and gradient, ``ports/OP.py``, from the launch functions of its prototype.

- **Schema**: from the annotations of a launch function; arguments passed to :func:`trifold.prototype.output` are
  written.
- **Fake**: the statements on which its results depend, without checks and launches.
- **Gradient**: from a function named ``OP_backward``, by its names: parameters ``grad`` or ``grad_<result>`` are the
  upstream gradients, other parameters are saved tensors, named as in the forward function, or sizes that it assigns to
  variables of their names; results are named ``grad_<argument>``.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

from trifold.draft.binding import launch_functions
from trifold.draft.fakes import WIDTH, Fakes, signature
from trifold.draft.launch_function import LaunchFunction
from trifold.draft.saved_sizes import size_in
from trifold.draft.source import function_tree
from trifold.errors import PrototypeError
from trifold.new.layout import in_lines, python_list

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
    launches = [LaunchFunction(function) for function in launch_functions(module, op)]
    forward = next((each for each in launches if each.name == op), None)
    if forward is None:
        raise PrototypeError(f"prototypes/{op}.py has no function named {op}", "write the launch function")
    names = Fakes(module, op)
    fakes = {each.name: names.fake(each) for each in launches}
    backward = next((each for each in launches if each.name == f"{op}_backward"), None)
    gradient = _gradient(module, forward, backward) if backward else f"there is no function {op}_backward"
    stated = gradient.autograd if isinstance(gradient, _Gradient) else f"# No gradient is stated: {gradient}."
    remarks = [] if isinstance(gradient, _Gradient) else [f"no gradient is stated: {gradient}"]
    more = [name for name in forward.parameters if name not in _parameters_of_reference(module, forward)]
    if more:
        remarks.append(f"the operator takes {', '.join(more)}, unlike reference: let {op} pass it")
    if names.open_sizes:
        remarks.append("a size of a result is a number that a call reads: say why in Spec(waits_for_gpu=...)")
    without = gradient.without if isinstance(gradient, _Gradient) else ()
    if without:
        names.add_module("torch")
    names.provide_types(forward, _public_arguments(module, forward))
    own = _operators(*launches)
    lines = [*(_defined(each, fakes[each.name]) for each in launches), stated]
    parts = [
        f'"""{op}: the operator."""',
        names.imports(),
        *names.copied,
        f"def register(op: Operators) -> None:\n{textwrap.indent(chr(10).join(lines), '    ')}",
        *(gradient.functions if isinstance(gradient, _Gradient) else ()),
        _called(module, forward, without, picks=not isinstance(gradient, _Gradient)),
        "\n".join(["op = wire(__name__, register)", *([f"{own} = op"] if own != "op" else [])]),
    ]
    text = parts[0] + "\n\n" + "\n\n\n".join(part.strip("\n") for part in parts[1:]) + "\n"
    return DraftedPort(text, tuple(remarks))


def _defined(launch: LaunchFunction, fake: str) -> str:
    line = f'op.define("{launch.schema}", fake={fake})'
    literal = "\n    ".join(f'"{each}"' for each in in_lines(re.split(r"(?<=, )", launch.schema), WIDTH))
    return line if len(line) <= WIDTH else f"op.define(\n    {literal},\n    fake={fake},\n)"


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
    sizes: dict[str, str] = field(default_factory=dict)  # constants that are no arguments: their expressions
    with_none: bool = False  # whether a constant may be None, which alone is taken for a tensor: they are one tuple

    def unpacked(self) -> Iterator[str]:
        constants = [_tuple(self.constants)] if self.with_none else self.constants
        for names, attribute in ((self.tensors, "saved_tensors"), (constants, "constants")):
            if names:
                yield f"    {f'({names[0]},)' if len(names) == 1 else ', '.join(names)} = ctx.{attribute}"


def _gradient(module: ModuleType, forward: LaunchFunction, backward: LaunchFunction) -> _Gradient | str:
    """The gradient, or the reason why the names do not define it."""
    if lists := [name for each in (forward, backward) for name, kind in each.parameters.items() if kind == "Tensor[]"]:
        return f"{lists[0]} is a list of tensors, whose gradients are stated by hand"
    if "Tensor[]" in forward.results + backward.results:
        return "a result is a list of tensors, whose gradients are stated by hand"
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
            is_tensor = kind.startswith("Tensor")
            (saved.tensors if is_tensor else saved.constants).append(name)
            saved.with_none |= not is_tensor and kind.endswith("?")
        elif name in forward.result_names:
            saved.tensors.append(name)
            from_results[name] = forward.result_names.index(name)
        elif kind.startswith("int") and (size := size_in(forward, name)) is not None:
            saved.constants.append(name)
            saved.sizes[name] = size
        else:
            return f"{backward.name}'s parameter {name} is no parameter, no result and no size in {forward.name}"
    of_tensors = [name for name, kind in forward.parameters.items() if kind.startswith("Tensor")]
    wanted = {name: f"grad_{name}" for name in of_tensors if f"grad_{name}" in backward.result_names}
    if len(wanted) != len(backward.results):
        if len(of_tensors) != 1 or len(backward.results) != 1:
            return f"{backward.name} must return variables named grad_<argument>, each of a different argument"
        wanted = {of_tensors[0]: f"grad_{of_tensors[0]}"}
    return _written_gradient(module, forward, backward, places, saved, from_results, wanted)


def _written_gradient(
    module: ModuleType,
    forward: LaunchFunction,
    backward: LaunchFunction,
    places: dict[int, str],
    saved: _Saved,
    from_results: dict[str, int],
    wanted: dict[str, str],
) -> _Gradient:
    several = len(forward.results) > 1
    functions = []
    if saved.constants:
        own = "results[{}]" if several else "results"
        taken = [own.format(from_results[name]) if name in from_results else name for name in saved.tensors]
        constants = [saved.sizes.get(name, name) for name in saved.constants]
        taken += [_tuple(constants)] if saved.with_none else constants
        arguments, values = f"{', '.join(forward.parameters)}, results", ", ".join(taken)
        save = f"lambda {arguments}: ({values}{',' if len(taken) == 1 else ''})"
        if len(save) > WIDTH:
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
    if len(line) > WIDTH:
        line = f'op.autograd(\n    "{forward.name}",\n    save={save},\n    backward=_backward{extra},\n)'
    gradients = [places.get(number, "_") for number in range(len(_returned(module, forward)))]
    made = ", ".join(wanted[name] for name in sorted(wanted, key=_order(backward, wanted)))
    optional = {
        name: f" if ctx.needs_input_grad[{place}] else None"
        for place, (name, kind) in enumerate(forward.parameters.items())
        if kind == "Tensor?"
    }
    returned = ", ".join(
        wanted[name] + optional.get(name, "") if name in wanted else "None" for name in forward.parameters
    )
    lines = [
        f"def _backward(ctx, {', '.join(gradients)}):  # type: ignore[no-untyped-def]",
        *saved.unpacked(),
        f"    {made} = {_operators(forward, backward)}.{backward.name}({', '.join(backward.parameters)})",
        f"    return {returned}",
    ]
    without = [name for name, kind in forward.parameters.items() if kind.startswith("Tensor") and name not in wanted]
    return _Gradient(line, (*functions, "\n".join(lines)), tuple(without))


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _order(backward: LaunchFunction, wanted: dict[str, str]) -> Any:
    names = backward.result_names
    return lambda name: names.index(wanted[name]) if wanted[name] in names else 0


# ------------------------------------------------------------------------------------------------- the op's function


def _returned(module: ModuleType, forward: LaunchFunction) -> tuple[str, ...]:
    """The results that a call returns: those of the reference; others are for backward."""
    reference = getattr(module, "reference", None)
    hint = None if reference is None else typing.get_type_hints(reference).get("return")
    if hint is torch.Tensor:
        return forward.results[:1]
    return forward.results[: len(typing.get_args(hint))] if typing.get_origin(hint) is tuple else forward.results


def _parameters_of_reference(module: ModuleType, forward: LaunchFunction) -> list[str]:
    reference = getattr(module, "reference", None)
    return list(forward.parameters if reference is None else inspect.signature(reference).parameters)


def _called(module: ModuleType, forward: LaunchFunction, without: Sequence[str], *, picks: bool) -> str:
    """The op's public function, with the reference's parameters if they are the operator's.

    It refuses a gradient of the arguments ``without`` one, which would otherwise be taken for 0. It ``picks`` the
    reference's results from the operator's, unless the gradient is stated, which tells which are for backward.
    """
    reference = getattr(module, "reference", None)
    said = inspect.getdoc(forward.function) or (inspect.getdoc(reference) if reference is not None else None)
    text = said or f"What ``reference`` of prototypes/{forward.name}.py computes."
    doc = textwrap.indent(f'"""{text}{chr(10) if chr(10) in text else ""}"""', "    ")
    called, end = f"{_operators(forward)}.{forward.name}(", ")"
    count = len(_returned(module, forward))
    if picks and 0 < count < len(forward.results):
        end += "[0]" if count == 1 else f"[:{count}]"
    kinds = ["list[Tensor]" if each == "Tensor[]" else each for each in forward.results[:count]]
    kind = "None" if not count else kinds[0] if count == 1 else f"tuple[{', '.join(kinds)}]"
    argument = forward.returned_argument
    begin = f"    result: {kind} = {called}" if count else f"    {called}"
    body = python_list(begin, list(forward.parameters), end)
    if count or argument:
        body += f"\n    return {argument or 'result'}"
        kind = "Tensor" if argument else kind
    if without:
        pairs = ", ".join(f'("{each}", {each})' for each in without)
        name, tensor = (_free(each, forward.parameters) for each in ("name", "value"))
        refusal = f"{forward.name}: {{{name}}} has no gradient here; pass {{{name}}}.detach()"
        lines = (
            "    if torch.is_grad_enabled():",
            f"        for {name}, {tensor} in ({pairs}{',' if len(without) == 1 else ''}):",
            f'            if getattr({tensor}, "requires_grad", False):',
            f'                raise RuntimeError(f"{refusal}")',
        )
        body = "\n".join((*lines, body))
    return f"{signature(forward.name, _public_arguments(module, forward), kind)}\n{doc}\n{body}"


def _public_arguments(module: ModuleType, forward: LaunchFunction) -> ast.arguments:
    """The reference's arguments, with its defaults, if they are the operator's; else the operator's."""
    reference = getattr(module, "reference", None)
    if reference is not None and _parameters_of_reference(module, forward) == list(forward.parameters):
        return function_tree(reference)[0].args
    return forward.tree.args


def _free(name: str, taken: Iterable[str]) -> str:
    """The name, or if it is taken a longer one that is not."""
    while name in taken:
        name += "_"
    return name


def _operators(*launches: LaunchFunction) -> str:
    """The name of the operators in a function that has these launch functions' parameters as variables."""
    return _SHADOWED if any("op" in each.parameters for each in launches) else "op"
