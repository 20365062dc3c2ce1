"""reductions: the operators of the kernels in reductions.cuh."""

from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    op.define("reductions(Tensor x, int threads) -> Tensor", fake=lambda x, threads: x.new_empty((4, x.numel())))
    op.define("pairs(Tensor x) -> Tensor", fake=lambda x: x.new_empty((2, x.numel())))
    op.define("sums(Tensor x) -> Tensor", fake=lambda x: x.new_empty((2, 64)))


def reductions(x: Tensor, threads: int, way: str = "values") -> Tensor:
    result: Tensor
    match way:
        case "pairs":
            result = op.pairs(x)
        case "sums":
            result = op.sums(x)
        case _:
            result = op.reductions(x, threads)
    return result


op = wire(__name__, register)
