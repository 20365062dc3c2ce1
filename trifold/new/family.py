"""The kinds of new ops: the families of templates."""

from __future__ import annotations

import difflib
from typing import Literal, get_args

from trifold.errors import TrifoldError

Family = Literal["elementwise", "rows", "reduction", "scan", "scatter", "results", "no-gradient", "sampling"]
FAMILIES: tuple[Family, ...] = get_args(Family)


class NewError(TrifoldError):
    """The request to ``trifold new`` cannot be fulfilled."""


def family_of(name: str) -> Family:
    """The family of that name; raises :class:`NewError` if there is none."""
    for family in FAMILIES:
        if family == name:
            return family
    near = difflib.get_close_matches(name, FAMILIES, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise NewError(f"--like: there is no template '{name}'", f"{hint}there are {', '.join(FAMILIES)}")
