"""Values for the templates of an elementwise op, for any signature.

The generated op is the sum of the squares of its tensors, times its numbers, negated by each flag: for (Tensor x, float
alpha) it is alpha · x². It has a gradient, and is not a copy of an argument, whatever the signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from trifold.new import formula
from trifold.new.layout import WIDTH, define
from trifold.new.signature import Argument, Signature

DEFAULT = "(Tensor x, float alpha) -> Tensor"

# The spec's name for the op, and the strategy that it draws from.
_USUAL = {"float": "0.5", "int": "3", "bool": "True"}
_DRAWN = {
    "float": "st.sampled_from((0.5, -3.0))",
    "int": "st.sampled_from((3, -2))",
    "bool": "st.booleans()",
}
# Round-offs of the result: a square, the numbers' product and the multiplication by it; each further tensor adds a sum.
# More than 4 must be stated.
_ROUNDED = 3


def context(op: str, signature: Signature) -> dict[str, Any]:
    """The variables of the templates."""
    s = signature
    optionals = tuple(each for each in s.tensors if each.optional)
    required = tuple(each for each in s.tensors if not each.optional)
    scalar_names = [each.name for each in s.scalars]
    return {
        "s": s,
        "names": [each.name for each in s.arguments],
        "scalar_names": scalar_names,
        "scalar_python": [each.python for each in s.scalars],
        "scalar_cpp": [each.cpp for each in s.scalars],
        "scalar_kernel_parameters": [each.kernel for each in s.scalars],
        "op_python": [each.python for each in s.arguments],
        "cpp_parameters": [each.cpp for each in s.arguments],
        "kernel_parameters": [each.kernel for each in s.arguments],
        "required": required,
        "optionals": optionals,
        "required_checks": [f"{each.name}={each.name}" for each in required],
        "several": len(s.tensors) > 1,
        "reference_body": formula.forward(s, formula.Reference()),
        "prototype_body": formula.forward(s, formula.Prototype()),
        "cpp_body": formula.forward(s, formula.Cpp()),
        "prototype_backward_body": formula.backward(s, formula.Prototype("grad_x")),
        "cpp_backward_body": formula.backward(s, formula.Cpp("grad_x")),
        "launch_arguments": [_launch_argument(each) for each in s.arguments],
        "formula": _formula(s),
        "described": {each.name: _description(each, s.first) for each in s.arguments},
        "raises": "another dtype, or shape, dtype or device differ; the message names both."
        if len(s.tensors) > 1
        else f"``{s.first.name}`` has another dtype.",
        **_wiring(op, s),
        **_example(op, s),
        **_spec(s),
    }


def _launch_argument(argument: Argument) -> str:
    if not argument.is_tensor:
        return argument.name
    return f"flat_{argument.name}" if argument.optional else f"flat({argument.name}, out)"


def _formula(s: Signature) -> str:
    squares = " + ".join(f"{each.name}²" for each in s.tensors)
    factors = [each.name for each in s.factors]
    signs = "±" if s.flags else ""
    if not factors:
        return f"{signs}({squares})" if signs and len(s.tensors) > 1 else signs + squares
    return signs + " · ".join([*factors, f"({squares})" if len(s.tensors) > 1 else squares])


def _description(argument: Argument, first: Argument) -> str:
    match argument.kind:
        case "Tensor":
            return f"of the same shape, dtype and device as ``{first.name}``; its strides may differ."
        case "Tensor?":
            return f"None, or of the same shape, dtype and device as ``{first.name}``."
        case "bool":
            return "whether the sign is turned."
        case _:
            return "a factor."


def _wiring(op: str, s: Signature) -> dict[str, str]:
    """The statements of ``ports/<op>.py``."""
    names = [each.name for each in s.arguments]
    tensors, scalars = [each.name for each in s.tensors], [each.name for each in s.scalars]
    before = names[: names.index(s.first.name) + 1]
    others = "" if len(names) == len(before) else ", *others"
    fake = f"fake=lambda {', '.join(before)}{others}: elementwise_output({before[-1]})"
    backward = ["Tensor grad", "Tensor x", *(each.schema for each in s.scalars)]
    rest = ", *ctx.constants" if scalars else ""
    of_x = f"op.{op}_backward(grad_of_grad, x{rest})"
    of_grad = f"op.{op}_backward(grad_of_grad, grad{rest})"
    return {
        "define_forward": define(op, [each.schema for each in s.arguments], "Tensor", fake),
        "define_backward": define(
            f"{op}_backward",
            backward,
            "Tensor",
            f"fake=lambda grad, x{', *others' if scalars else ''}: elementwise_output(x)",
        ),
        **_saving("forward", "_save", names, tensors, scalars, by_name=not any(each.optional for each in s.tensors)),
        **_saving("backward", "_save_backward", ["grad", "x", *scalars], ["grad", "x"], scalars, by_name=True),
        "unpack_tensors": _unpacked(tensors),
        "gradients": _gradients(op, s, rest),
        "second_gradients": _returned([of_x, of_grad, *["None"] * len(scalars)]),
    }


def _saving(
    which: str, name: str, names: Sequence[str], tensors: Sequence[str], scalars: Sequence[str], *, by_name: bool
) -> dict[str, str]:
    """The ``save`` argument of ``op.autograd``, and a function for it if it is too long for a line."""
    if by_name and not scalars:
        quoted = ", ".join(f'"{tensor}"' for tensor in tensors)
        return {f"save_{which}": f"save=[{quoted}]", f"saver_{which}": ""}
    values = ", ".join([*tensors, *scalars])
    short = f"save=lambda {', '.join([*names, 'out'])}: ({values}{',' if values == tensors[0] else ''})"
    if len(short) + 9 <= WIDTH:
        return {f"save_{which}": short, f"saver_{which}": ""}
    parameters, unannotated = ", ".join([*names, "out"]), "# type: ignore[no-untyped-def]"
    head = f"def {name}({parameters}):  {unannotated}"
    if len(head) > WIDTH:
        head = f"def {name}(  {unannotated}\n    {parameters}\n):"
    return {f"save_{which}": f"save={name}", f"saver_{which}": f"{head}\n    return {values}\n"}


def _unpacked(tensors: Sequence[str]) -> str:
    if len(tensors) == 1:
        return f"    ({tensors[0]},) = ctx.saved_tensors"
    return f"    {', '.join(tensors)} = ctx.saved_tensors\n    wanted = ctx.needs_input_grad"


def _gradients(op: str, s: Signature, rest: str) -> str:
    several = len(s.tensors) > 1
    each = [
        f"op.{op}_backward(grad, {argument.name}{rest}){f' if wanted[{position}] else None' if several else ''}"
        if argument.is_tensor
        else "None"
        for position, argument in enumerate(s.arguments)
    ]
    return _returned(each)


def _returned(values: Sequence[str]) -> str:
    line = f"    return {', '.join(values)}"
    if len(line) <= 100 and len(values) <= 3:
        return line
    return "    return (\n" + "".join(f"        {value},\n" for value in values) + "    )"


def _example(op: str, s: Signature) -> dict[str, str]:
    """A call, and its output."""
    given: dict[str, Any] = {"float": 0.5, "int": 3, "bool": True, "Tensor?": None}
    x = torch.tensor([1.0, -3.0])
    shown = [
        ("x" if each.kind == "Tensor" else repr(given[each.kind]))
        if not each.keyword_only
        else f"{each.name}={given[each.kind]!r}"
        for each in s.arguments
    ]
    total = sum(not each.optional for each in s.tensors) * x * x
    for each in s.scalars:
        total = -total if each.kind == "bool" else total * given[each.kind]
    return {"example": f'trifold.load("{op}")({", ".join(shown)})', "example_result": repr(total)}


def _spec(s: Signature) -> dict[str, Any]:
    count = len(s.tensors)
    tensor_names = [each.name for each in s.tensors]
    positional = ", ".join(each.name for each in s.arguments if not each.keyword_only)
    keywords = ", ".join(f'"{each.name}": {each.name}' for each in s.arguments if each.keyword_only)
    multiple = _ROUNDED + count - 1
    plain = not s.scalars and not any(each.optional for each in s.tensors)
    return {
        "count": count,
        "tensor_names": tensor_names,
        "quoted_names": [f'"{name}"' for name in tensor_names],
        "call_parameters": [
            *(f"{name}: Any" for name in tensor_names),
            *(f"{each.name}: {each.kind} = {_USUAL[each.kind]}" for each in s.scalars),
        ],
        "positional": positional,
        "keywords": keywords,
        "plain": plain,
        "keyword_scalars": [f"{each.name}={each.name}" for each in s.scalars],
        "imports": _imports(plain),
        "sample_call": _sample_call(count, plain),
        "drawn": [(each.name, _DRAWN[each.kind]) for each in s.scalars],
        "unpacked": f"({tensor_names[0]},)" if count == 1 else ", ".join(tensor_names),
        "drawn_tensors": [
            f"draw(st.sampled_from(({each.name}, None)))" if each.optional else each.name for each in s.tensors
        ],
        "without_optionals": [
            "None" if each.optional else f"TensorCase((3,), torch.float64, seed={20 + position})"
            for position, each in enumerate(s.tensors)
        ],
        "multiple": multiple,
    }


def _sample_call(count: int, plain: bool) -> str:
    case = 'TensorCase((37,), dtype, fill="special"'
    if count == 1:
        return f"Call(({case}),))" if plain else f"_call({case}))"
    several = f"({case}, seed=seed) for seed in range({count}))"
    return f"Call(tuple{several})" if plain else f"_call(*{several})"


def _imports(plain: bool) -> str:
    """In isort's format: one line, or a line for each name."""
    names = [
        "DTYPES",
        "Call",
        "Limits",
        "Sample",
        "Spec",
        "TensorCase",
        "alike",
        "elementwise",
        "elementwise_bad_calls",
    ]
    names = [*names, "elementwise_smooth"]
    used = [name for name in names if name not in (("Limits", "alike") if plain else ("elementwise",))]
    line = f"from trifold.spec import {', '.join(used)}"
    if len(line) <= WIDTH:
        return line
    return "from trifold.spec import (\n" + "".join(f"    {name},\n" for name in used) + ")"
