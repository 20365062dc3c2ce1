"""normal_sample: the operator."""

import torch
from torch import Tensor

from trifold.port import Operators, philox_state, wire


def register(op: Operators) -> None:
    # Both operators are linear in their tensors and adjoint to each other, so each is the other's gradient and all
    # higher derivatives are exact. The noise is determined by (seed, offset), or by the seed in `state`.
    op.define(
        "normal_sample(Tensor mean, Tensor std, int num_samples, bool shared_noise, int seed, int offset, "
        "Tensor? state) -> Tensor",
        fake=lambda mean, std, num_samples, *noise: mean.new_empty((mean.shape[0], num_samples)),
    )
    op.define(
        "normal_sample_backward(Tensor grad, bool shared_noise, int seed, int offset, Tensor? state) "
        "-> (Tensor, Tensor)",
        fake=lambda grad, *noise: (grad.new_empty(grad.shape[0]), grad.new_empty(grad.shape[0])),
    )
    op.autograd("normal_sample", save=_save_noise, backward=_backward)
    op.autograd("normal_sample_backward", save=_save_backward_noise, backward=_backward_of_backward)


def _save_noise(mean, std, num_samples, shared_noise, seed, offset, state, samples):  # type: ignore[no-untyped-def]
    return state, shared_noise, seed, offset


def _save_backward_noise(grad, shared_noise, seed, offset, state, grads):  # type: ignore[no-untyped-def]
    return state, grad.shape[1], shared_noise, seed, offset


def _backward(ctx, grad):  # type: ignore[no-untyped-def]
    grad_mean, grad_std = op.normal_sample_backward(grad, *ctx.constants, *ctx.saved_tensors)
    return grad_mean, grad_std, None, None, None, None, None


def _backward_of_backward(ctx, grad_mean, grad_std):  # type: ignore[no-untyped-def]
    return op.normal_sample(grad_mean, grad_std, *ctx.constants, *ctx.saved_tensors), None, None, None, None


def normal_sample(
    mean: Tensor,
    std: Tensor,
    num_samples: int,
    *,
    shared_noise: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Samples of independent normal distributions: ``mean[i] + std[i] * z`` with ``z`` standard normal.

    The noise is computed in the kernel (Philox 4x32-10 and Box–Muller) and never stored; backward computes it again.

    Args:
        mean: shape (d,), any stride; float64, float32, float16 or bfloat16; on the CPU or a CUDA device.
        std: as ``mean``: same shape, dtype and device. Its sign is not checked.
        num_samples: samples per distribution, 0 or more.
        shared_noise: whether all d distributions use the same row of ``num_samples`` numbers ``z``; by default each
            sample has its own.
        generator: the source of randomness, on the device of ``mean``; default: torch's own, which
            ``torch.manual_seed`` seeds. Must be None under ``torch.compile``.

    Returns:
        Shape (d, num_samples), contiguous, dtype and device of ``mean``. Half types are computed in float32. One seed
        gives the same noise in every dtype, up to rounding; a CPU and a CUDA generator of one seed do not.

    Raises:
        RuntimeError: ``mean`` and ``std`` differ in shape, dtype or device, have another dtype or more than one
            dimension; ``num_samples`` is negative; ``generator`` is on another device or not allowed here.

    Gradients, along each row: ``d mean = sum(g)``, ``d std = sum(g * z)``. A replay of a CUDA graph that holds a call
    draws new numbers, as with ``torch.randn``.

    >>> import torch, trifold
    >>> normal_sample = trifold.load("normal_sample")
    >>> normal_sample(torch.tensor([0.0, 5.0]), torch.tensor([1.0, 0.0]), 3)[1]
    tensor([5., 5., 5.])
    """
    seed, offset, state = philox_state(mean.device, generator)
    samples: Tensor = op.normal_sample(mean, std, num_samples, shared_noise, seed, offset, state)
    return samples


op = wire(__name__, register, direct=True)
