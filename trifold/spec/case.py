"""Inputs as data: a case describes how to create a tensor, so that hypothesis can shrink it and a failure can print
it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from trifold.spec.choices import require_dtype, require_one_of
from trifold.spec.fills import NEEDED, Fill, numbers

Layout = Literal[
    "contiguous", "offset", "transposed", "sliced", "expanded", "outermost", "innermost", "narrowed", "padded"
]
Order = Literal["any", "sorted", "offsets", "permutation"]

# Only ops on rows are tried with rows that have gaps between them.
ROW_LAYOUTS: tuple[Layout, ...] = get_args(Layout)
LAYOUTS = tuple(layout for layout in ROW_LAYOUTS if layout != "padded")
FILLS: tuple[Fill, ...] = ("exact", "normal", "wide", "zero", "special", "huge", "tiny", "subnormal", "range")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

# Likewise numbers of which some are masked.
ROW_FILLS: tuple[Fill, ...] = (*FILLS, "masked")

# Cases are created by the thousand: these are searched by hash, and stay in the order in which an error lists them.
_ALL_LAYOUTS, _ALL_FILLS, _ORDERS = (dict.fromkeys(get_args(names)) for names in (Layout, Fill, Order))

_LITERAL_SIZE = 24  # tensors with at most this many elements are printed with their values


@dataclass(frozen=True)
class _Place:
    """The elements of a tensor as a part of a contiguous one, its base.

    Attributes:
        shape, layout, offset, dim: as for :class:`TensorCase`.
    """

    shape: tuple[int, ...]
    layout: Layout
    offset: int
    dim: int

    def __post_init__(self) -> None:
        require_one_of("layout", self.layout, _ALL_LAYOUTS)
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
            case "outermost" if self.shape:
                return (self.shape[self.dim], *self._others)
            case "innermost" if self.shape:
                return (*self._others, self.shape[self.dim])
            case "narrowed" if self.shape:
                return (*self.shape[: self.dim], self.shape[self.dim] + self.offset, *self.shape[self.dim + 1 :])
            case "padded" if self.shape:
                return (*self.shape[:-1], self.shape[-1] + self.offset)
            case _:
                return self.shape

    @property
    def last_stays(self) -> bool:
        """Whether the elements along the last dimension are those along the base's, in order."""
        last = len(self.shape) - 1
        match self.layout:
            case "expanded":
                return False
            case "transposed":
                return last < 1
            case "outermost":
                return last < 1 or self.dim != last
            case "innermost":
                return self.dim == max(last, 0)
            case _:
                return True

    @property
    def _others(self) -> tuple[int, ...]:
        """The shape without the dimension ``dim``."""
        return (*self.shape[: self.dim], *self.shape[self.dim + 1 :])

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
            case "outermost" if self.shape:
                return base.movedim(0, self.dim)
            case "innermost" if self.shape:
                return base.movedim(-1, self.dim)
            case "narrowed" if self.shape:
                return base.narrow(self.dim, self.offset, self.shape[self.dim])
            case "padded" if self.shape:
                return base[..., self.offset :]
            case _:
                return base

    @property
    def code(self) -> str:
        """The code that follows an expression for the base."""
        match self.layout:
            case "offset":
                return f"[{self.offset}:].view({self.shape})"
            case "transposed" if self.shape:
                return f".permute({tuple(reversed(range(len(self.shape))))})"
            case "sliced":
                return f"[..., {self.offset}::2]" if self.shape else f"[{self.offset}]"
            case "expanded" if self.shape:
                return f".expand({self.shape})"
            case "outermost" if self.shape:
                return f".movedim(0, {self.dim})"
            case "innermost" if self.shape:
                return f".movedim(-1, {self.dim})"
            case "narrowed" if self.shape:
                return f".narrow({self.dim}, {self.offset}, {self.shape[self.dim]})"
            case "padded" if self.shape:
                return f"[..., {self.offset}:]"
            case _:
                return ""


@dataclass(frozen=True)
class TensorCase:
    """A tensor to be created.

    Attributes:
        shape: of the tensor.
        dtype: floating, complex, integer or bool. Gradients are requested for floating and complex tensors.
        layout: ``contiguous``; ``offset`` (contiguous, ``offset`` elements into its storage); ``transposed``
            (dimensions reversed in memory); ``sliced`` (every second element of the last dimension, from element
            ``offset``); ``expanded`` (stride 0 in dimension ``dim``); ``outermost`` and ``innermost`` (dimension
            ``dim`` is that in memory, the others are in order: a transposed or a channels-last tensor); ``narrowed``
            (dimension ``dim`` is cut from one that is ``offset`` longer in front: the dimensions before it and after it
            cannot be taken for one); ``padded`` (the same of the last dimension: rows are contiguous, lie apart, and
            begin at odd places).
        fill: ``exact`` small integers; ``normal``; ``wide`` (magnitudes from 2^-8 to 2^8, evenly by exponent: the tails
            of a function that normal numbers do not reach); ``zero`` (+0 and -0); ``special`` (one half normal numbers,
            the other what :func:`special_numbers` lists, nan of both signs); ``squarable`` (likewise, without the
            largest number, whose square overflows, as does its difference from the smallest one); ``huge``, ``tiny``
            and ``subnormal`` (within the top, the bottom and below the range of the dtype); ``range`` (finite, evenly
            by exponent over the whole range of the dtype, subnormal numbers included); ``masked`` (normal numbers, and
            -inf in half of the row or more from its beginning, in one place of four, or up to its end, of rows in
            turn); ``lone`` (normal numbers, and in each row, which is the last dimension, one that is nan, inf or -inf,
            in the first, the middle or the last column: row r plus ``seed`` chooses which, and where); ``peak`` (normal
            numbers, and in each row one that is 16: in the last, the first or the middle column, in turn);
            ``positive`` (the magnitudes of normal numbers, 2^-10 or more) and ``unit`` (evenly from 2^-10 to 1 - 2^-8),
            for arguments such as a variance or a probability: no check replaces these by numbers below 0.
            Complex numbers have two such parts. Integers: ``exact`` from -4 to 4; ``normal`` up to ±100; ``special``
            (half of them the ends of the dtype's range, 0 and ±1); ``huge``, ``wide`` and ``range`` of the whole range;
            ``zero``; ``positive`` from 1 to 100; ``unit`` 0 or 1.
        seed: of the values.
        offset: see ``layout``; the other layouts start at the first element of their storage.
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
        require_dtype(self.dtype)
        if self.dtype.is_floating_point and self.dtype.itemsize == 1:
            raise ValueError(
                f"TensorCase(dtype={self.dtype}): torch's own checks of operators, such as opcheck, fail for arguments "
                f"in float8. Let the operator take their bytes, torch.uint8, and view them: x.view({self.dtype})"
            )
        require_one_of("fill", self.fill, _ALL_FILLS)
        _ = self._place  # raises if layout, offset or dim is invalid

    def in_normal_numbers(self) -> TensorCase:
        """The case with normal numbers, or as it is if its numbers are all positive: the op may need them to be."""
        return self if self.fill in NEEDED else replace(self, fill="normal")

    def make(self, device: str = "cpu", *, room: int = 0) -> Tensor:
        """The tensor; its storage has ``room`` additional elements at the end."""
        return _made(self._base, self._room(room), self._place, device)

    @property
    def code(self) -> str:
        """An expression that creates the tensor; plain torch if it has few elements."""
        return self.code_on()

    def code_on(self, device: str = "cpu", *, room: int = 0) -> str:
        """An expression for what :meth:`make` returns."""
        return _code(self._base, self._room(room), self._place, device) or f"{self!r}.make({_asked(device, room)})"

    @property
    def _place(self) -> _Place:
        return _Place(self.shape, self.layout, self.offset, self.dim)

    @property
    def _base(self) -> Tensor:
        return numbers(self.fill, self._place.base, self.dtype, self.seed)

    def _room(self, room: int) -> Tensor:
        return numbers(self.fill, (room,), self.dtype, self.seed + 1)


@dataclass(frozen=True)
class IndexCase:
    """Indices to create: an argument in addition to floating tensors, such as the class of each row.

    Attributes:
        shape: of the tensor.
        below: they range from 0 to ``below - 1``.
        instead: if given, replaces one index in three, such as -1 for padding; not of indices in order, sorted or
            offsets.
        layout: as for :class:`TensorCase`.
        seed: of the values.
        offset, dim: as for :class:`TensorCase`.
        dtype: of integers.
        order: along the last dimension: ``any``; ``sorted``, the least one first; ``offsets``, sorted from 0 to
            ``below - 1``, which is where the parts of a ragged tensor of as many rows begin and end; ``permutation``,
            no index twice, except ``instead``.
    """

    shape: tuple[int, ...]
    below: int
    instead: int | None = None
    layout: Layout = "contiguous"
    seed: int = 0
    offset: int = 1
    dim: int = 0
    dtype: torch.dtype = torch.int64
    order: Order = "any"

    def __post_init__(self) -> None:
        require_dtype(self.dtype)
        require_one_of("order", self.order, _ORDERS)
        base = self._place.base  # raises if layout, offset or dim is invalid
        if self.below < 1 and torch.Size(self.shape).numel() > 0:
            raise ValueError(f"below must be positive, but is {self.below}")
        if self.order == "any":
            return
        if self.instead is not None and self.order != "permutation":
            raise ValueError(
                f"instead={self.instead} and order={self.order!r} do not go together: sorted "
                "indices stay in order; order='any' or 'permutation' take it"
            )
        if not self._place.last_stays:
            raise ValueError(f"layout={self.layout!r} does not keep the order along the last dimension")
        if self.order == "permutation" and base and base[-1] > self.below:
            raise ValueError(f"{base[-1]} indices in a row of memory cannot differ below {self.below}")
        if self.order == "offsets" and self.shape and self.shape[-1] < 2 and self.below > 1:
            raise ValueError(f"{self.shape[-1]} offsets cannot go from 0 to {self.below - 1}")

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
        if self.order == "permutation" and shape:
            count = torch.Size(shape[:-1]).numel()
            rows = [torch.randperm(self.below, generator=generator)[: shape[-1]] for _ in range(count)]
            indices = (torch.stack(rows) if rows else torch.empty(0)).reshape(shape)
        else:
            indices = torch.randint(max(1, self.below), shape, generator=generator)
        if self.order in ("sorted", "offsets") and shape:
            indices = indices.sort(-1).values
        if self.order == "offsets" and shape:
            offsets = self._place.view(indices)
            offsets[..., :1], offsets[..., -1:] = 0, self.below - 1
        if self.instead is not None:
            indices = torch.where(torch.rand(shape, generator=generator) < 1 / 3, self.instead, indices)
        return indices.to(self.dtype)


AnyCase = TensorCase | IndexCase


@dataclass(frozen=True)
class AliasCase:
    """An argument that aliases another one: the same tensor, or one that overlaps it.

    It has no values of its own. Gradients are requested only for the other argument.

    Attributes:
        of: the other's position among the positional arguments, which must be a :class:`TensorCase`.
        shift: 0: the same tensor. Otherwise a view of the same storage, of the same shape, dtype and strides, that
            starts this many elements later.
        turned: a view that starts where the other does, of the same shape and with dimensions reversed in memory: of a
            square matrix, the transposed one. The same tensor if its storage has too few elements.
    """

    of: int
    shift: int = 0
    turned: bool = False

    def __post_init__(self) -> None:
        if self.of < 0 or self.shift < 0:
            raise ValueError(f"of and shift must not be negative, but are {self.of} and {self.shift}")
        if self.shift and self.turned:
            raise ValueError(f"shift={self.shift} and turned=True do not go together")

    @property
    def is_same(self) -> bool:
        """Whether the argument is the very tensor."""
        return self.shift == 0 and not self.turned

    def view(self, other: Tensor) -> Tensor:
        """The argument, from the one at ``of``, whose storage has ``shift`` more elements than it needs."""
        if self.turned:
            there = other.untyped_storage().nbytes() // other.itemsize - other.storage_offset()
            return other.as_strided(other.shape, _turned(other.shape)) if other.numel() <= there else other
        if self.shift == 0:
            return other
        return other.as_strided(other.shape, other.stride(), other.storage_offset() + self.shift)

    def code(self, other: str) -> str:
        """An expression for :meth:`view`."""
        if self.turned:
            return f"{self!r}.view({other})"
        if self.shift == 0:
            return other
        return f"{other}.as_strided({other}.shape, {other}.stride(), {other}.storage_offset() + {self.shift})"


def _turned(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor that is contiguous when its dimensions are reversed."""
    return tuple(math.prod(max(1, n) for n in shape[:d]) for d in range(len(shape)))


def _made(base: Tensor, room: Tensor | None, place: _Place, device: str) -> Tensor:
    """The tensor. On a GPU it is made in the current stream, as torch's own factory functions do, without a wait."""
    if room is None or room.numel() == 0:
        return place.view(base.to(device, non_blocking=True))
    storage = torch.cat([base.flatten(), room]).to(device, non_blocking=True)
    return place.view(storage[: base.numel()].view(base.shape))


def _code(base: Tensor, room: Tensor | None, place: _Place, device: str) -> str:
    """An expression in plain torch for what :func:`_made` makes; empty where that has many elements, or a nan with a
    sign, which a conversion to bfloat16 loses."""
    if base.numel() > _LITERAL_SIZE or (base.is_floating_point() and bool((base.isnan() & base.signbit()).any())):
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


def _literal(value: complex) -> str:
    if isinstance(value, complex):
        return f"complex({_literal(value.real)}, {_literal(value.imag)})"
    return f"float('{value}')" if value != value or abs(value) == float("inf") else repr(value)
