"""Names in a spec that must be among those allowed."""

from __future__ import annotations

from collections.abc import Collection


def require_one_of(field: str, value: object, allowed: Collection[str]) -> None:
    """Raises ValueError if ``value``, of ``field``, is not among ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{field} is {value!r}; it must be one of: {', '.join(allowed)}")
