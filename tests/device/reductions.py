"""reductions: the operators of the kernels in reductions.cuh, and how a binding sees rows."""

from typing import Any

from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    op.define("reductions(Tensor x, int threads) -> Tensor", fake=lambda x, threads: x.new_empty((4, x.numel())))
    op.define("pairs(Tensor x) -> Tensor", fake=lambda x: x.new_empty((2, x.numel())))
    op.define("rows(Tensor x) -> (int, int, int, bool)", fake=lambda x: (0, 0, 0, False))


def reductions(x: Tensor, threads: int | None = None) -> Any:
    """Rows as the binding sees them without ``threads``; with 0, reductions of pairs; else of numbers."""
    if threads is None:
        return op.rows(x)
    return op.reductions(x, threads) if threads else op.pairs(x)


op = wire(__name__, register)
