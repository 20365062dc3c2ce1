"""The values of a tensor, for each fill and kind of dtype."""

from __future__ import annotations

import functools
import math
from typing import Literal

import torch
from torch import Tensor

Fill = Literal[
    "exact",
    "normal",
    "wide",
    "zero",
    "special",
    "huge",
    "tiny",
    "subnormal",
    "range",
    "masked",
    "squarable",
    "lone",
    "peak",
    "positive",
    "unit",
]

# Numbers that an op may need: of a square root, a logarithm, a division. No check replaces them by normal ones.
NEEDED: tuple[Fill, ...] = ("positive", "unit")
_LEAST = 2**-10  # of these


def special_numbers(dtype: torch.dtype) -> tuple[float, ...]:
    """Numbers at which a function may fail: zeros, infinities and nan; the largest number, the smallest normal and the
    smallest subnormal one; a round-off, 1, and its neighbours. Each with both signs."""
    info = torch.finfo(dtype)
    smallest = info.smallest_normal * info.eps
    ones = (1.0, 1 + info.eps, 1 - info.eps / 2)
    sizes = (0.0, math.inf, info.max, info.smallest_normal, smallest, info.eps, *ones)
    return (math.nan, *(sign * size for size in sizes for sign in (1, -1)))


def numbers(fill: Fill, shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    """A new contiguous tensor of such numbers; for other than floating dtypes, the closest equivalent of the fill.

    Args:
        fill: see :class:`trifold.spec.TensorCase`.
        shape, dtype: of the tensor.
        seed: of the numbers.
    """
    if torch.Size(shape).numel() > _KEPT_ELEMENTS:
        return _numbers(fill, shape, dtype, seed)
    return _kept_numbers(fill, shape, dtype, seed).clone()


def _numbers(fill: Fill, shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    if dtype.is_complex:
        real, imaginary = (numbers(fill, shape, dtype.to_real(), 2 * seed + part) for part in (0, 1))
        return torch.complex(real.double(), imaginary.double()).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        return _integers(fill, shape, dtype, generator)
    return _floating(fill, shape, dtype, seed, generator)


# A case is made some six times in a row: for the op, and for the reference in each of its dtypes.
_KEPT_ELEMENTS = 2**18
_kept_numbers = functools.lru_cache(maxsize=32)(_numbers)


def _integers(fill: Fill, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """``exact``: small ones; ``normal``: up to 100; ``special``: half of them the ends of the range, 0, 1 and -1;
    ``huge``, ``wide`` and ``range``: of the whole range; ``zero``: 0; ``positive``: 1 to 100; ``unit``: 0 and 1."""
    if dtype == torch.bool:
        chance = 0.0 if fill == "zero" else 0.5
        return torch.rand(shape, generator=generator) < chance
    info = torch.iinfo(dtype)

    def between(least: int, most: int) -> Tensor:
        least, most = max(least, info.min), min(most, info.max - 1, 2**63 - 2)
        return torch.randint(least, most + 1, shape, generator=generator).to(dtype)

    match fill:
        case "zero":
            return torch.zeros(shape, dtype=dtype)
        case "exact":
            return between(-4, 4) if info.min < 0 else between(0, 8)
        case "special" | "squarable" | "lone":
            specials = torch.tensor(sorted({info.min, info.max, 0, 1, max(info.min, -1)}), dtype=dtype)
            chosen = specials[torch.randint(len(specials), shape, generator=generator)]
            return torch.where(torch.rand(shape, generator=generator) < 0.5, chosen, between(-100, 100))
        case "huge" | "wide" | "range":
            return between(info.min, info.max)
        case "positive" | "unit":
            return between(1, 100) if fill == "positive" else between(0, 1)
        case _:
            return between(-100, 100)


def _floating(fill: Fill, shape: tuple[int, ...], dtype: torch.dtype, seed: int, generator: torch.Generator) -> Tensor:
    def normal() -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def unit() -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    def sign() -> Tensor:
        return torch.randint(0, 2, shape, generator=generator, dtype=torch.float64).mul_(2).sub_(1)

    info = torch.finfo(dtype)
    match fill:
        case "exact":
            values = torch.randint(-4, 5, shape, generator=generator).double()
        case "wide":
            values = sign() * torch.exp2(16 * unit() - 8)
        case "zero":
            values = sign() * 0.0
        case "special" | "squarable":
            numbers = [x for x in special_numbers(dtype) if fill == "special" or abs(x) != info.max]
            specials = torch.tensor(numbers, dtype=torch.float64)
            values = normal().flatten()
            count = len(values)  # half of the places, each special number in turn
            places = torch.randperm(count, generator=generator)[: (count + 1) // 2]
            first = int(torch.randint(0, len(specials), (), generator=generator))
            values[places] = specials[(torch.arange(len(places)) + first) % len(specials)]
            values = values.view(shape)
        case "huge":
            values = sign() * info.max * (0.25 + 0.75 * unit())
        case "tiny":
            values = sign() * info.tiny * (1 + 8 * unit())
        case "subnormal":
            values = sign() * info.tiny * unit()
        case "range":
            largest, smallest = (math.frexp(x)[1] - 1 for x in (info.max, info.smallest_normal * info.eps))
            powers = torch.tensor([math.ldexp(1, n) for n in range(smallest, largest + 1)], dtype=torch.float64)
            chosen = powers[torch.randint(0, len(powers), shape, generator=generator)]
            # A narrower dtype rounds what is just below the next power of two up to it, at the top to infinity.
            values = (sign() * (1 + unit()) * chosen).clamp(-info.max, info.max)
        case "lone":
            values = _with_lone_specials(normal(), seed)
        case "peak":
            values = _with_peaks(normal())
        case "masked":
            values = torch.where(_mask(unit(), seed), float("-inf"), normal())
        case "positive":
            values = normal().abs().clamp(min=_LEAST)
        case "unit":
            values = unit().clamp(_LEAST, 1 - 2**-8)  # the largest below 1 in bfloat16
        case _:
            values = normal()
    return _with_both_nans(values.to(dtype), seed) if fill in ("special", "squarable", "lone") else values.to(dtype)


def _with_both_nans(values: Tensor, seed: int) -> Tensor:
    """Every other nan has its sign bit set, as inf - inf has on x86: a kernel that compares bits orders it below all
    numbers."""
    same_size = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(values.dtype.itemsize)
    if same_size is not None:
        bits = values.view(same_size).view(-1)
        places = values.flatten().isnan().nonzero().flatten()
        info = torch.iinfo(same_size)
        bits[places] &= info.max  # a conversion to bfloat16 may set it
        bits[places[seed % 2 :: 2]] |= info.min
    return values


def _with_lone_specials(values: Tensor, seed: int) -> Tensor:
    rows = values.view(-1, values.shape[-1]) if values.numel() else values.new_empty(0, 1)
    for row, numbers in enumerate(rows, seed):
        place = (0, len(numbers) // 2, len(numbers) - 1)[row % 3]
        numbers[place] = (math.nan, math.inf, -math.inf)[(row + row // 3) % 3]
    return values


def _mask(random: Tensor, seed: int) -> Tensor:
    """What is masked, given random numbers from 0 to 1: of rows in turn a beginning of half of the row or more, some
    places, and an end. A kernel that takes a row in tiles meets tiles of which all is masked."""
    if random.dim() == 0 or random.numel() == 0:
        return random < 0.25
    rows = random.view(-1, random.shape[-1])
    kind = (torch.arange(len(rows)) + seed).remainder(3).unsqueeze(1)
    place = (torch.arange(rows.shape[1]) + 1) / rows.shape[1]
    part = 0.5 + 0.5 * rows[:, :1]  # less than the row
    beginning, end = place <= part, place > 1 - part
    end[:, 0] = False
    masked = torch.where(kind == 0, beginning, torch.where(kind == 1, rows < 0.25, end))
    return masked.view(random.shape)


def _with_peaks(values: Tensor) -> Tensor:
    if values.numel():
        rows = values.view(-1, values.shape[-1])
        places = torch.tensor([values.shape[-1] - 1, 0, values.shape[-1] // 2]).repeat(-(-len(rows) // 3))[: len(rows)]
        rows[torch.arange(len(rows)), places] = 16
    return values


def flushed(terms: Tensor) -> Tensor:
    """The possible loss of each term of a sum of float32 numbers (or half types) by atomic additions on a GPU, in
    round-offs of float32: they flush subnormal numbers to 0. 0 for a term that float32 does not hold, which is part of
    a sum in float64, where nothing is flushed.

    Args:
        terms: float64, of any shape.
    """
    single = torch.finfo(torch.float32)
    least = single.smallest_normal * single.eps
    return (terms.abs() >= least).to(terms.dtype) * (single.smallest_normal / (single.eps / 2))
