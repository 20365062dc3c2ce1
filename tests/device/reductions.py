"""reductions: the operators of the kernels in reductions.cuh, and how a binding sees rows."""

from typing import Any

from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    op.define("reductions(Tensor x, int threads) -> Tensor", fake=lambda x, threads: x.new_empty((4, x.numel())))
    op.define("pairs(Tensor x) -> Tensor", fake=lambda x: x.new_empty((2, x.numel())))
    op.define("sums(Tensor x) -> Tensor", fake=lambda x: x.new_empty((2, 64)))
    op.define("rows(Tensor x) -> (int, int, int, bool)", fake=lambda x: (0, 0, 0, False))


def reductions(x: Tensor, threads: int = 0, way: str = "values") -> Any:
    """Reductions of numbers by blocks of ``threads``; of ``pairs``; ``sums`` of many terms; or ``rows``, as the binding
    sees them."""
    match way:
        case "values":
            return op.reductions(x, threads)
        case "pairs":
            return op.pairs(x)
        case "sums":
            return op.sums(x)
        case _:
            return op.rows(x)


op = wire(__name__, register)
