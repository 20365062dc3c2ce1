"""Where the processes of a verification keep the bytecode of Python modules."""

from __future__ import annotations

import importlib.util
import os

from trifold.build.cache import cache_folder


def environment() -> dict[str, str]:
    """Variables that make Python keep bytecode in trifold's cache, where it does not keep it next to the sources.

    A container image often sets ``PYTHONDONTWRITEBYTECODE``, or has packages that its user cannot write to. There each
    fresh process of an op compiles all of torch, for 10 s, and a verification on a GPU has eight of them for an op.
    """
    torch = importlib.util.find_spec("torch")
    assert torch is not None and torch.origin is not None
    if os.path.exists(importlib.util.cache_from_source(torch.origin)):
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache_folder() / "bytecode")}
