"""``draft_kernel``: one kernel in C++."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numba import types

from trifold.draft import cpp
from trifold.draft.arithmetic import Arithmetic
from trifold.draft.functions import Module, Parameter
from trifold.draft.infer import Analysis
from trifold.draft.printer import print_file
from trifold.draft.ranges import find_ranges
from trifold.draft.regions import by_regions
from trifold.draft.tree import Interval
from trifold.draft.type_names import TypeNames

# Functions of <trifold/python_numbers.cuh>.
_NUMBERS = (
    r"trifold::(Array|floor_|power|python_|numpy_|numba_|in_range|slice_|atomic_|lane_id|lanes_below|number_t|degrees|"
    r"radians|eq_sync|match_all_sync)"
)


@dataclass(frozen=True)
class DraftedKernel:
    """A kernel's C++ text.

    ``entry`` is the name of the ``__global__`` function, which is not a template. A parameter's ``argument`` is the
    number of the Python kernel's argument from which it is taken: an array's address (``kind`` "array"), stride or
    length in ``dimension``, or size, all in elements; or a number ("value"). ``shapes`` has the lengths of the shared
    and local arrays. ``by_regions``: an overload that runs a whole block (:mod:`trifold.draft.regions`), to append to
    the text; empty: there is none.
    """

    text: str
    entry: str
    parameters: tuple[Parameter, ...]
    shapes: Mapping[str, tuple[int, ...]]
    by_regions: str = ""


def draft_kernel(
    kernel: Any,
    argument_types: Sequence[types.Type],
    *,
    line_directives: bool = False,
    simulated: bool = False,
    ranges: Mapping[str, Interval] | None = None,
) -> DraftedKernel:
    """Write one ``@cuda.jit`` kernel in C++, for arguments of the given Numba types.

    Args:
        kernel: the kernel: what ``@cuda.jit`` returned, or the Python function.
        argument_types: a Numba type for each argument: ``numba.float32[::1]``, ``numba.int64``, …
        line_directives: write ``#line`` directives with each statement's line in the prototype.
        simulated: make accesses by ``trifold::element`` (trifold/simulated.cuh), which counts a negative index from the
            end, as Python does, and refuses one that is out of bounds.
        ranges: the smallest and the largest value of integer arguments, by name, if the caller guarantees a smaller
            range than the type's.

    Raises:
        DraftError: something in the kernel cannot be translated; the error names the line.
        PrototypeError: Numba's simulator is switched on in this process.
    """
    (drafted,) = draft_kernels(
        [(kernel, argument_types)], line_directives=line_directives, simulated=simulated, ranges=ranges
    )
    return drafted


def draft_kernels(
    kernels: Sequence[tuple[Any, Sequence[types.Type]]],
    *,
    line_directives: bool = False,
    simulated: bool = False,
    ranges: Mapping[str, Interval] | None = None,
) -> list[DraftedKernel]:
    """Write several kernels, each with its argument types, into one text, which all results share. As
    :func:`draft_kernel` otherwise."""
    module = Module(Arithmetic(TypeNames()), simulated)
    entries = []
    for kernel, argument_types in kernels:
        function = getattr(kernel, "py_func", kernel)
        built = Analysis().analyse(function, [(kind,) for kind in argument_types], is_kernel=True)
        find_ranges(built, dict(ranges or {}))
        entries.append(module.write(built, (None,) * len(argument_types)))
    text = file_of(module, [], line_directives=line_directives)
    called = [each for each in module.parts if isinstance(each, cpp.Function) and each.qualifiers != "__global__"]
    made = []
    for each in entries:
        of_block = by_regions(each.function, called) if simulated else None
        more = "" if of_block is None else print_file(cpp.File([], [], [of_block], once=False), line_directives=True)
        made.append(DraftedKernel(text, each.function.name, tuple(each.parameters), module.shapes, more))
    return made


def file_of(module: Module, comment: list[str], *, line_directives: bool = False) -> str:
    """The complete text of a file, with its includes and constants."""
    functions = print_file(cpp.File([], [], list(module.parts), once=False), line_directives=True)
    aliases = [each for each in module.numbers.names.definitions if re.search(rf"\b{each.name}\b", functions)]
    used = set(re.findall(r"\w+", functions))
    includes = ["<trifold/cuda.cuh>"]
    if re.search(_NUMBERS, functions):
        includes.append("<trifold/python_numbers.cuh>")
    of_types = print_file(cpp.File([], [], [*aliases], once=False))
    if re.search(r"trifold::(Complex|conjugate)", functions + of_types):
        includes.append("<trifold/complex_numbers.cuh>")
    if "printf(" in functions:
        includes.append("<cstdio>")
    if "cooperative_groups::" in functions:
        includes.append("<cooperative_groups.h>")
    if module.simulated:
        includes.append("<trifold/simulated.cuh>")
    records = module.numbers.records.definitions(functions)
    if records:
        includes.append("<cstddef>")
    parts = [*records, *module.constant_definitions(used), *aliases, *module.parts]
    return print_file(cpp.File(comment, includes, parts), line_directives=line_directives)
