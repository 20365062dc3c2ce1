"""Results of half types that are rounded once, if the spec claims that they are computed in a wider type.

Each result must be the exact one rounded to nearest even, except where the working error of the wider type reaches the
midpoint between two numbers; and over many results the mean error must be zero, with or without those of any one call.
One or the other fails for truncation, for a detour through another half type and for a second rounding.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from trifold.spec import Call, Limits, TensorCase
from trifold.spec.case import AnyCase
from trifold.verification.calls import CallSource, has_alias
from trifold.verification.cell import Cell
from trifold.verification.checks.differentiation import (
    differentiate,
    exactly,
    gradient_scales,
    in_dtype_of_spec,
    stated_gradient_errors,
)
from trifold.verification.checks.dtypes import takes
from trifold.verification.comparison import scales
from trifold.verification.outcomes import Absence, CheckFailed, NotRun
from trifold.verification.results import as_tuple
from trifold.verification.seeding import seed
from trifold.verification.tolerance import is_approximate

# Results for each dtype. With as many, the mean shows a bias of 1/200 of a unit in the last place; in the simulator,
# 1/70.
_RESULTS = 100_000
_SIMULATED = 10_000
_FEWEST_CALLS = 4  # with and without optional arguments
_MOST_CALLS = 30  # for an op with few results per call
_MOST_SIMULATED = 8
_DRAWN = 32  # calls for each of these: an op may have calls of integers, too
_HALF_TYPES = (torch.float16, torch.bfloat16)
_ROUND_OFF = 2.0**-24  # of float32, in which half types are computed
_LEAST = 2.0**-149  # float32's smallest subnormal number
_SPREADS = 6.0  # standard deviations of the mean: exceeded by chance once in 5·10⁸


def rounding(cell: Cell) -> str:
    """Results in float16 and bfloat16, and gradients if the spec's claim includes them."""
    spec = cell.spec
    if not spec.rounded_once and not spec.gradients_rounded_once:
        raise NotRun(Absence.NOT_CLAIMED)
    counted = []
    for dtype in [dtype for dtype in _HALF_TYPES if takes(cell, dtype)]:
        if spec.rounded_once:
            counted.append(_check(cell, dtype, _results, "result"))
        if spec.gradients_rounded_once:
            counted.append(_check(cell, dtype, _gradients, "gradient"))
    if not counted:
        raise CheckFailed("the spec claims that half types are rounded once, and the op refuses both")
    return f"rounded once: {min(counted):,} results and more of each kind"


@dataclass
class _Errors:
    """The signed errors of a call's results, in units in the last place.

    Attributes:
        inexact: how many results are not exact.
        total: the sum of their errors.
        squares: the sum of the squares of how often each number occurred: equal numbers may have equal errors.
    """

    inexact: int
    total: float
    squares: float

    @classmethod
    def of(cls, results: Tensor, errors: Tensor) -> _Errors:
        counts = torch.unique(results, return_counts=True)[1].double()
        return cls(errors.numel(), float(errors.sum()), float(counts.square().sum()))

    def __add__(self, other: _Errors) -> _Errors:
        return _Errors(self.inexact + other.inexact, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float:
        return self.total / max(self.inexact, 1)

    @property
    def allowed(self) -> float:
        """The largest mean by chance: errors of rounding to nearest are uniform over ±1/2."""
        return _SPREADS * math.sqrt(self.squares / 12) / max(self.inexact, 1)


@dataclass
class _Bias:
    """The errors of each call so far; ``count``: of compared results, including exact ones."""

    count: int = 0
    calls: list[_Errors] = field(default_factory=list)

    def message(self) -> str:
        """What is wrong with the mean error; empty if nothing is. It is wrong without any one call, too: where an op
        multiplies by nearly 1, the errors of neighbouring numbers are nearly equal, and the mean of one call is not 0
        (layer_norm, in long rows of normal numbers)."""
        everything = sum(self.calls, _Errors(0, 0.0, 0.0))
        if everything.inexact < _SIMULATED // 2:
            return ""
        for one in self.calls:
            others = everything + _Errors(-one.inexact, -one.total, -one.squares)
            same = others.mean * everything.mean > 0 and abs(others.mean) > others.allowed
            if others.inexact > 0 and not same:
                return ""
        if abs(everything.mean) <= everything.allowed:
            return ""
        return (
            f"the mean signed error of {everything.inexact:,} results is {everything.mean:+.4f} units in the last "
            f"place; within ±{everything.allowed:.4f} is chance: it is no rounding to nearest"
        )


# For a call: triples of the op's result, the exact one, and the working error.
_Kind = Callable[[Cell, Call], Iterator[tuple[Tensor, Tensor, Tensor]]]


def _check(cell: Cell, dtype: torch.dtype, of_call: _Kind, name: str) -> int:
    bias = _Bias()
    for call in _calls(cell, dtype):
        cell.begin(call, f"many {name}s")
        for got, want, working in of_call(cell, call):
            if got.dtype == dtype and got.numel() > 0:
                _require_nearest(got, want, working, name, call, bias)
        if bias.count >= (_SIMULATED if cell.simulated else _RESULTS):
            break
    if bias.count == 0:
        raise CheckFailed(f"no case has a {name} in {dtype}, so nothing shows that it is rounded once")
    if wrong := bias.message():
        raise CheckFailed(f"{name}s in {str(dtype).removeprefix('torch.')}: {wrong}")
    return bias.count


def _calls(cell: Cell, dtype: torch.dtype) -> Iterator[Call]:
    """Draw calls of many normal numbers until there are enough results."""
    most = _MOST_SIMULATED if cell.simulated else _MOST_CALLS
    for salt, call in itertools.islice(suitable_calls(cell, most * _DRAWN), most):
        yield in_dtype_of_spec(cell, call.with_cases(functools.partial(_ordinary, salt)), dtype)


def suitable_calls(cell: CallSource, draws: int) -> Iterator[tuple[int, Call]]:
    """Of so many drawn calls those of floating-point numbers, each with its salt."""
    share = (_SIMULATED if cell.simulated else _RESULTS) // _FEWEST_CALLS
    for salt in range(draws):
        for call in cell.drawn_calls(Limits(elements=share, fewest=share // 2), 1, salt=1000 + salt):
            # Of one tensor given twice, autograd adds two gradients, each of which is rounded.
            if call.dtype.is_floating_point and not has_alias(call):
                yield salt, call


def _ordinary(salt: int, case: AnyCase) -> AnyCase:
    if not isinstance(case, TensorCase) or not case.dtype.is_floating_point:
        return case
    return replace(case.in_normal_numbers(), layout="contiguous", seed=case.seed + salt)


def _results(cell: Cell, call: Call) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    exact = cell.refer(call, exact=True)
    stated = cell.spec.rounding_error
    errors: Sequence[Tensor | None]
    if stated is None:
        errors = _by_scale(cell, scales(cell, call, torch.float32), exact)
    else:
        args, kwargs = cell.converted(*call.arguments(cell.device))
        seed(call.seed)
        errors = as_tuple(stated(cell.reference, *args, **kwargs))
    for got, want, error in zip(cell.invoke(call), exact, errors, strict=True):
        if error is not None:
            yield got, want, error


def _gradients(cell: Cell, call: Call) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    paths = cell.gradient_paths(call)
    grads = differentiate(cell, call, paths, cell.implementation.function).grads
    exact = differentiate(cell, call, paths, cell.reference, convert=exactly(cell)).grads
    stated = cell.spec.gradient_rounding_error
    known = [torch.zeros(()) if want is None else want for want in exact]
    errors: Sequence[Tensor | None]
    if stated is None:
        errors = _by_scale(cell, gradient_scales(cell, call, paths, torch.float32), known)
    else:
        of_path = stated_gradient_errors(cell, call, stated)
        errors = [of_path[path] for path in paths]
    for grad, want, error in zip(grads, exact, errors, strict=True):
        if grad is not None and want is not None and error is not None:
            yield grad, want, error


def _by_scale(cell: Cell, sizes: Sequence[Tensor | None], exact: Sequence[Tensor]) -> list[Tensor | None]:
    """The working error of each result; None for one that is not floating, which is not rounded."""

    def error(size: Tensor | None, want: Tensor) -> Tensor | None:
        if not want.is_floating_point() or not is_approximate(want):
            return None
        return cell.spec.multiple * (
            want.abs() if size is None else torch.maximum(size.abs().expand_as(want), want.abs())
        )

    return [error(size, want) for size, want in zip(sizes, exact, strict=True)]


def _require_nearest(got: Tensor, want: Tensor, working: Tensor, name: str, call: Call, bias: _Bias) -> None:
    """Each element is between the roundings of the exact result minus and plus the working error."""
    got, want = got.detach().cpu(), want.detach().cpu().double()
    error = working.detach().cpu().double().abs() * _ROUND_OFF + _LEAST
    low, high = (want - error).to(got.dtype).double(), (want + error).to(got.dtype).double()
    value = got.double()
    info = torch.finfo(got.dtype)
    ordinary = torch.isfinite(want) & (want.abs() > 4 * info.tiny) & (want.abs() < info.max / 2)
    wrong = ordinary & ((value < low) | (value > high))
    if bool(wrong.any()):
        index = int(wrong.flatten().int().argmax())
        at = [float(each.flatten()[index]) for each in (value, want, low)]
        raise CheckFailed(
            f"{name}: {int(wrong.sum())} of {got.numel()} elements in {str(got.dtype).removeprefix('torch.')} are not "
            f"the exact ones rounded to nearest: {at[0]!r} where {at[1]!r} rounds to {at[2]!r}",
            call,
        )
    unit = torch.exp2(want.abs().clamp(min=info.tiny).log2().floor()) * info.eps
    # Exact results have no error, and where a sum cancels, the working error dominates: neither shows a bias.
    known = ordinary & (value != want) & (error < unit / 8)
    bias.count += got.numel()
    bias.calls.append(_Errors.of(value[known], ((value - want) / unit)[known]))
