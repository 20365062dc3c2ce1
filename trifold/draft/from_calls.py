"""Checks of tensors that a launch function lacks, from the calls of the op's spec.

A binding launches kernels for certain dtypes and dimensions. Where the launch function says nothing of them, they are
those that the spec's calls have; the binding checks them, so that an assumption cannot be wrong silently.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch

from trifold.draft.host_values import FLOATING, Tensor, with_dtype
from trifold.draft.refusal import DraftError, Place

if TYPE_CHECKING:
    from trifold.draft.host import Host
    from trifold.spec import Call, Spec  # which imports hypothesis, in a fifth of a second

What = Literal["dtype", "dimensions"]


class Executor(Protocol):
    """What executes a launch function, which has these arguments."""

    function: Any
    arguments: dict[str, Any]


class Unchecked(DraftError):
    """A launch function does not say what the dtype of a tensor is, or how many dimensions it has.

    Attributes:
        function: the launch function.
        unknown: what is not known, of which of its arguments.
    """

    def __init__(self, place: Place, host: Executor, what: What, tensor: Tensor, problem: str, remedy: str) -> None:
        super().__init__(place, problem, remedy)
        self.function = host.function
        tensors = list(tensor.candidates())
        if what == "dtype":
            of = {each for one in tensors for each in (one, one.root)}
        else:
            of = set()
            while tensors:
                one = tensors.pop()
                if one not in of:
                    of.add(one)
                    tensors += one.same_shape
                    if one.optional and one.like is not None:  # known to be present: like the argument, but another one
                        tensors.append(one.like)
        self.unknown = {(what, name) for name, argument in host.arguments.items() if with_dtype(argument) in of}


@dataclass(frozen=True)
class Given:
    """A tensor or a dtype in one call; ``dimensions`` is None if they are not known."""

    dtype: torch.dtype
    dimensions: int | None


_DRAWN = 32
_ELEMENTS = 64  # of a drawn call

Row = Mapping[str, Given]  # the tensors and dtypes of a call, by the launch function's parameter
Calls = Callable[[], Sequence["Call"]]


def calls_of(spec: Spec) -> list[Call]:
    """The spec's fixed calls, and some drawn ones, the same in every run."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    from trifold.spec import Limits

    calls = [*(sample.call for sample in spec.samples), *spec.edges, *(spec.smooth or ())]

    @seed(0)
    @settings(
        max_examples=_DRAWN,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(spec.calls(Limits(_ELEMENTS)))
    def draw(call: Any) -> None:
        calls.append(call)

    draw()
    return calls


def rows_of(function: FunctionType, calls: Iterable[Call]) -> list[Row]:
    """The tensors of each call; none if the op's public function has other parameters than the launch function."""
    signature = inspect.signature(function)
    rows: dict[tuple[tuple[str, Given], ...], Row] = {}
    for call in calls:
        try:
            bound = signature.bind(*call.args, **call.kwargs).arguments
        except TypeError:
            return []
        row = {name: given for name, value in bound.items() if (given := _given(value, call)) is not None}
        rows[tuple(row.items())] = row
    return list(rows.values())


def _given(value: object, call: Call) -> Given | None:
    from trifold.spec import AliasCase, IndexCase, TensorCase

    if isinstance(value, torch.dtype):
        return Given(value, None)
    if isinstance(value, AliasCase):
        value = call.args[value.of]
    return Given(value.dtype, len(value.shape)) if isinstance(value, TensorCase | IndexCase) else None


def tensors_after(function: FunctionType, forward: Host) -> dict[str, Tensor]:
    """The tensors of a launch function that backward calls: those of forward by their names, and, as gradients, its
    results."""
    tensors = forward.known_by_name(with_choices=True)
    results = {name: tensors[name] for name in forward.results if name in tensors}
    for name in inspect.signature(function).parameters:
        if name not in tensors and name.startswith("grad"):
            named = [result for each, result in results.items() if name.endswith(f"_{each}")]
            floating = [result for result in results.values() if all(d in FLOATING for d in _possible(result))]
            for result in (*named, *floating)[:1]:
                tensors[name] = result
    return tensors


def rows_after(function: FunctionType, forward: Host) -> list[Row]:
    """Those tensors, in a row for each combination of dtypes that forward is for."""
    tensors = tensors_after(function, forward)
    free = list({id(one.root): one.root for one in tensors.values() if one.dtypes is None}.values())
    rows: list[Row] = []
    for number in range(max(len(forward.key_dtypes), 1)):
        for chosen in itertools.product(*(one.choices for one in free)):
            of_root = dict(zip(map(id, free), chosen, strict=True))
            rows.append({n: Given(_of_instance(one, number, of_root), one.dimensions) for n, one in tensors.items()})
    return rows


def _possible(tensor: Tensor) -> tuple[torch.dtype, ...]:
    return tensor.root.choices if tensor.dtypes is None else tensor.dtypes


def _of_instance(tensor: Tensor, number: int, of_root: Mapping[int, torch.dtype]) -> torch.dtype:
    dtypes = tensor.dtypes
    if dtypes is None:
        return of_root[id(tensor.root)]
    return dtypes[number] if number < len(dtypes) else dtypes[0]


@dataclass
class FromCalls:
    """Checks to add to a launch function.

    Attributes:
        function: its name.
        rows: of its calls.
        unknown: what is not known, of which arguments; nothing else is checked.
        said: what the added checks require, in words.
    """

    function: str
    rows: Sequence[Row]
    unknown: set[tuple[What, str]]
    said: list[str] = field(default_factory=list)

    def checks(self, arguments: Mapping[str, Tensor], key: str | None) -> list[str]:
        """Statements that check the arguments of which something is not known.

        Args:
            arguments: the launch function's tensors, by name.
            key: the one for whose dtypes there are kernels, if a check has made it so.
        """
        without = {name: each for name, each in arguments.items() if ("dtype", name) in self.unknown}
        unchecked = {name: each for name, each in without.items() if each.dtypes is None}
        checks = list(self._of_dtypes(unchecked, key, arguments))
        without = {name: each for name, each in arguments.items() if ("dimensions", name) in self.unknown}
        return [*checks, *self._of_dimensions({n: each for n, each in without.items() if each.dimensions is None})]

    def _of_dtypes(
        self, unchecked: Mapping[str, Tensor], key: str | None, arguments: Mapping[str, Tensor]
    ) -> Iterator[str]:
        found = {name: list(dict.fromkeys(row[name].dtype for row in self.rows if name in row)) for name in unchecked}
        several = [name for name, dtypes in found.items() if len(dtypes) > 1]
        if key is None and several:
            key = several[0]
        leaders = [] if key is None else [key]  # of which others have the dtype
        for name in sorted((name for name, dtypes in found.items() if dtypes), key=lambda name: name != key):
            other = next((each for each in leaders if each != name and self._are_tied(name, each)), None)
            if other is not None:
                mine, its = (_dtype_of(each, arguments[each]) for each in (name, other))
                remedy = f"pass {its}" if arguments[name].is_dtype else f"convert one with {name}.to({its})"
                yield self._check(
                    name,
                    unchecked[name],
                    f"{mine} != {its}",
                    f"{other} and {name} must have the same dtype",
                    f", but {other} is {{{its}}} and {name} is {{{mine}}}; {remedy}",
                )
                continue
            if len(found[name]) > 1:
                leaders.append(name)
            dtypes = [str(dtype) for dtype in sorted(found[name], key=_usual_order)]
            mine = _dtype_of(name, arguments[name])
            remedy = "" if arguments[name].is_dtype else f"; convert it with {name}.to({dtypes[0]})"
            yield self._check(
                name,
                unchecked[name],
                f"{mine} != {dtypes[0]}" if len(dtypes) == 1 else f"{mine} not in ({', '.join(dtypes)})",
                f"{name} must be {' or '.join(each.removeprefix('torch.') for each in dtypes)}",
                f", not {{{mine}}}{remedy}",
            )

    def _of_dimensions(self, unchecked: Mapping[str, Tensor]) -> Iterator[str]:
        for name, tensor in unchecked.items():
            counts = {row[name].dimensions for row in self.rows if name in row}
            if len(counts) == 1 and (count := counts.pop()) is not None:
                wanted = f"{name} must have {count} dimension{'' if count == 1 else 's'}"
                yield self._check(
                    name, tensor, f"{name}.dim() != {count}", wanted, f", but is of shape {{tuple({name}.shape)}}"
                )

    def _check(self, name: str, tensor: Tensor, wrong: str, wanted: str, message: str) -> str:
        self.said.append(wanted)
        absent = f"{name} is not None and " if tensor.optional else ""
        return f'if {absent}{wrong}:\n    raise RuntimeError(f"{self.function}: {wanted}{message}")'

    def _are_tied(self, name: str, key: str) -> bool:
        pairs = [(row[name].dtype, row[key].dtype) for row in self.rows if name in row and key in row]
        return bool(pairs) and all(one == other for one, other in pairs)


def _dtype_of(name: str, argument: Tensor) -> str:
    """The dtype of an argument in Python: the argument itself, if it is one."""
    return name if argument.is_dtype else f"{name}.dtype"


def _usual_order(dtype: torch.dtype) -> tuple[int, str]:
    return (FLOATING.index(dtype) if dtype in FLOATING else len(FLOATING), str(dtype))
