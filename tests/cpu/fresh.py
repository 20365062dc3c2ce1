"""fresh: the operator of the kernels in fresh.cuh."""

from torch import Tensor

from trifold.port import Operators, elementwise_output, wire


def register(op: Operators) -> None:
    op.define(
        "fresh(Tensor x, str how, int first, int n) -> Tensor", fake=lambda x, how, first, n: elementwise_output(x)
    )


def fresh(x: Tensor, how: str, first: int, n: int) -> Tensor:
    result: Tensor = op.fresh(x, how, first, n)
    return result


op = wire(__name__, register)
