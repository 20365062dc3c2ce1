"""The cells of the matrix: which implementation, on which device; and the forms of a build."""

from __future__ import annotations

from typing import Literal

Kind = Literal["prototype", "port"]
Device = Literal["cpu", "cuda"]

# How g++ builds a port: to be used; to check each access of memory; for gdb; to count what runs.
Form = Literal["fast", "checked", "debug", "coverage"]
