"""A drafted kernel as native code: built for the CPU, kept in the build cache, loaded, and launched."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from trifold.build import sources, text
from trifold.cpu import runtime
from trifold.errors import BuildError, TrifoldError
from trifold.limits import capability_name
from trifold.simulator.compiled.drafts import Draft


class BuildRefusedError(TrifoldError):
    """g++ does not compile the draft."""


class Ended(IntEnum):
    """How a launch ended: values of ``trifold::cpu::Ended``."""

    WELL = 0
    BY_AN_ERROR = 1
    OUT_OF_BOUNDS = 2
    SUSPECTED = 3


# The three builds of a draft differ in the checks of an access besides its bounds.
PLAIN, SCREEN, CHECKED = "plain", "screen", "checked"

_FORMATS = {
    "bool": "?",
    "int8_t": "b",
    "uint8_t": "B",
    "int16_t": "h",
    "uint16_t": "H",
    "int": "i",
    "uint32_t": "I",
    "int64_t": "q",
    "uint64_t": "Q",
    "__half": "e",
    "float": "f",
    "double": "d",
}


class Parameters:
    """The layout of a kernel's parameter values: consecutive, each at a multiple of eight bytes."""

    def __init__(self, draft: Draft) -> None:
        for each in draft.parameters:
            if each.kind == "value" and each.type not in _FORMATS:
                raise BuildRefusedError(f"a parameter of the type {each.type} cannot be passed")
        formats = ["Q" if each.kind == "array" else _FORMATS[each.type] for each in draft.parameters]
        self._format = struct.Struct("<" + "".join(f"{one}{8 - struct.calcsize(one)}x" for one in formats))
        self._buffer = ctypes.create_string_buffer(max(8, self._format.size))
        begin = ctypes.addressof(self._buffer)
        count = len(formats)
        self.pointers = (ctypes.c_void_p * max(1, count))(*(begin + 8 * i for i in range(count)))

    def set(self, values: Sequence[Any]) -> None:
        self._format.pack_into(self._buffer, 0, *values)


class Library:
    """One build of a draft. Only one OS thread may launch at a time."""

    def __init__(self, draft: Draft, form: str) -> None:
        self._draft = draft
        self._form = form
        self.parameters = Parameters(draft)

    @cached_property
    def _library(self) -> ctypes.CDLL:
        """Load the library; build it first unless the build cache has it.

        Raises:
            BuildRefusedError: g++ fails.
            ToolchainError: g++ is missing or too old.
        """
        draft, form = self._draft, self._form
        options = ["-std=c++20", "-g", *(["-DTRIFOLD_SCREEN"] if form == SCREEN else [])]
        path = text.kept(draft.text + (draft.by_regions if form == PLAIN else ""), draft.entry)
        try:
            product = text.build_library(
                path, options, checked=form == CHECKED, tail=_tail(draft, form), capability=capability_name(None)
            )
            library = ctypes.CDLL(str(product.path))
        except (BuildError, OSError) as error:
            raise BuildRefusedError(f"g++ does not compile the draft: {error}") from None
        runtime.prepare()
        library.trifold_simulated_launch.restype = ctypes.c_int
        library.trifold_simulated_launch.argtypes = [
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int
        ]  # fmt: skip
        library.trifold_simulated_message.restype = ctypes.c_char_p
        return library

    @property
    def path(self) -> Path:
        return Path(self._library._name)

    def launch(self, shape: Any, shared: int, values: Sequence[Any], arrays: Any = None, count: int = 0) -> Ended:
        """Launch; returns how it ended. ``arrays`` are ``trifold::screen::Given``, for a screen."""
        library = self._library
        self.parameters.set(values)
        return Ended(library.trifold_simulated_launch(shape, shared, self.parameters.pointers, arrays, count))

    @property
    def message(self) -> str:
        """The error of the last launch."""
        message: bytes = self._library.trifold_simulated_message()
        return message.decode(errors="replace")


def _tail(draft: Draft, form: str) -> str:
    """The functions that the library exports, appended to the draft."""
    names = ",".join(each.name for each in draft.parameters)
    types = ", ".join(each.type for each in draft.parameters)
    block = _by_regions(draft) if form == PLAIN and draft.by_regions else "nullptr"
    return f"""
#line 1 "the launch of {draft.entry}"
#include <trifold/cpu/simulated_kernel.h>
#define TRIFOLD_EXPORT extern "C" __attribute__((visibility("default")))
TRIFOLD_EXPORT int trifold_simulated_launch(const unsigned* shape, size_t shared, void** arguments, const void* arrays,
                                            int count) {{
  constexpr void (*kernel)({types}) = &::{draft.entry};
  return static_cast<int>(trifold::cpu::launch_simulated<kernel>(
      kernel, {block}, {sources.quoted(Path(draft.name))}, "{names}", shape, shared, arguments, arrays, count));
}}
TRIFOLD_EXPORT const char* trifold_simulated_message() {{
  return trifold::cpu::message.c_str();
}}
"""


def _by_regions(draft: Draft) -> str:
    """The function that runs a block. If the lengths of all arrays are equal, a separate version lets compilers know: a
    condition on one of them then guards the accesses of all."""
    same_lengths: dict[tuple[str, int], list[str]] = {}
    for each in draft.parameters:
        if each.kind in ("length", "size"):
            same_lengths.setdefault((each.kind, each.dimension), []).append(each.name)
    first = {name: names[0] for names in same_lengths.values() for name in names}
    tests = [f"{name} == {same}" for name, same in first.items() if name != same]

    def call(arguments: list[str]) -> str:
        return f"::{draft.entry}({', '.join(['trifold::ByRegions{}', *arguments])});"

    names = [each.name for each in draft.parameters]
    parameters = ", ".join(f"{each.type} {each.name}" for each in draft.parameters)
    equal = f"if ({' && '.join(tests)}) return {call([first.get(name, name) for name in names])} " if tests else ""
    return f"[]({parameters}) {{ {equal}{call(names)} }}"
