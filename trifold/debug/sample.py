"""The calls of an op that ``trifold debug`` can run, by name: the samples and edges of ``verify/<op>.py``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trifold.errors import TrifoldError
from trifold.spec import Call, IndexCase, Spec
from trifold.spec.case import AnyCase

_EDGE = re.compile(r"edge \d+")


class DebugError(TrifoldError):
    """The requested function, sample or line does not exist."""


@dataclass(frozen=True)
class NamedCall:
    name: str
    call: Call

    def __str__(self) -> str:
        given = [*map(_described, self.call.args), *(f"{k}={_described(v)}" for k, v in self.call.kwargs.items())]
        return f"sample '{self.name}': {', '.join(given)}"


def named_calls(spec: Spec) -> tuple[NamedCall, ...]:
    """The spec's samples by their names, then its edges, numbered; those for a GPU come last."""
    edges = [NamedCall(f"edge {number}", call) for number, call in enumerate((*spec.edges, *spec.gpu_edges), 1)]
    return (*(NamedCall(sample.name, sample.call) for sample in spec.samples), *edges)


def choose(calls: tuple[NamedCall, ...], wanted: str | None, spec_file: object) -> NamedCall:
    """The call named ``wanted``: by its name, the beginning of one, or its number from 1. None: the first.

    Raises:
        DebugError: there is none; the text lists all samples.
    """
    if not calls:
        raise DebugError(f"{spec_file} has no sample", "give its spec one: samples=[Sample(name, Call(...), reason)]")
    if wanted is None:
        return calls[0]
    if wanted.isdecimal() and 1 <= int(wanted) <= len(calls):
        return calls[int(wanted) - 1]
    names = [named.name for named in calls]
    fitting = [name for name in names if name == wanted] or [name for name in names if name.startswith(wanted)]
    if len(fitting) == 1:
        return calls[names.index(fitting[0])]
    near = fitting or difflib.get_close_matches(wanted, names, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    listing = ", ".join(f"'{name}'" for name in names if not _EDGE.fullmatch(name))
    if edges := [name for name in names if _EDGE.fullmatch(name)]:
        listing += f"{', ' if listing else ''}'{edges[0]}' to '{edges[-1]}'"
    raise DebugError(f"{spec_file} has no sample '{wanted}'", f"{hint}its samples are: {listing}")


def run(function: Callable[..., Any], call: Call, *, backward: bool, device: str = "cpu") -> None:
    """Make the call and, if asked to, its gradients where it has any."""
    args, kwargs = call.arguments(device)
    for value in (*args, *kwargs.values()):
        if backward and isinstance(value, Tensor) and value.is_floating_point():
            value.requires_grad_()
    torch.manual_seed(call.seed)
    results = function(*args, **kwargs)
    outputs = [y for y in (results if isinstance(results, tuple) else (results,)) if y.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(y) for y in outputs])


def _described(value: Any) -> str:
    if not isinstance(value, AnyCase):
        return repr(value)
    layout = "" if value.layout == "contiguous" else f"{value.layout} "
    if isinstance(value, IndexCase):
        return f"{layout}indices below {value.below} {value.shape}"
    return f"{layout}{value.fill} {str(value.dtype).removeprefix('torch.')} {value.shape}"
