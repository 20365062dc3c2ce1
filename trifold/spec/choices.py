"""Names and dtypes in a spec that must be among those that there are."""

from __future__ import annotations

from collections.abc import Collection

import torch


def require_one_of(field: str, value: object, allowed: Collection[str]) -> None:
    """Raises ValueError if ``value``, of ``field``, is not among ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{field} is {value!r}; it must be one of: {', '.join(allowed)}")


def require_dtype(value: object) -> None:
    """Raises TypeError if ``value``, of a field ``dtype``, is none, such as its name."""
    if not isinstance(value, torch.dtype):
        raise TypeError(f"dtype is {value!r}; it must be a dtype of torch, such as torch.float32")
