"""What a graduated package's tests compare with: calls, their exact results, and how far a result may be off.

Written as JSON, from ``verify/<op>.py`` and the reference, for :mod:`trifold.graduate.wheel_tests`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from trifold.errors import GraduationError
from trifold.implementation import reference
from trifold.spec import DTYPES, Call, Spec, TensorCase
from trifold.spec.spec import BadCall
from trifold.verification.cell import as_tuple, in_float64
from trifold.verification.load_spec import load_spec
from trifold.verification.tolerance import allowed_error
from trifold.workspace import OpFiles

# Numbers stand in a text file: results of up to so many elements, of so many calls.
_ELEMENTS = 64
_CALLS = 24
# Gradients are compared at ordinary values, as by `trifold verify`.
_ORDINARY = ("exact", "normal", "zero", "tiny")

Json = dict[str, Any]


def record(files: OpFiles) -> Json:
    """The cases of one op.

    Raises:
        SpecError: the spec does not load.
        GraduationError: it has nothing that can be recorded.
    """
    spec, function = load_spec(files), reference(files)
    recorded = _Recording(files, spec, function)
    results = list(recorded.results())
    if not results:
        raise GraduationError(
            f"{files.spec} has no call of at most {_ELEMENTS} elements that could test the wheel",
            "add a smaller call to Spec(smooth=...) or Spec(samples=...)",
        )
    return {
        "random": spec.random,
        "surrogate": spec.surrogate,
        "smooth": [recorded.call(call) for call in spec.smooth],
        "results": results,
        "gradients": list(recorded.gradients()),
        "bad_calls": [recorded.bad_call(bad) for bad in spec.bad_calls],
    }


@dataclasses.dataclass(frozen=True)
class _Recording:
    files: OpFiles
    spec: Spec
    reference: Callable[..., Any]

    def results(self) -> Iterator[Json]:
        """Results of the calls that are small enough and whose rounding is no question of overflow."""
        for call in self._calls():
            own = self._refer(call, *call.arguments())
            exact = self._refer(call, *in_float64(*call.arguments()))
            if not all(_comparable(a, b) for a, b in zip(own, exact, strict=True)):
                continue
            values = [self._value(*each) for each in zip(own, exact, self._scales(call), strict=True)]
            yield {"call": self.call(call), "results": values}

    def gradients(self) -> Iterator[Json]:
        """Gradients of all positional tensors, for upstream gradients of normal numbers."""
        for call in self._calls():
            if not all(value.fill in _ORDINARY for value in call.args if isinstance(value, TensorCase)):
                continue
            outer = self._upstream(call)
            own = self._differentiate(call, outer, lambda x: x)
            exact = self._differentiate(call, [x.double() for x in outer], Tensor.double)
            if not all(_comparable(a, b) for a, b in zip(own, exact, strict=True)):
                continue
            scales = self._gradient_scales(call, outer)
            values = [self._value(*each) for each in zip(own, exact, scales, strict=True)]
            yield {
                "call": self.call(call),
                "upstream": [x.double().flatten().tolist() for x in outer],
                "results": values,
            }

    def call(self, call: Call) -> Json:
        kwargs = {name: self._argument(value) for name, value in call.kwargs.items()}
        return {"args": [self._argument(value) for value in call.args], "kwargs": kwargs, "seed": call.seed}

    def bad_call(self, bad: BadCall) -> Json:
        """A call that must raise; ``moves`` says which of its tensors lie on the device that is tested."""
        # Made once for the values, and once more on torch's "meta" device, which shows who follows the device.
        args, kwargs = bad.make("cpu")
        moved_args, moved_kwargs = bad.make("meta")

        def written(value: Any, moved: Any) -> Any:
            if not isinstance(value, Tensor):
                return self._argument(value)
            return {
                "values": value.detach().flatten().tolist() if not value.is_complex() else [0] * value.numel(),
                "shape": list(value.shape),
                "dtype": _name(value.dtype),
                "moves": moved.device.type == "meta",
            }

        return {
            "name": bad.name,
            "args": [written(*pair) for pair in zip(args, moved_args, strict=True)],
            "kwargs": {name: written(value, moved_kwargs[name]) for name, value in kwargs.items()},
            "mentions": list(bad.mentions),
            "devices": list(bad.devices),
        }

    def _calls(self) -> Iterator[Call]:
        """The smooth calls in every dtype, then samples and edges."""
        seen = 0
        smooth = [_in_dtype(call, dtype) for dtype in DTYPES for call in self.spec.smooth]
        for call in (*smooth, *(sample.call for sample in self.spec.samples), *self.spec.edges):
            small = all(_elements(value) <= _ELEMENTS for value in (*call.args, *call.kwargs.values()))
            if seen < _CALLS and small and all(x.numel() <= _ELEMENTS for x in self._refer(call, *call.arguments())):
                seen += 1
                yield call

    def _refer(self, call: Call, args: list[Any], kwargs: Json) -> tuple[Tensor, ...]:
        torch.manual_seed(call.seed)
        return as_tuple(self.reference(*args, **kwargs))

    def _scales(self, call: Call) -> tuple[Tensor | None, ...]:
        args, kwargs = in_float64(*call.arguments())
        torch.manual_seed(call.seed)
        if self.spec.scale is not None:
            return as_tuple(self.spec.scale(self.reference, *args, **kwargs))
        return self._refer(call, [x.abs() if isinstance(x, Tensor) else x for x in args], kwargs)

    def _upstream(self, call: Call) -> list[Tensor]:
        results = self._refer(call, *call.arguments())
        return [TensorCase(tuple(x.shape), x.dtype, seed=100 + k).make() for k, x in enumerate(results)]

    def _differentiate(
        self, call: Call, outer: list[Tensor], convert: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, ...]:
        args, kwargs = call.arguments()
        args = [convert(x).detach().requires_grad_() if isinstance(x, Tensor) else x for x in args]
        inputs = [x for x in args if isinstance(x, Tensor)]
        return torch.autograd.grad(self._refer(call, args, kwargs), inputs, outer)

    def _gradient_scales(self, call: Call, outer: list[Tensor]) -> tuple[Tensor | None, ...]:
        if self.spec.gradient_scale is None:
            return self._differentiate(call, [x.double().abs() for x in outer], lambda x: x.double().abs())
        args, kwargs = in_float64(*call.arguments())
        torch.manual_seed(call.seed)
        return as_tuple(self.spec.gradient_scale(self.reference, *[x.double() for x in outer], *args, **kwargs))

    def _value(self, own: Tensor, exact: Tensor, scale: Tensor | None) -> Json:
        want, native = exact.detach().double(), own.detach().double()
        bound = allowed_error(want, native, scale, own.dtype, multiple=self.spec.multiple)
        # Where the result is inf or nan, so it is in the dtype: rounding decides what inf is.
        return {
            "dtype": _name(own.dtype),
            "shape": list(own.shape),
            "strides": list(own.stride()),
            "exact": torch.where(native.isfinite(), want, native).flatten().tolist(),
            "allowed": bound.allowed.flatten().tolist(),
        }

    def _argument(self, value: Any) -> Any:
        if isinstance(value, TensorCase):
            return dataclasses.asdict(value) | {"dtype": _name(value.dtype)}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise GraduationError(
            f"{self.files.spec} has a call with an argument of type {type(value).__name__}, which cannot be recorded",
            "give tensors, numbers, booleans, strings or None",
        )


def _comparable(own: Tensor, exact: Tensor) -> bool:
    """PyTorch's own result is finite exactly where the exact one is, and not near overflow."""
    limit = torch.finfo(own.dtype).max / 2
    finite = exact.isfinite()
    return bool((own.isfinite() == finite).all()) and bool((exact[finite].abs() < limit).all()) and own.numel() > 0


def _in_dtype(call: Call, dtype: torch.dtype) -> Call:
    args = tuple(dataclasses.replace(v, dtype=dtype) if isinstance(v, TensorCase) else v for v in call.args)
    return dataclasses.replace(call, args=args)


def _elements(value: Any) -> int:
    return torch.Size(value.shape).numel() if isinstance(value, TensorCase) else 0


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
