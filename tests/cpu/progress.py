"""progress: the operator of the kernels in progress.cuh."""

from torch import Tensor

from trifold.port import Operators, elementwise_output, wire


def register(op: Operators) -> None:
    op.define("progress(Tensor x, int which) -> Tensor", fake=lambda x, which: elementwise_output(x))


def progress(x: Tensor, which: int) -> Tensor:
    result: Tensor = op.progress(x, which)
    return result


op = wire(__name__, register)
