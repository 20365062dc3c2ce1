"""Which operators a call reaches, and with which arguments."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

OpCall = tuple[Any, tuple[Any, ...], dict[str, Any]]


class Recorder(TorchDispatchMode):
    """Keeps the first call of each operator of one namespace, with detached arguments."""

    def __init__(self, namespace: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.namespace = namespace
        self.seen: dict[str, OpCall] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == self.namespace and func.name() not in self.seen:
            detached = tuple(a.detach().clone() if isinstance(a, Tensor) else a for a in args)
            self.seen[func.name()] = (func, detached, dict(kwargs or {}))
        return func(*args, **(kwargs or {}))
