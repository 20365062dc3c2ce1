"""What a new op can be like: the families of templates."""

from __future__ import annotations

import difflib
from typing import Literal, get_args

from trifold.errors import TrifoldError

Family = Literal["elementwise", "rows", "reduction", "scan", "scatter", "results", "no-gradient", "sampling"]
FAMILIES: tuple[Family, ...] = get_args(Family)


class NewError(TrifoldError):
    """What ``trifold new`` was asked for cannot be made."""


def family_of(name: str) -> Family:
    """The family of that name; raises :class:`NewError` where there is none."""
    for family in FAMILIES:
        if family == name:
            return family
    near = difflib.get_close_matches(name, FAMILIES, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise NewError(f"--like: there is no template '{name}'", f"{hint}there are {', '.join(FAMILIES)}")
