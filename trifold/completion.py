"""Completion of arguments of ``trifold`` in a shell."""

from __future__ import annotations

from pathlib import Path

import typer

from trifold.errors import TrifoldError
from trifold.workspace import Workspace


def op_names(context: typer.Context, incomplete: str) -> list[str]:
    """The ops of the workspace that begin so and are not on the line yet; none outside a workspace."""
    place, params = context.params.get("workspace"), context.params
    named = {name for value in params.values() if isinstance(value, list | tuple) for name in map(str, value)}
    try:
        workspace = Workspace.find() if place is None else Workspace.at(Path(place))
    except (TrifoldError, OSError):
        return []
    return [name for name in workspace.ops() if name.startswith(incomplete) and name not in named]


def implementations(incomplete: str) -> list[str]:
    return [name for name in ("prototype", "port") if name.startswith(incomplete)]


def devices(incomplete: str) -> list[str]:
    return [name for name in ("cpu", "cuda") if name.startswith(incomplete)]
