"""Whether a backward pass may overwrite what the forward pass saved for it.

By torch's internals, for an op that is wired by these too (``wire(..., direct=True)``).
"""

from __future__ import annotations

import torch
from torch import Tensor

_is_tracing = torch.compiler.is_dynamo_compiling
_is_grad_enabled = torch.is_grad_enabled
_graph_is_kept = torch._C._autograd._get_current_graph_task_keep_graph
_functorch_is_active = torch._C._are_functorch_transforms_active
_is_batched = torch._C._functorch.is_legacy_batchedtensor
_hooks_on_saved_tensors = torch._C._autograd._top_saved_tensors_default_hooks
_references = torch._C._storage_Use_Count

# Those of the node that saved the tensor, of the tensor that it returns, and of the storage as a Python object.
_OF_A_SAVED_OUTPUT = 3


def saves_without_hooks() -> bool:
    """Whether tensors saved for backward now are held only by their node, and by no hook on saved tensors."""
    return _hooks_on_saved_tensors(True) is None


def is_last_use(saved: Tensor, grad: Tensor) -> bool:
    """Whether nothing will read ``saved`` after the calling backward pass, so that its memory can be reused for the
    result.

    Args:
        saved: one of ``ctx.saved_tensors``: an output of the operator itself that has a gradient (of an output without
            one, torch saves the caller's own tensor), saved while :func:`saves_without_hooks` was true.
        grad: the upstream gradient of an output, as the pass received it.

    Returns:
        False where the graph is kept (``retain_graph=True``) or a graph of this pass is made (``create_graph=True``);
        if the operator's caller holds the memory; where ``grad`` is a batch of gradients (``is_grads_batched=True``,
        ``torch.func``); for a fake tensor or another subclass; in a compiled graph, and outside of a backward pass.
    """
    if _is_tracing() or _is_grad_enabled() or type(saved) is not Tensor or _graph_is_kept():
        return False
    if _is_batched(grad) or _functorch_is_active():
        return False
    return saved.grad_fn is not None and bool(_references(saved.untyped_storage()._cdata) <= _OF_A_SAVED_OUTPUT)
