"""Inputs as data: a case says how a tensor is made, so that hypothesis can shrink it and a failure can print it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

Layout = Literal["contiguous", "offset", "transposed", "sliced", "expanded", "padded"]
Fill = Literal["exact", "normal", "wide", "zero", "special", "huge", "tiny", "subnormal", "masked"]

LAYOUTS: tuple[Layout, ...] = ("contiguous", "offset", "transposed", "sliced", "expanded")
FILLS: tuple[Fill, ...] = ("exact", "normal", "wide", "zero", "special", "huge", "tiny", "subnormal")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

# What only ops on rows tell from the others: rows that lie apart, and numbers of which some do not count.
ROW_LAYOUTS: tuple[Layout, ...] = (*LAYOUTS, "padded")
ROW_FILLS: tuple[Fill, ...] = (*FILLS, "masked")

_LITERAL_SIZE = 24  # a tensor of up to as many elements is printed with its values


@dataclass(frozen=True)
class TensorCase:
    """A tensor to be made.

    Attributes:
        shape: of the tensor.
        dtype: floating.
        layout: ``contiguous``; ``offset`` (contiguous, one element into its storage); ``transposed`` (dimensions
            reversed in memory); ``sliced`` (every second element of the last dimension, from the second);
            ``expanded`` (stride 0 in the first dimension); ``padded`` (the last dimension is cut from one that is an
            element longer in front: rows are contiguous, lie apart, and begin at odd places).
        fill: ``exact`` small integers; ``normal``; ``wide`` (magnitudes from 2^-8 to 2^8, evenly by exponent: the
            tails of a function that normal numbers do not reach); ``zero`` (+0 and -0); ``special`` (normal numbers,
            ±0, ±inf, nan); ``huge``, ``tiny`` and ``subnormal`` (within the top, the bottom and below the range of the
            dtype); ``masked`` (normal numbers, -inf in one place of four).
        seed: of the values.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    layout: Layout = "contiguous"
    fill: Fill = "normal"
    seed: int = 0

    def make(self, device: str = "cpu") -> Tensor:
        shape, view = _storage(self.shape, self.layout)
        base = _values(self.fill, shape, self.dtype, self.seed).to(device)
        return view(base)

    @property
    def code(self) -> str:
        """An expression that makes the tensor; plain torch where it has few elements."""
        shape, _ = _storage(self.shape, self.layout)
        base = _values(self.fill, shape, self.dtype, self.seed)
        return _code(base, self.shape, self.layout) or f"{self!r}.make()"


@dataclass(frozen=True)
class IndexCase:
    """Indices to be made, int64: what an op takes beside its floating tensors, such as the class of each row.

    Attributes:
        shape: of the tensor.
        below: they go from 0 to ``below - 1``.
        instead: stands in one place of three instead of an index, where it is given.
        layout: as of :class:`TensorCase`.
        seed: of the values.
    """

    shape: tuple[int, ...]
    below: int
    instead: int | None = None
    layout: Layout = "contiguous"
    seed: int = 0

    def make(self, device: str = "cpu") -> Tensor:
        shape, view = _storage(self.shape, self.layout)
        return view(self._values(shape).to(device))

    @property
    def code(self) -> str:
        """As of :class:`TensorCase`."""
        shape, _ = _storage(self.shape, self.layout)
        return _code(self._values(shape), self.shape, self.layout) or f"{self!r}.make()"

    def _values(self, shape: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        indices = torch.randint(self.below, shape, generator=generator)
        if self.instead is None:
            return indices
        return torch.where(torch.rand(shape, generator=generator) < 1 / 3, self.instead, indices)


AnyCase = TensorCase | IndexCase


def _storage(shape: tuple[int, ...], layout: Layout) -> tuple[tuple[int, ...], Callable[[Tensor], Tensor]]:
    """The shape of a contiguous tensor, and the view of it that has the given shape and layout."""
    match layout:
        case "offset":
            count = torch.Size(shape).numel()
            return (count + 1,), lambda base: base[1:].view(shape)
        case "transposed" if shape:
            return tuple(reversed(shape)), lambda base: base.permute(*reversed(range(len(shape))))
        case "sliced" if shape:
            wide = (*shape[:-1], 2 * shape[-1] + 1)
            return wide, lambda base: base[..., 1::2]
        case "sliced":
            return (3,), lambda base: base[1]
        case "expanded" if shape:
            return (1, *shape[1:]), lambda base: base.expand(shape)
        case "padded" if shape:
            return (*shape[:-1], shape[-1] + 1), lambda base: base[..., 1:]
        case _:
            return shape, lambda base: base


def _code(base: Tensor, shape: tuple[int, ...], layout: Layout) -> str:
    """An expression in plain torch for a view of ``base``; empty where that has many elements."""
    if base.numel() > _LITERAL_SIZE:
        return ""
    values = ", ".join(_literal(value) for value in base.flatten().tolist())
    reshape = "" if base.dim() == 1 else f".reshape({tuple(base.shape)})"
    return f"torch.tensor([{values}], dtype={base.dtype}){reshape}{_view_code(shape, layout)}"


def _view_code(shape: tuple[int, ...], layout: Layout) -> str:
    match layout:
        case "offset":
            return f"[1:].view({shape})"
        case "transposed":
            return f".permute({tuple(reversed(range(len(shape))))})" if shape else ""
        case "sliced":
            return "[..., 1::2]" if shape else "[1]"
        case "expanded":
            return f".expand({shape})" if shape else ""
        case "padded":
            return "[..., 1:]" if shape else ""
        case _:
            return ""


def _literal(value: float) -> str:
    return f"float('{value}')" if value != value or abs(value) == float("inf") else repr(value)


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
        case "special":
            specials = torch.tensor(
                [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e5, -1e5], dtype=torch.float64
            )
            chosen = specials[torch.randint(0, len(specials), shape, generator=generator)]
            values = torch.where(unit < 0.5, normal, chosen)
        case "huge":
            values = sign * info.max * (0.25 + 0.75 * unit)
        case "tiny":
            values = sign * info.tiny * (1 + 8 * unit)
        case "subnormal":
            values = sign * info.tiny * unit
        case "masked":
            values = torch.where(unit < 0.25, float("-inf"), normal)
        case _:
            values = normal
    return values.to(dtype)


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

    def arguments(self, device: str = "cpu") -> tuple[list[Any], dict[str, Any]]:
        """The arguments with each tensor made on ``device``."""

        def made(value: Any) -> Any:
            return value.make(device) if isinstance(value, AnyCase) else value

        return [made(value) for value in self.args], {name: made(value) for name, value in self.kwargs.items()}

    def code(self, op: str, device: str = "cpu", implementation: str = "port") -> str:
        """A program that makes the call and prints its result."""
        chosen = "" if implementation == "port" else f', implementation="{implementation}", device="{device}"'
        lines = ["import torch", "import trifold", f'{implementation} = trifold.load("{op}"{chosen})']

        def named(name: str, value: Any) -> str:
            if not isinstance(value, AnyCase):
                return repr(value)
            lines.append(f"{name} = {value.code}" + ("" if device == "cpu" else f".to('{device}')"))
            return name

        names = [named(f"x{position}", value) for position, value in enumerate(self.args)]
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
