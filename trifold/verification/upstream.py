"""The kinds of upstream gradients that checks pass to an op's backward, by name, so that a program that reproduces a
failure can make the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from trifold.spec.call import Path
from trifold.spec.choices import require_one_of
from trifold.verification.tolerance import same_bits

Kind = Literal["usual", "special", "contiguous", "ones", "column-major"]

_MOST = 4096  # elements of an upstream gradient that is remembered


def upstream_of(result: Tensor, dtype: torch.dtype, seed: int, kind: Kind) -> Tensor:
    """The upstream gradient of a result.

    Args:
        dtype: of the call, in which the numbers are drawn.
        seed: of the call, plus the position of the result.
        kind: ``usual``: normal numbers in one of several layouts; ``special``: with zeros, infinities and nan;
            ``contiguous``: normal numbers; ``ones``: as of a sum; ``column-major``: the usual ones with dimensions
            reversed in memory.

    Raises:
        ValueError: an unknown kind.
    """
    from trifold.verification.checks import differentiation
    from trifold.verification.checks.gradients import column_major

    require_one_of("upstream", kind, get_args(Kind))
    makers = {
        "special": differentiation.special_upstream_gradient,
        "contiguous": differentiation.plain_upstream_gradient,
        "ones": differentiation.unit_upstream_gradient,
    }
    made = makers.get(kind, differentiation.upstream_gradient)(result, dtype, seed)
    return (column_major(made) if kind == "column-major" else made).to(result.dtype)


@dataclass(frozen=True)
class Backward:
    """A backward pass of a call that the op's process ran.

    Attributes:
        asked: the paths of the arguments that required a gradient.
        results: for each result that requires a gradient, its position, a tensor without memory of its shape and dtype,
            and its upstream gradient, which is None if the result was not used.
    """

    asked: tuple[Path, ...]
    results: tuple[tuple[int, Tensor, Tensor | None], ...]

    @classmethod
    def of(cls, asked: tuple[Path, ...], results: Sequence[tuple[int, Tensor, Tensor | None]]) -> Backward | None:
        """A record of a backward pass; None if its tensors are too large to be kept."""
        if not asked or any(result.numel() > _MOST for _, result, _ in results):
            return None
        kept = [
            (
                number,
                torch.empty((), dtype=result.dtype).expand(result.shape),
                None if outer is None else _copied(outer),
            )
            for number, result, outer in results
        ]
        return cls(asked, tuple(kept))

    @property
    def through(self) -> int | None:
        """The only result of several that has an upstream gradient; None if there is no such."""
        used = [number for number, _, outer in self.results if outer is not None]
        return used[0] if len(used) == 1 < len(self.results) else None

    def kind(self, dtype: torch.dtype, seed: int) -> Kind | None:
        """The kind of its upstream gradients, in a call of this dtype and seed; None if they are of no kind."""
        for kind in get_args(Kind):
            if all(
                outer is None or _are_same(outer, upstream_of(result, dtype, seed + number, kind))
                for number, result, outer in self.results
            ):
                named: Kind = kind
                return named
        return None


def _copied(tensor: Tensor) -> Tensor:
    """A copy on the CPU with the same strides."""
    source = tensor.detach().cpu()
    copy = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype)
    if source.numel() > 0:
        lengths = [1 if stride == 0 else n for n, stride in zip(source.shape, source.stride(), strict=True)]
        narrow = [slice(0, n) for n in lengths]
        copy[tuple(narrow)] = source[tuple(narrow)]
    return copy


def _are_same(a: Tensor, b: Tensor) -> bool:
    def strides(tensor: Tensor) -> list[int]:
        return [stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True) if n > 1]

    return a.shape == b.shape and same_bits(a, b) and (a.numel() == 0 or strides(a) == strides(b))
