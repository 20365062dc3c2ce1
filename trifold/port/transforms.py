"""What ``torch.func`` hides from an op."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_is_tracing = torch.compiler.is_dynamo_compiling
_unwrapped = torch.func.debug_unwrap  # of a tensor that no transform has wrapped: the tensor itself


def may_need_gradient(x: Any) -> bool:
    """Whether the gradient of ``x`` may be requested: what ``save`` of ``op.autograd`` asks, in order not to keep what
    only that gradient needs.

    Returns:
        ``x.requires_grad``; True for the tensors that a transform of ``torch.func`` passes, for within ``vmap`` a
        tensor does not say that the batch that it is taken from requires a gradient. False for what is no tensor.
    """
    return isinstance(x, Tensor) and (x.requires_grad or (not _is_tracing() and _unwrapped(x) is not x))
