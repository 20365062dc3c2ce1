"""Inputs as data: a case says how a tensor is made, so that hypothesis can shrink it and a failure can print it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

Layout = Literal["contiguous", "offset", "transposed", "sliced", "expanded", "padded"]
Fill = Literal[
    "exact", "normal", "wide", "zero", "special", "huge", "tiny", "subnormal", "range", "masked", "squarable", "lone"
]

LAYOUTS: tuple[Layout, ...] = ("contiguous", "offset", "transposed", "sliced", "expanded")
FILLS: tuple[Fill, ...] = ("exact", "normal", "wide", "zero", "special", "huge", "tiny", "subnormal", "range")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

# What only ops on rows tell from the others: rows that lie apart, and numbers of which some do not count.
ROW_LAYOUTS: tuple[Layout, ...] = (*LAYOUTS, "padded")
ROW_FILLS: tuple[Fill, ...] = (*FILLS, "masked")

_LITERAL_SIZE = 24  # a tensor of up to as many elements is printed with its values


@dataclass(frozen=True)
class _Place:
    """Where the elements of a tensor lie in a contiguous one, its base.

    Attributes:
        shape, layout, offset, dim: as of :class:`TensorCase`.
    """

    shape: tuple[int, ...]
    layout: Layout
    offset: int
    dim: int

    def __post_init__(self) -> None:
        if self.offset < 0:
            raise ValueError(f"offset must not be negative, but is {self.offset}")
        if not 0 <= self.dim < max(1, len(self.shape)):
            raise ValueError(f"dim must be a dimension of {self.shape}, from 0, but is {self.dim}")

    @property
    def base(self) -> tuple[int, ...]:
        """The shape of the base."""
        match self.layout:
            case "offset":
                return (math.prod(self.shape) + self.offset,)
            case "transposed":
                return self.shape[::-1]
            case "sliced" if self.shape:
                return (*self.shape[:-1], 2 * self.shape[-1] + self.offset)
            case "sliced":
                return (self.offset + 2,)
            case "expanded" if self.shape:
                return (*self.shape[: self.dim], 1, *self.shape[self.dim + 1 :])
            case "padded" if self.shape:
                return (*self.shape[:-1], self.shape[-1] + self.offset)
            case _:
                return self.shape

    def view(self, base: Tensor) -> Tensor:
        """The tensor, as a view of its base."""
        match self.layout:
            case "offset":
                return base[self.offset :].view(self.shape)
            case "transposed" if self.shape:
                return base.permute(*reversed(range(len(self.shape))))
            case "sliced" if self.shape:
                return base[..., self.offset :: 2]
            case "sliced":
                return base[self.offset]
            case "expanded":
                return base.expand(self.shape)
            case "padded" if self.shape:
                return base[..., self.offset :]
            case _:
                return base

    @property
    def code(self) -> str:
        """What to write after an expression for the base."""
        match self.layout:
            case "offset":
                return f"[{self.offset}:].view({self.shape})"
            case "transposed" if self.shape:
                return f".permute({tuple(reversed(range(len(self.shape))))})"
            case "sliced":
                return f"[..., {self.offset}::2]" if self.shape else f"[{self.offset}]"
            case "expanded" if self.shape:
                return f".expand({self.shape})"
            case "padded" if self.shape:
                return f"[..., {self.offset}:]"
            case _:
                return ""


@dataclass(frozen=True)
class TensorCase:
    """A tensor to be made.

    Attributes:
        shape: of the tensor.
        dtype: floating.
        layout: ``contiguous``; ``offset`` (contiguous, ``offset`` elements into its storage); ``transposed``
            (dimensions reversed in memory); ``sliced`` (every second element of the last dimension, from element
            ``offset``); ``expanded`` (stride 0 in dimension ``dim``); ``padded`` (the last dimension is cut from one
            that is ``offset`` elements longer in front: rows are contiguous, lie apart, and begin at odd places).
        fill: ``exact`` small integers; ``normal``; ``wide`` (magnitudes from 2^-8 to 2^8, evenly by exponent: the
            tails of a function that normal numbers do not reach); ``zero`` (+0 and -0); ``special`` (one half normal
            numbers, the other what :func:`special_numbers` lists); ``squarable`` (likewise, without the largest number,
            whose square overflows, as does its difference from the smallest one); ``huge``, ``tiny`` and ``subnormal``
            (within the top, the bottom and below the range of the dtype); ``range`` (finite, evenly by exponent over
            the whole range of the dtype, subnormal numbers included); ``masked`` (normal numbers, -inf in one place of
            four); ``lone`` (normal numbers, and in each row, which is the last dimension, one that is nan, inf or -inf,
            in the first, the middle or the last column: row r plus ``seed`` chooses which, and where).
        seed: of the values.
        offset: see ``layout``; the other layouts begin at their storage's first element.
        dim: see ``layout``.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    layout: Layout = "contiguous"
    fill: Fill = "normal"
    seed: int = 0
    offset: int = 1
    dim: int = 0

    def __post_init__(self) -> None:
        _ = self._place  # raises where offset or dim is none

    def make(self, device: str = "cpu", *, room: int = 0) -> Tensor:
        """The tensor; its storage has ``room`` more elements than it needs, at the end."""
        return _made(self._base, self._room(room), self._place, device)

    @property
    def code(self) -> str:
        """An expression that makes the tensor; plain torch where it has few elements."""
        return self.code_on()

    def code_on(self, device: str = "cpu", *, room: int = 0) -> str:
        """An expression for what :meth:`make` returns."""
        return _code(self._base, self._room(room), self._place, device) or f"{self!r}.make({_asked(device, room)})"

    @property
    def _place(self) -> _Place:
        return _Place(self.shape, self.layout, self.offset, self.dim)

    @property
    def _base(self) -> Tensor:
        return _values(self.fill, self._place.base, self.dtype, self.seed)

    def _room(self, room: int) -> Tensor:
        return _values(self.fill, (room,), self.dtype, self.seed + 1)


@dataclass(frozen=True)
class IndexCase:
    """Indices to be made, int64: what an op takes beside its floating tensors, such as the class of each row.

    Attributes:
        shape: of the tensor.
        below: they go from 0 to ``below - 1``.
        instead: stands in one place of three instead of an index, where it is given.
        layout: as of :class:`TensorCase`.
        seed: of the values.
        offset, dim: as of :class:`TensorCase`.
    """

    shape: tuple[int, ...]
    below: int
    instead: int | None = None
    layout: Layout = "contiguous"
    seed: int = 0
    offset: int = 1
    dim: int = 0

    def __post_init__(self) -> None:
        _ = self._place  # raises where offset or dim is none

    def make(self, device: str = "cpu") -> Tensor:
        return _made(self._base, None, self._place, device)

    @property
    def code(self) -> str:
        """As of :class:`TensorCase`."""
        return self.code_on()

    def code_on(self, device: str = "cpu") -> str:
        """As of :class:`TensorCase`."""
        return _code(self._base, None, self._place, device) or f"{self!r}.make({_asked(device)})"

    @property
    def _place(self) -> _Place:
        return _Place(self.shape, self.layout, self.offset, self.dim)

    @property
    def _base(self) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        shape = self._place.base
        indices = torch.randint(self.below, shape, generator=generator)
        if self.instead is None:
            return indices
        return torch.where(torch.rand(shape, generator=generator) < 1 / 3, self.instead, indices)


AnyCase = TensorCase | IndexCase


@dataclass(frozen=True)
class AliasCase:
    """An argument that is another one: the very tensor, or one that overlaps it.

    It has no values of its own. Gradients are asked for of the other argument alone.

    Attributes:
        of: the other's position among the positional arguments, where a :class:`TensorCase` stands.
        shift: 0: the very tensor. Else a view of the same storage, of the same shape, dtype and strides, that begins
            so many elements later.
    """

    of: int
    shift: int = 0

    def __post_init__(self) -> None:
        if self.of < 0 or self.shift < 0:
            raise ValueError(f"of and shift must not be negative, but are {self.of} and {self.shift}")

    def view(self, other: Tensor) -> Tensor:
        """The argument, from the one at ``of``, whose storage has ``shift`` more elements than it needs."""
        if self.shift == 0:
            return other
        return other.as_strided(other.shape, other.stride(), other.storage_offset() + self.shift)

    def code(self, other: str) -> str:
        """An expression for :meth:`view`."""
        if self.shift == 0:
            return other
        return f"{other}.as_strided({other}.shape, {other}.stride(), {other}.storage_offset() + {self.shift})"


def _made(base: Tensor, room: Tensor | None, place: _Place, device: str) -> Tensor:
    if room is None or room.numel() == 0:
        return place.view(base.to(device))
    storage = torch.cat([base.flatten(), room]).to(device)
    return place.view(storage[: base.numel()].view(base.shape))


def _code(base: Tensor, room: Tensor | None, place: _Place, device: str) -> str:
    """An expression in plain torch for what :func:`_made` makes; empty where that has many elements."""
    if base.numel() > _LITERAL_SIZE:
        return ""
    values = base.flatten().tolist()
    more = [] if room is None else room.tolist()
    literals = ", ".join(_literal(value) for value in (*values, *more))
    moved = "" if device == "cpu" else f".to('{device}')"
    cut = f"[:{len(values)}]" if more else ""
    reshape = "" if base.dim() == 1 else f".reshape({tuple(base.shape)})"
    return f"torch.tensor([{literals}], dtype={base.dtype}){moved}{cut}{reshape}{place.code}"


def _asked(device: str, room: int = 0) -> str:
    """The arguments of ``make``."""
    return ", ".join([*([] if device == "cpu" else [repr(device)]), *([f"room={room}"] if room else [])])


def _literal(value: float) -> str:
    return f"float('{value}')" if value != value or abs(value) == float("inf") else repr(value)


def special_numbers(dtype: torch.dtype) -> tuple[float, ...]:
    """Where a function of numbers may break: zeros, infinities and nan; the largest number, the smallest normal and the
    smallest subnormal one; a round-off, 1, and its neighbours. Each with both signs."""
    info = torch.finfo(dtype)
    smallest = info.smallest_normal * info.eps
    ones = (1.0, 1 + info.eps, 1 - info.eps / 2)
    sizes = (0.0, math.inf, info.max, info.smallest_normal, smallest, info.eps, *ones)
    return (math.nan, *(sign * size for size in sizes for sign in (1, -1)))


def _values(fill: Fill, shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(shape, generator=generator, dtype=torch.float64)
    unit = torch.rand(shape, generator=generator, dtype=torch.float64)
    sign = torch.where(torch.rand(shape, generator=generator) < 0.5, -1.0, 1.0).double()
    info = torch.finfo(dtype)
    match fill:
        case "exact":
            values = torch.randint(-4, 5, shape, generator=generator).double()
        case "wide":
            values = sign * torch.exp2(16 * unit - 8)
        case "zero":
            values = sign * 0.0
        case "special" | "squarable":
            numbers = [x for x in special_numbers(dtype) if fill == "special" or abs(x) != info.max]
            specials = torch.tensor(numbers, dtype=torch.float64)
            count = normal.numel()  # half of the places, each special number in turn
            places = torch.randperm(count, generator=generator)[: (count + 1) // 2]
            first = int(torch.randint(0, len(specials), (), generator=generator))
            values = normal.flatten()
            values[places] = specials[(torch.arange(len(places)) + first) % len(specials)]
            values = values.view(shape)
        case "huge":
            values = sign * info.max * (0.25 + 0.75 * unit)
        case "tiny":
            values = sign * info.tiny * (1 + 8 * unit)
        case "subnormal":
            values = sign * info.tiny * unit
        case "range":
            largest, smallest = (math.frexp(x)[1] - 1 for x in (info.max, info.smallest_normal * info.eps))
            powers = torch.tensor([math.ldexp(1, n) for n in range(smallest, largest + 1)], dtype=torch.float64)
            chosen = powers[torch.randint(0, len(powers), shape, generator=generator)]
            # A narrower dtype rounds what is just below the next power of two up to it, at the top to infinity.
            values = (sign * (1 + unit) * chosen).clamp(-info.max, info.max)
        case "lone":
            values = _with_lone_specials(normal, seed)
        case "masked":
            values = torch.where(unit < 0.25, float("-inf"), normal)
        case _:
            values = normal
    return values.to(dtype)


def _with_lone_specials(values: Tensor, seed: int) -> Tensor:
    rows = values.view(-1, values.shape[-1]) if values.numel() else values.new_empty(0, 1)
    for row, numbers in enumerate(rows, seed):
        place = (0, len(numbers) // 2, len(numbers) - 1)[row % 3]
        numbers[place] = (math.nan, math.inf, -math.inf)[(row + row // 3) % 3]
    return values


@dataclass(frozen=True)
class Call:
    """One call of the op's public function: positional and keyword arguments; tensors stand there as cases.

    Gradients are asked for of all floating tensors among the positional ones.

    Attributes:
        seed: ``torch.manual_seed`` before the call.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        for position, value in enumerate((*self.args, *self.kwargs.values())):
            if isinstance(value, AliasCase):
                known = value.of < min(position, len(self.args))
                if not known or not isinstance(self.args[value.of], TensorCase):
                    raise ValueError(f"{value} stands for a TensorCase among the positional arguments before it")

    def arguments(self, device: str = "cpu") -> tuple[list[Any], dict[str, Any]]:
        """The arguments with each tensor made on ``device``."""
        args: list[Any] = []

        def made(value: Any, position: int | None = None) -> Any:
            if isinstance(value, AliasCase):
                return value.view(args[value.of])
            if isinstance(value, TensorCase):
                return value.make(device, room=self._room(position))
            return value.make(device) if isinstance(value, IndexCase) else value

        for position, value in enumerate(self.args):
            args.append(made(value, position))
        return args, {name: made(value) for name, value in self.kwargs.items()}

    def with_aliases(self, args: list[Any]) -> list[Any]:
        """``args``, in which each argument that is another one is the tensor that stands there now: once tensors were
        converted, or detached to require a gradient. What only overlaps another one stays as it is, since the storage
        of a copy has no room for it."""
        aliases = {position: value for position, value in enumerate(self.args) if isinstance(value, AliasCase)}
        return [
            args[aliases[position].of] if position in aliases and aliases[position].shift == 0 else value
            for position, value in enumerate(args)
        ]

    def code(self, op: str, device: str = "cpu", implementation: str = "port") -> str:
        """A program that makes the call and prints its result."""
        chosen = "" if implementation == "port" else f', implementation="{implementation}", device="{device}"'
        lines = ["import torch", "import trifold", f'{implementation} = trifold.load("{op}"{chosen})']

        def named(name: str, value: Any, position: int | None = None) -> str:
            if isinstance(value, TensorCase):
                code = value.code_on(device, room=self._room(position))
            elif isinstance(value, IndexCase):
                code = value.code_on(device)
            elif isinstance(value, AliasCase):
                code = value.code(f"x{value.of}")
            else:
                return repr(value)
            lines.append(f"{name} = {code}")
            return name

        names = [named(f"x{position}", value, position) for position, value in enumerate(self.args)]
        names += [f"{name}={named(name, value)}" for name, value in self.kwargs.items()]
        used = [kind.__name__ for kind in (TensorCase, IndexCase) if any(f"{kind.__name__}(" in line for line in lines)]
        if used:
            lines.insert(2, f"from trifold.spec import {', '.join(used)}")
        lines += [f"torch.manual_seed({self.seed})", f"print({implementation}({', '.join(names)}))"]
        return "\n".join(lines)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the first floating tensor."""
        cases = [value for value in (*self.args, *self.kwargs.values()) if isinstance(value, TensorCase)]
        return cases[0].dtype if cases else torch.float32

    @property
    def elements(self) -> int:
        """How many its tensors have, all together."""
        cases = (*self.args, *self.kwargs.values())
        return sum(torch.Size(case.shape).numel() for case in cases if isinstance(case, TensorCase | IndexCase))

    def _room(self, position: int | None) -> int:
        """So many elements more than it needs has the storage of the positional argument."""
        values = (*self.args, *self.kwargs.values())
        return max((v.shift for v in values if isinstance(v, AliasCase) and v.of == position), default=0)
