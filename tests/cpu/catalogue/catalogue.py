"""catalogue: the operator that starts kernels of the catalogue by their names."""

import torch
from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    op.define(
        "catalogue(Tensor names, Tensor shape, Tensor words, Tensor reals) -> Tensor",
        fake=lambda names, shape, words, reals: torch.empty_like(shape),
    )


def catalogue(names: Tensor, shape: Tensor, words: Tensor, reals: Tensor) -> Tensor:
    """The arguments are those of catalogue.cu. Returns a tensor without meaning."""
    result: Tensor = op.catalogue(names, shape, words, reals)
    return result


op = wire(__name__, register)
