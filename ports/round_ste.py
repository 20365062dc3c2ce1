"""round_ste: the operator."""

from torch import Tensor

from trifold.port import Operators, elementwise_output, wire


def register(op: Operators) -> None:
    op.define("round_ste(Tensor x) -> Tensor", fake=elementwise_output)
    op.autograd("round_ste", save=[], backward=lambda ctx, grad: grad)


def round_ste(x: Tensor) -> Tensor:
    """Rounds a probability to 0 or 1, with a straight-through gradient.

    Args:
        x: any shape and strides; float64, float32, float16 or bfloat16; on the CPU or a CUDA device.

    Returns:
        1 where ``x > 0.5``, else 0 (also for nan), in the shape, dtype and device of ``x``.

    Raises:
        RuntimeError: ``x`` has another dtype.

    The gradient is a declared surrogate: the upstream gradient, unchanged, as if the function were the identity
    (Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons", 2013).

    >>> import torch, trifold
    >>> x = torch.tensor([0.2, 0.5, 0.7], requires_grad=True)
    >>> y = trifold.load("round_ste")(x)
    >>> y.detach(), torch.autograd.grad(y.sum(), x)[0]
    (tensor([0., 0., 1.]), tensor([1., 1., 1.]))
    """
    y: Tensor = op.round_ste(x)
    return y


op = wire(__name__, register, direct=True)
