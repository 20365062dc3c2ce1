"""Inputs as data: a case says how a tensor is made, so that hypothesis can shrink it and a failure can print it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

Layout = Literal["contiguous", "offset", "transposed", "sliced", "expanded"]
Fill = Literal["exact", "normal", "wide", "zero", "special", "huge", "tiny", "subnormal"]

LAYOUTS: tuple[Layout, ...] = ("contiguous", "offset", "transposed", "sliced", "expanded")
FILLS: tuple[Fill, ...] = ("exact", "normal", "wide", "zero", "special", "huge", "tiny", "subnormal")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

_LITERAL_SIZE = 24  # a tensor of up to as many elements is printed with its values


@dataclass(frozen=True)
class TensorCase:
    """A tensor to be made.

    Attributes:
        shape: of the tensor.
        dtype: floating.
        layout: ``contiguous``; ``offset`` (contiguous, one element into its storage); ``transposed`` (dimensions
            reversed in memory); ``sliced`` (every second element of the last dimension, from the second);
            ``expanded`` (stride 0 in the first dimension).
        fill: ``exact`` small integers; ``normal``; ``wide`` (magnitudes from 2^-8 to 2^8, evenly by exponent: the
            tails of a function that normal numbers do not reach); ``zero`` (+0 and -0); ``special`` (normal numbers,
            ±0, ±inf, nan); ``huge``, ``tiny`` and ``subnormal`` (within the top, the bottom and below the range of the
            dtype).
        seed: of the values.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    layout: Layout = "contiguous"
    fill: Fill = "normal"
    seed: int = 0

    def make(self, device: str = "cpu") -> Tensor:
        shape, view = self._storage()
        base = _values(self.fill, shape, self.dtype, self.seed).to(device)
        return view(base)

    @property
    def code(self) -> str:
        """An expression that makes the tensor; plain torch where it has few elements."""
        shape, _ = self._storage()
        base = _values(self.fill, shape, self.dtype, self.seed)
        if base.numel() > _LITERAL_SIZE:
            return f"{self!r}.make()"
        values = ", ".join(_literal(value) for value in base.flatten().tolist())
        reshape = "" if len(shape) == 1 else f".reshape({shape})"
        return f"torch.tensor([{values}], dtype={self.dtype}){reshape}{self._view_code()}"

    def _storage(self) -> tuple[tuple[int, ...], Callable[[Tensor], Tensor]]:
        shape = self.shape
        match self.layout:
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
            case _:
                return shape, lambda base: base

    def _view_code(self) -> str:
        match self.layout:
            case "offset":
                return f"[1:].view({self.shape})"
            case "transposed":
                return f".permute({tuple(reversed(range(len(self.shape))))})" if self.shape else ""
            case "sliced":
                return "[..., 1::2]" if self.shape else "[1]"
            case "expanded":
                return f".expand({self.shape})" if self.shape else ""
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
        case _:
            values = normal
    return values.to(dtype)


@dataclass(frozen=True)
class Call:
    """One call of the op's public function: positional and keyword arguments; tensors stand there as cases.

    Attributes:
        seed: ``torch.manual_seed`` before the call.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def arguments(self, device: str = "cpu") -> tuple[list[Any], dict[str, Any]]:
        """The arguments with each :class:`TensorCase` made on ``device``."""

        def made(value: Any) -> Any:
            return value.make(device) if isinstance(value, TensorCase) else value

        return [made(value) for value in self.args], {name: made(value) for name, value in self.kwargs.items()}

    def code(self, op: str, device: str = "cpu", implementation: str = "port") -> str:
        """A program that makes the call and prints its result."""
        chosen = "" if implementation == "port" else f', implementation="{implementation}", device="{device}"'
        lines = ["import torch", "import trifold", f'{implementation} = trifold.load("{op}"{chosen})']

        def named(name: str, value: Any) -> str:
            if not isinstance(value, TensorCase):
                return repr(value)
            lines.append(f"{name} = {value.code}" + ("" if device == "cpu" else f".to('{device}')"))
            return name

        names = [named(f"x{position}", value) for position, value in enumerate(self.args)]
        names += [f"{name}={named(name, value)}" for name, value in self.kwargs.items()]
        if any("TensorCase(" in line for line in lines):
            lines.insert(2, "from trifold.spec import TensorCase")
        lines += [f"torch.manual_seed({self.seed})", f"print({implementation}({', '.join(names)}))"]
        return "\n".join(lines)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the first tensor argument."""
        cases = [value for value in (*self.args, *self.kwargs.values()) if isinstance(value, TensorCase)]
        return cases[0].dtype if cases else torch.float32
