"""histogram: the operator."""

import torch
from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    op.define(
        "histogram(Tensor x, int bins, float low, float high) -> Tensor",
        fake=lambda x, bins, low, high: x.new_empty(bins, dtype=torch.int64),
    )


def histogram(x: Tensor, bins: int, low: float, high: float) -> Tensor:
    """How many elements of ``x`` are in each of ``bins`` bins of equal width in [``low``, ``high``], as torch.histc.

    An element ``x`` with ``low <= x <= high`` is counted in bin ``min(floor((x - low) * bins / (high - low)), bins -
    1)``: bins are half-open, except that the last one includes its right edge. Others, and nan, are not counted. Each
    operation is rounded to float32, or for float64 to float64, and so are ``low`` and ``high``; an element on the edge
    of two bins is therefore counted in the same one on every device.

    Args:
        x: any shape and strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device.
        bins: their number, 1 or more. Up to 8,192 are counted in shared memory; more are slower.
        low: the left edge of the first bin.
        high: the right edge of the last bin. Unlike torch.histc, equal edges do not mean the range of ``x``: finding
            that would wait for a GPU.

    Returns:
        Shape (bins,), int64, on the device of ``x``; it has no gradient. (torch.histc returns the dtype of ``x``, in
        which large counts are rounded.)

    Raises:
        RuntimeError: another dtype; ``bins`` is not positive; ``low`` is not less than ``high``, or one of them or
            ``(high - low) * bins`` is not finite, as rounded to float32, or for float64 to float64.

    >>> import torch, trifold
    >>> trifold.load("histogram")(torch.tensor([0.0, 0.5, 0.9, 1.0, 1.1]), 2, 0.0, 1.0)
    tensor([1, 3])
    """
    counts: Tensor = op.histogram(x, bins, low, high)
    return counts


op = wire(__name__, register)
