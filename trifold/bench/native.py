"""The bench's own C++ functions, built by nvcc for this GPU on first use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from trifold.errors import TrifoldError

NAMESPACE = "trifold_bench"

_libraries: list[torch.library.Library] = []  # registrations end with the object that made them


@functools.cache
def native(source: Path, schema: str) -> Callable[..., Any]:
    """The function of ``schema`` that ``source`` implements; if it cannot be built, one that raises the reason."""
    from trifold.build import build
    from trifold.workspace import OpFiles

    name = schema.partition("(")[0]
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(schema)
    _libraries.append(library)
    try:
        build(OpFiles(source.stem, source, source, source, source, source), "cuda", NAMESPACE).load()
    except TrifoldError as error:
        reason = error
        _libraries.remove(library)
        library._destroy()

        def refuse(*_: Any) -> Any:
            raise reason

        return refuse
    function: Callable[..., Any] = getattr(torch.ops.trifold_bench, name).default
    return function
