"""``python -m trifold.draft.simulated``: drafts kernels on request, with Numba's CUDA types.

Reads requests (:class:`trifold.simulator.compiled.request.Request`, pickled) and answers each with a line of JSON.
"""

from __future__ import annotations

import enum
import importlib
import json
import linecache
import os
import pickle
import sys
from types import FunctionType
from typing import Any

from trifold.draft.signatures import Signature, keep
from trifold.simulator.compiled.drafts import Draft, DraftParameter, Refusal, as_answer
from trifold.simulator.compiled.request import FunctionText, Meaning, Request


class _Opaque:
    """A value that cannot be described; it has a name."""

    def __init__(self, name: str) -> None:
        self.__name__ = name


class _Object:
    """Represents a module or an object of the user."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        vars(self).update(attributes)


class _DeviceFunction:
    """Represents a function in kernels."""

    py_func: Any


class _Functions:
    """The functions of a request, recreated."""

    def __init__(self, request: Request) -> None:
        self._texts = request.functions
        self._made: dict[int, _DeviceFunction] = {}
        files: dict[str, dict[int, str]] = {}
        for each in self._texts:
            numbered = files.setdefault(each.path, {})
            numbered.update((each.first_line + i, line) for i, line in enumerate(each.lines))
        for path, numbered in files.items():
            whole = [numbered.get(number, "\n") for number in range(1, max(numbered) + 1)]
            linecache.cache[path] = (0, None, whole, path)

    def function(self, number: int) -> _DeviceFunction:
        if number not in self._made:
            made = self._made[number] = _DeviceFunction()
            made.py_func = self._python(self._texts[number])
            if (signature := self._texts[number].signature) is not None:
                keep(made, [Signature(*signature)])
        return self._made[number]

    def _python(self, text: FunctionText) -> FunctionType:
        indent = len(text.lines[0]) - len(text.lines[0].lstrip())
        lines = ["\n"] * (text.first_line - 1) + [line[indent:] if line.strip() else "\n" for line in text.lines]
        code = compile("".join(lines), text.path, "exec", dont_inherit=True)
        inner = [each for each in code.co_consts if hasattr(each, "co_name") and each.co_name == text.name]
        names: dict[str, Any] = {"__builtins__": __builtins__, "__name__": "drafted"}
        function = FunctionType(inner[-1], names)
        function.__defaults__ = tuple(map(self.value, text.defaults)) or None
        names.update({name: self.value(meaning) for name, meaning in text.meanings.items()})
        return function

    def value(self, meaning: Meaning) -> Any:
        match meaning.kind:
            case "plain":
                return pickle.loads(meaning.value)
            case "module":
                return importlib.import_module(meaning.value)
            case "cuda":
                value: Any = importlib.import_module("numba.cuda")
                for name in filter(None, meaning.value.split(".")):
                    value = getattr(value, name, None) or _Opaque(f"cuda.{meaning.value}")
                return value
            case "function":
                return self.function(meaning.value)
            case "member":
                enumeration, name, number, is_integer = meaning.value
                kind: Any = enum.IntEnum if is_integer else enum.Enum
                return getattr(kind(enumeration, {name: number}), name)
            case "tuple":
                return tuple(map(self.value, meaning.value))
            case "object":
                return _Object({name: self.value(each) for name, each in meaning.value.items()})
        return _Opaque(meaning.value)


def draft(request: Request) -> Draft | Refusal:
    from trifold.draft import DraftError, draft_kernel

    name = request.functions[0].name
    try:
        function = _Functions(request).function(0).py_func
        made = draft_kernel(function, request.argument_types, line_directives=True, simulated=True)
    except DraftError as error:
        return Refusal(f"{os.path.basename(error.place.path)}:{error.place.line}: {error.problem.partition(': ')[2]}")
    except Exception as error:  # an error of the drafter: the kernel still runs in the interpreter
        return Refusal(f"the drafter fails: {type(error).__name__}: {error}")
    parameters = tuple(DraftParameter(p.name, p.type, p.argument, p.kind, p.dimension) for p in made.parameters)
    return Draft(name, made.text, made.entry, parameters, made.shapes, made.by_regions)


def main() -> None:
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # so that printed text is not mixed with the answers
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        print(json.dumps(as_answer(draft(request))), file=answers, flush=True)


if __name__ == "__main__":
    main()
