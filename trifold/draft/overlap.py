"""Which pointers of a kernel get ``__restrict__``: those whose memory overlaps that of no other argument if either is
written, in any launch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from trifold.draft import host_values as v
from trifold.draft import tree as t
from trifold.draft.functions import Written
from trifold.draft.operations import WRITE_ELEMENTS
from trifold.draft.origins import is_array, origins
from trifold.draft.walk import assigned_names


@dataclass
class Overlaps:
    """The arguments of one kernel, by number, that may overlap another one where either is written."""

    read: set[int]  # the numbers of the arguments that the kernel reads
    found: set[int] = field(default_factory=set)

    def add(self, written: Written, arguments: Iterable[object]) -> None:
        """Add a launch of the kernel with these arguments."""
        changed = {p.argument for p in written.parameters if p.kind == "array" and not p.type.startswith("const ")}
        memory = {n: _tensor(each).memory for n, each in enumerate(arguments) if isinstance(each, (v.Tensor, v.Output))}
        for one, own in memory.items():
            for other, its in memory.items():
                if one != other and {one, other} & changed and v.overlap(own, its):
                    self.found.add(one)

    def qualify(self, written: Written) -> None:
        """Qualify the kernel's parameters.

        An array that the kernel both reads and writes is not qualified: another thread may read an element after a
        barrier or an atomic, so that the compiler must not keep it in a register.
        """
        moved = {name for statement in written.function.body for name in assigned_names(statement)}
        for parameter, own in zip(written.parameters, written.function.parameters, strict=True):
            both = not parameter.type.startswith("const ") and parameter.argument in self.read
            if parameter.kind == "array" and parameter.argument not in self.found and parameter.name not in moved:
                own.type += "" if both else " __restrict__"


def _tensor(argument: v.Tensor | v.Output) -> v.Tensor:
    return argument.tensor if isinstance(argument, v.Output) else argument


def read_parameters(function: t.Function) -> set[int]:
    """The numbers of the array parameters whose elements a function, or what it calls, reads or changes atomically."""
    found: set[int] = set()

    def note(*arrays: t.Expr) -> None:
        found.update(number for each in arrays if is_array(each.type) for number in origins(each).parameters)

    for statement in t.walk(function.body):
        match statement:
            case t.Store(base=base, value=value, operator=operator):
                note(value, *([base] if operator is not None else []))
            case t.ForTuple(elements=elements):
                note(elements)
            case t.Unpack(value=value):
                note(value)
        for outer in t.expressions(statement):
            for each in t.walk_expression(outer):
                match each:
                    case t.Item(base=base) if not is_array(each.type):
                        note(base)
                    case t.Call(callees=t.Function() as callee, arguments=arguments):
                        note(*(arguments[number] for number in read_parameters(callee)))
                    case t.Call(function=called, arguments=arguments) if called in WRITE_ELEMENTS:
                        note(*arguments)
    return found
