"""clusters: the operator of the kernels in clusters.cuh."""

from torch import Tensor

from trifold.port import Operators, elementwise_output, wire


def register(op: Operators) -> None:
    op.define(
        "clusters(Tensor x, int which, int blocks_a_cluster) -> Tensor",
        fake=lambda x, which, blocks_a_cluster: elementwise_output(x),
    )


def clusters(x: Tensor, which: int, blocks_a_cluster: int) -> Tensor:
    result: Tensor = op.clusters(x, which, blocks_a_cluster)
    return result


op = wire(__name__, register)
