"""The reference data of a graduated package's tests: calls, their exact results, and the accepted errors.

Written as JSON, from ``verify/<op>.py`` and the reference, for :mod:`trifold.graduate.wheel_tests`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from trifold.errors import GraduationError
from trifold.implementation import load_port, reference
from trifold.spec import Call, Limits
from trifold.spec.case import AliasCase, AnyCase
from trifold.spec.load import load_spec
from trifold.spec.spec import BadCall
from trifold.verification.calls import ORDINARY, Search
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import (
    differentiate,
    exactly,
    gradient_scales,
    in_dtype,
    in_dtype_of_spec,
)
from trifold.verification.checks.dtypes import dtypes_of_spec
from trifold.verification.comparison import Expected
from trifold.verification.tolerance import allowed_error, is_approximate
from trifold.workspace import OpFiles

# The data is a text file: results with at most this many elements, of at most this many calls.
_ELEMENTS = 64
_CALLS = 24

Json = dict[str, Any]


def record(files: OpFiles) -> Json:
    """The cases of one op.

    Raises:
        SpecError: the spec does not load.
        GraduationError: it has nothing that can be recorded.
    """
    spec = load_spec(files)
    cell = Cell(spec, load_port(files), "cpu", reference(files), Search(0), Limits(), lambda *case: None)
    recorded = _Recording(files, cell)
    dtypes = dtypes_of_spec(cell)
    smooth = spec.smooth if cell.differentiable and torch.float64 in dtypes else ()
    results = list(recorded.results())
    if not results:
        raise GraduationError(
            f"{files.spec} has no call of at most {_ELEMENTS} elements that could test the wheel",
            "let Spec(calls=...) draw calls as small as its limits, or add a small one to Spec(samples=...)",
        )
    return {
        "random": spec.random,
        "surrogate": spec.surrogate,
        "small": [
            recorded.call(in_dtype_of_spec(cell, call, dtypes[0]) if dtypes else call) for call in cell.small_calls()
        ],
        "smooth": [recorded.call(in_dtype(call, torch.float64)) for call in smooth],
        "results": results,
        "gradients": list(recorded.gradients()),
        "bad_calls": [recorded.bad_call(bad) for bad in spec.bad_calls],
    }


@dataclasses.dataclass(frozen=True)
class _Recording:
    """Calls of the reference: the cell's implementation is not called."""

    files: OpFiles
    cell: Cell

    def results(self) -> Iterator[Json]:
        """Results of calls that are small enough and do not overflow depending on rounding."""
        for call in self._calls():
            expected = Expected.of(self.cell, call)
            own, exact = expected.native, expected.exact
            if all(_comparable(a, b) for a, b in zip(own, exact, strict=True)):
                several = [self._several_are_right(number) for number in range(len(own))]
                values = [self._value(*each) for each in zip(own, exact, expected.scale, several, strict=True)]
                yield {"call": self.call(call), "results": values}

    def gradients(self) -> Iterator[Json]:
        """Gradients of all tensors that have one."""
        cell = self.cell
        for call in self._calls():
            paths = cell.gradient_paths(call)
            if not paths or not all(case.fill in ORDINARY for _, case in call.floating()):
                continue
            native = differentiate(cell, call, paths, cell.reference)
            wanted = differentiate(cell, call, paths, cell.reference, convert=exactly(cell))
            own, exact = ([x for x in made.grads if x is not None] for made in (native, wanted))
            every = len(own) == len(paths) and len(native.outer) == len(cell.gradient_results(native.results))
            if not every or not all(_comparable(a, b) for a, b in zip(own, exact, strict=True)):
                continue
            sizes = gradient_scales(cell, call, paths)
            yield {
                "call": self.call(call),
                "upstream": [x.double().flatten().tolist() for x in native.outer],
                "results": [self._value(*each) for each in zip(own, exact, sizes, strict=True)],
            }

    def _several_are_right(self, number: int) -> bool:
        """Whether a result has ties, or no order."""
        how = self.cell.how_compared(number)
        return how.tie is not None or how.order != "given"

    def call(self, call: Call) -> Json:
        kwargs = {name: self._argument(value) for name, value in call.kwargs.items()}
        cell = self.cell
        return {
            "args": [self._argument(value) for value in call.args],
            "kwargs": kwargs,
            "seed": call.seed,
            "inputs": cell.gradient_paths(call),
            "outputs": cell.gradient_results(cell.refer(call)) if cell.differentiable else [],
            "written": cell.written_paths(call),
        }

    def bad_call(self, bad: BadCall) -> Json:
        """A call that must raise; ``moves`` says which of its tensors are on the tested device."""
        args, kwargs = bad.make("cpu")
        places, named_places = args, kwargs
        if "cpu" not in bad.devices:  # for mixed devices: tensors that follow are marked by torch's "meta"
            places, named_places = bad.make("meta")

        def written(value: Any, place: Any) -> Any:
            if isinstance(value, list | tuple):
                return [written(*pair) for pair in zip(value, place, strict=True)]
            if not isinstance(value, Tensor):
                return self._argument(value)
            # From its first element to its last one in memory: as many as a tensor of these strides is a view of.
            last = sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
            memory = value.detach().as_strided((last + 1 if value.numel() else 0,), (1,))
            return {
                "values": memory.tolist() if not value.is_complex() else [0] * len(memory),
                "shape": list(value.shape),
                "strides": list(value.stride()),
                "dtype": _name(value.dtype),
                "moves": "cpu" in bad.devices or place.device.type == "meta",
            }

        return {
            "name": bad.name,
            "args": [written(*pair) for pair in zip(args, places, strict=True)],
            "kwargs": {name: written(value, named_places[name]) for name, value in kwargs.items()},
            "mentions": list(bad.mentions),
            "devices": list(bad.devices),
        }

    def _calls(self) -> Iterator[Call]:
        """The first small ones of: the smooth calls in every dtype, samples and edges, drawn calls."""
        return itertools.islice(filter(self._is_small, self._all_calls()), _CALLS)

    def _all_calls(self) -> Iterator[Call]:
        spec = self.cell.spec
        dtypes = dtypes_of_spec(self.cell)
        yield from (in_dtype_of_spec(self.cell, call, dtype) for dtype in dtypes for call in spec.smooth)
        yield from (sample.call for sample in spec.samples)
        yield from spec.edges
        for number in range(8 * _CALLS):  # some have small arguments and large results
            yield from self.cell.drawn_calls(Limits(elements=_ELEMENTS), 1, salt=3000 + number)

    def _is_small(self, call: Call) -> bool:
        arguments = all(math.prod(case.shape) <= _ELEMENTS for _, case in call.cases())
        return arguments and all(x.numel() <= _ELEMENTS for x in self.cell.refer(call))

    def _value(self, own: Tensor, exact: Tensor, scale: Tensor | None, several: bool = False) -> Json:
        form: Json = {"dtype": _name(own.dtype), "shape": list(own.shape), "strides": list(own.stride())}
        if several:
            return {**form, "exact": None, "allowed": None}
        if not is_approximate(own):
            return {**form, "exact": own.flatten().tolist(), "allowed": None}
        want, native = exact.detach().double(), own.detach().double()
        bound = allowed_error(want, native, scale, own.dtype, multiple=self.cell.spec.multiple)
        # If the result is inf or nan, it is so in the dtype too: otherwise rounding would decide.
        return {
            **form,
            "exact": torch.where(native.isfinite(), want, native).flatten().tolist(),
            "allowed": bound.allowed.flatten().tolist(),
        }

    def _argument(self, value: Any) -> Any:
        if isinstance(value, AnyCase):
            return dataclasses.asdict(value) | {"dtype": _name(value.dtype)}
        if isinstance(value, AliasCase):
            return dataclasses.asdict(value)
        if isinstance(value, list | tuple):
            return [self._argument(one) for one in value]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise GraduationError(
            f"{self.files.spec} has a call with an argument of type {type(value).__name__}, which cannot be recorded",
            "give a TensorCase, IndexCase or AliasCase, a list of these, numbers, booleans, strings or None",
        )


def _comparable(own: Tensor, exact: Tensor) -> bool:
    """Whether PyTorch's own result is finite exactly where the exact one is, and not near overflow."""
    if own.is_complex():
        return False
    if not is_approximate(own):
        return own.numel() > 0 and bool((own == own).all())
    limit = torch.finfo(own.dtype).max / 2
    finite = exact.isfinite()
    return bool((own.isfinite() == finite).all()) and bool((exact[finite].abs() < limit).all()) and own.numel() > 0


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
