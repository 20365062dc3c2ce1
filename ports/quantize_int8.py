"""quantize_int8: the operator."""

import torch
from torch import Tensor

from trifold.port import Operators, wire


def register(op: Operators) -> None:
    op.define("quantize_int8(Tensor x) -> (Tensor, Tensor)", fake=_fake)


def _fake(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape, dtype=torch.int8), x.new_empty(x.shape[:-1], dtype=torch.float32)


def quantize_int8(x: Tensor) -> tuple[Tensor, Tensor]:
    """Each row of ``x`` (the last dimension) as int8 numbers times a scale: symmetric quantization.

    Args:
        x: any shape and strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device. A 0-d tensor is a
            row of one number.

    Returns:
        ``(q, scale)``, both contiguous and on the device of ``x``. ``scale`` is ``x.abs().amax(-1) / 127`` in float32,
        of shape ``x.shape[:-1]``. ``q`` is ``x / scale`` rounded to the nearest integer, a half to the even one, from
        -127 to 127, int8, of the shape of ``x``. ``q * scale[..., None]`` is ``x`` to within half a ``scale``.

    Raises:
        RuntimeError: ``x`` has another dtype. There is no gradient: requesting one is an error.

    The quotient is that of float32 (of float64 in that), rounded once, so that one that is nearer to a half than 127 *
    2**-24 may be rounded to the neighbouring even number. A row whose ``scale`` rounds to 0, such as one of zeros or an
    empty one, has scale 1 and ``q`` 0. A row with nan or an infinity, and one of float64 whose ``scale`` is too large
    for float32, has scale nan or inf and ``q`` 0 throughout, so that their product is nan.

    >>> import torch, trifold
    >>> trifold.load("quantize_int8")(torch.tensor([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]]))
    (tensor([[  64, -127,   32],
            [   0,    0,    0]], dtype=torch.int8), tensor([0.0157, 1.0000]))
    """
    q, scale = op.quantize_int8(x)
    return q, scale


op = wire(__name__, register)
