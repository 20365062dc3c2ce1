"""Numbers that a launch function reads from tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

import torch

from trifold.draft import cpp
from trifold.draft import host_values as v
from trifold.draft.host_branches import HostBranches
from trifold.draft.host_cpp import call, text_of
from trifold.draft.refusal import DraftError
from trifold.draft.type_names import element_name

_READ = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64,
)  # fmt: skip


class HostNumbers(HostBranches):
    """A base class of the executor."""

    def number_of(self, x: v.Tensor, node: ast.AST) -> v.Number:
        """The number that a tensor of one element has at this point: later launches may change it."""
        dtypes = {*(x.dtypes or ())}
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        if dtype not in _READ:
            problem = "a number is read from a tensor whose dtype differs between calls, or is not known"
            raise DraftError(self.place(node), problem, "let it be torch.int32 or torch.float32, for example")
        if self.maybe:
            problem = "a number is read from a tensor in an operand that may not be evaluated"
            raise DraftError(self.place(node), problem, "assign it to a variable before")
        if x.dimensions != 0:
            self._require_elements(x, 1)
        on_host = call("torch::stable::to", x.expr, call("trifold::Device", cpp.Name('"cpu"')))
        read = cpp.Prefix("*", call(f"trifold::data<{element_name(dtype)}>", on_host))
        kind = v.BOOL if dtype == torch.bool else v.FLOAT if dtype.is_floating_point else v.INT
        own = cpp.Name(self.fresh(f"{x.expr.text}_now" if isinstance(x.expr, cpp.Name) else "item"), type=kind)
        self.into.append(cpp.Declare(f"const {v.NUMBERS[kind]}", [own.text], read))
        return v.Number(own, kind)

    def numbers_of(self, x: v.Tensor, places: Iterable[Any], node: ast.AST, *, all_of: bool = False) -> list[v.Number]:
        self.require_dimensions(x, 1)
        if x.dimensions != 1:
            raise DraftError(self.place(node), "a list of lists of numbers", "read one: x[0, 0].item()")
        places = tuple(places)
        if all_of:
            self._require_elements(x, len(places))
        return [self.number_of(self.selected(x, 0, each), node) for each in places]

    def _require_elements(self, x: v.Tensor, count: int) -> None:
        enough = cpp.Infix("==", call(f"{text_of(x.expr)}.numel"), cpp.Literal(str(count), count), type=v.BOOL)
        elements = "one element" if count == 1 else f"{count} elements"
        words = f"{self.function.__name__}: a tensor of which numbers are read must have {elements}"
        self.into.append(cpp.Run(call("trifold::check", enough, self.message_part(words))))
