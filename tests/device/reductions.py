"""reductions: the operators of the kernels in reductions.cuh, and how a binding sees rows."""

from typing import Any

import torch
from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    op.define("reductions(Tensor x, int threads) -> Tensor", fake=lambda x, threads: x.new_empty((4, x.numel())))
    op.define("pairs(Tensor x) -> Tensor", fake=lambda x: x.new_empty((2, x.numel())))
    op.define("sums(Tensor x) -> Tensor", fake=lambda x: x.new_empty((2, 64)))
    op.define("tensor_sums(Tensor x) -> Tensor", fake=lambda x: x.new_empty((2, 32), dtype=torch.float32))
    op.define("rows(Tensor x) -> (int, int, int, bool)", fake=lambda x: (0, 0, 0, False))
    op.define(
        "shares(Tensor x, int rows, int columns, int element, int most) -> (int, int, int)",
        fake=lambda x, rows, columns, element, most: (0, 0, 0),
    )


def reductions(x: Tensor, threads: int = 0, way: str = "values", shape: tuple[int, ...] = ()) -> Any:
    """Reductions of numbers by blocks of ``threads``; of ``pairs``; ``sums`` of many terms, or ``tensor sums``;
    ``rows``, as the binding sees them; or ``shares``, as it shares out rows of a ``shape``."""
    match way:
        case "values":
            return op.reductions(x, threads)
        case "pairs":
            return op.pairs(x)
        case "sums":
            return op.sums(x)
        case "tensor sums":
            return op.tensor_sums(x)
        case "shares":
            return op.shares(x, *shape)
        case _:
            return op.rows(x)


op = wire(__name__, register)
