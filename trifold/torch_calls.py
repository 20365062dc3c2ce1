"""Observes torch's operators while other code runs."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class TorchCalls(TorchDispatchMode):
    """Gets each call of torch's operators, including those that the toolkit's own operators make on the CPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace.startswith("trifold_"):
            with self:  # the mode is off inside: calls by the operator itself are to be seen too
                return func._op_dk(torch._C.DispatchKey.CPU, *args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        self.called(func, args, result)
        return result

    def called(self, function: Any, arguments: tuple[Any, ...], result: Any) -> None:
        """``function``, an operator's overload, was given ``arguments`` by position, and has returned ``result``."""
        raise NotImplementedError
