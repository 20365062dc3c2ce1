"""Values for the templates of an op of any signature.

The generated op computes one sum, of the squares of all tensors that are present, times a factor from all other
arguments. Result k is k times that, and so are the values written into arguments that the signature marks. So each
argument affects each result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trifold.new.layout import WIDTH, define
from trifold.new.schema import Argument, Operator, Type

_MOST_IN_A_LIST = 3
# The sample value of each type that is not a tensor.
_USUAL = {
    "int": "3",
    "float": "0.5",
    "bool": "True",
    "str": '"sum"',
    "ScalarType": "torch.float16",
    "Device": 'torch.device("cpu")',
}


def context(op: str, operator: Operator) -> dict[str, Any]:
    """The variables of the templates."""
    arguments, first = operator.arguments, operator.first
    names = [each.name for each in arguments]
    tensors = [first, *(each for each in operator.tensors if each is not first)]
    returns = [each.schema for each in operator.results]
    annotations = [each.python.replace("Sequence", "list") for each in operator.results]
    return {
        "arguments": arguments,
        "names": names,
        "parameters": _parameters(operator),
        "plain_parameters": [each.python for each in arguments],
        "cpp_parameters": [each.cpp for each in arguments],
        "first": first.name,
        "first_is_list": first.type.is_list,
        "others": operator.others,
        "other_names": [each.name for each in operator.others],
        "given_arguments": [f"{each.name}={each.name}" for each in tensors],
        "collected": [each.name for each in tensors],
        "written": operator.written,
        "written_names": ", ".join(f'"{each.name}"' for each in operator.written),
        "returns": {0: "None", 1: annotations[0] if annotations else ""}.get(
            len(returns), f"tuple[{', '.join(annotations)}]"
        ),
        "returned": _returned(_python_results(operator, "results[{}]")),
        "reference_lines": _reference(operator),
        "fake_returned": _returned(_python_results(operator, "first.new_empty(first.shape)")),
        "uses_first": bool(operator.results),
        "uses_sequence": any(each.type.is_list for each in arguments),
        "uses_torch": any("torch." in text for text in (*map(str, annotations), *(each.python for each in arguments))),
        "result_tensors": [each.name for each in operator.written] + _made(_new(operator)),
        "define": define(op, [each.schema for each in arguments], _one_or_several(returns), "fake=_fake"),
        "described": {each.name: _description(each, first) for each in arguments},
        **_cpp(operator, tensors),
        **_spec(operator),
    }


def _parameters(operator: Operator) -> list[str]:
    texts = [each.python + ("" if each.default is None else f" = {each.default}") for each in operator.arguments]
    after = [position for position, each in enumerate(operator.arguments) if each.keyword_only]
    return [*texts[: after[0]], "*", *texts[after[0] :]] if after else texts


def _one_or_several(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _made(count: int) -> list[str]:
    """New tensors, as items of a list."""
    one = "first.new_empty(first.shape)"
    return [one] * count if count < 2 else [f"*({one} for _ in range({count}))"]


def _returned(values: list[str]) -> str:
    """The return statement; empty if nothing is returned."""
    line = f"    return {', '.join(values)}"
    if not values or len(line) <= WIDTH:
        return line if values else ""
    return "    return (\n" + "".join(f"        {value},\n" for value in values) + "    )"


def _tensors_of(result: Type) -> int:
    """The number of tensors in a result."""
    return 2 if result.is_list and not result.element_optional else 1


def _new(operator: Operator) -> int:
    return sum(map(_tensors_of, operator.results))


def _python_results(operator: Operator, tensor: str) -> list[str]:
    """Each result; ``tensor`` makes a new one, and has a placeholder for its index, counted from the end."""
    values, made, total = [], 0, _new(operator)
    for result in operator.results:
        own = [tensor.format(made + k - total) for k in range(_tensors_of(result))]
        made += len(own)
        values.append(_value(result, own, "None", "[{}]"))
    return values


def _value(result: Type, own: list[str], none: str, listed: str) -> str:
    of_list = [*own, none] if result.element_optional else own
    return listed.format(", ".join(of_list)) if result.is_list else own[0]


def _reference(operator: Operator) -> list[str]:
    lines = [f"{each.name}.copy_({number} * total)" for number, each in enumerate(operator.written, 1)]
    values = _python_results(operator, "#{}#")
    total, before = _new(operator), len(operator.written)
    for k in range(total):
        values = [value.replace(f"#{k - total}#", f"{before + k + 1} * total") for value in values]
    return [*lines, *([_returned(values)[4:]] if values else [])]


def _cpp(operator: Operator, tensors: list[Argument]) -> dict[str, Any]:
    types = [each.type for each in tensors]
    others = [each.type for each in operator.others]
    results = [f"results.push_back({each.name});" for each in operator.written]
    if _new(operator):
        results.append("const std::size_t made = results.size();")
        room = "results.push_back(trifold::empty_contiguous(first, first.sizes()));"
        results.append(f"for (int k = 0; k < {_new(operator)}; ++k) {room}")
    values, made = [], 0
    for result in operator.results:
        own = [f"results[made + {made + k}]" for k in range(_tensors_of(result))]
        made += len(own)
        listed = replace(result, list_optional=False).cpp
        values.append(_value(result, own, "std::nullopt", listed + "{{{}}}"))
    kinds = [each.cpp for each in operator.results]
    return {
        "cpp_returns": {0: "void", 1: kinds[0] if kinds else ""}.get(len(kinds), f"std::tuple<{', '.join(kinds)}>"),
        "cpp_results": results,
        "cpp_returned": values,
        "several": len(values) > 1,
        "collects_optional": any(each.element_optional for each in types),
        "collects_list": any(each.is_list for each in types),
        "collects_optional_list": any(each.list_optional for each in types),
        "other_bases": sorted({each.base for each in others}),
        "factors_optional": any(each.element_optional for each in others),
        "factors_list": any(each.is_list for each in others),
        "factors_optional_list": any(each.list_optional for each in others),
    }


def _spec(operator: Operator) -> dict[str, Any]:
    first = operator.first
    values: list[str] = []
    cases = 0
    for each in operator.arguments:
        made = [f"cases[{cases + k}]" for k in range(_cases(each.type))]
        cases += len(made)
        values.append(_sample(each.type, made))
    position = [each.name for each in operator.arguments if not each.keyword_only].index
    positional = [each.name for each in operator.arguments if not each.keyword_only]
    most = sum(_MOST_IN_A_LIST if each.type.is_list else 1 for each in operator.tensors)
    return {
        "call_parameters": [f"{each.name}: Any" for each in operator.arguments],
        "positional": ", ".join(positional),
        "keywords": ", ".join(f'"{each.name}": {each.name}' for each in operator.arguments if each.keyword_only),
        "strategies": [_strategy(each, first) for each in operator.arguments],
        "cases": cases,
        "sample_values": values,
        "bad_place": f'kwargs["{first.name}"]' if first.keyword_only else f"args[{position(first.name)}]",
        "multiple": 6 + most,
    }


def _strategy(argument: Argument, first: Argument) -> str:
    text = argument.type.strategy
    if argument.alias:
        return "written"
    return text.replace("max_size=3", "min_size=1, max_size=3") if argument is first else text


def _cases(kind: Type) -> int:
    """The number of tensors in a sample's argument."""
    if not kind.is_tensor:
        return 0
    return (kind.length or 2) if kind.is_list else 1


def _sample(kind: Type, cases: list[str]) -> str:
    each = cases or [_USUAL[kind.base]] * (kind.length or (2 if kind.is_list else 1))
    absent = [f"{value} if given else None" for value in each] if kind.element_optional else each
    text = f"[{', '.join(absent)}]" if kind.is_list else absent[0]
    return f"{text} if given else None" if kind.list_optional else text


def _description(argument: Argument, first: Argument) -> str:
    kind = argument.type
    if argument is first:
        text = "one at least, of " if kind.is_list else ""
        text += "any shape and strides; float64, float32, float16 or bfloat16; on the CPU or a GPU."
    elif kind.is_tensor:
        text = f"{'tensors ' if kind.is_list else ''}of the same shape, dtype and device as ``{first.name}``."
    else:
        text = "a part of the factor."
    return f"written, contiguous, {text}" if argument.alias else text
