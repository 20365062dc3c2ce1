"""The simulator's record of unwritten torch tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from torch import Tensor

from trifold import _simulator
from trifold.fresh_memory import FreshMemory, unwritten_elements
from trifold.simulator.settings import current


@cache
def _memory() -> FreshMemory:
    return FreshMemory(_simulator.note_fresh, _simulator.forget_fresh)


def watched() -> contextlib.AbstractContextManager[None]:
    """Tensors that torch allocates within it are unwritten, as in :meth:`FreshMemory.watched`, if that is checked.

    >>> import torch
    >>> with watched():
    ...     x = torch.empty(3)
    ...     x[1] = 5
    ...     unwritten(x).tolist()
    [True, False, True]
    """
    return _memory().watched() if "uninitialised" in current().checks else contextlib.nullcontext()


def watching(launcher: Callable[..., Any]) -> Callable[..., Any]:
    """``launcher`` with its calls :func:`watched`."""

    @wraps(launcher)
    def call(*args: Any, **kwargs: Any) -> Any:
        with watched():
            return launcher(*args, **kwargs)

    return call


def unwritten(tensor: Tensor) -> Tensor | None:
    """The unwritten elements of a CPU tensor, as a mask; None if there are none."""
    storage = tensor.untyped_storage()
    found = _simulator.unwritten(storage.data_ptr(), storage.nbytes())
    return None if found is None else unwritten_elements(tensor, found)
