"""Reads ``verify/<op>.py``."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import trifold.spec
from trifold.errors import SpecError
from trifold.raised_at import raised_at
from trifold.spec import Spec
from trifold.workspace import OpFiles, import_file

_UNKNOWN_ARGUMENT = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument")


def _remedy(error: Exception) -> str:
    """For an argument that a class of ``trifold.spec`` does not have, those that it has."""
    unknown = _UNKNOWN_ARGUMENT.match(str(error))
    kind: Any = getattr(trifold.spec, unknown[1], None) if unknown else None
    if not dataclasses.is_dataclass(kind):
        return "correct it"
    names = ", ".join(each.name for each in dataclasses.fields(kind) if each.init)
    return f"its arguments are {names}"


def load_spec(files: OpFiles) -> Spec:
    """The op's :class:`~trifold.spec.Spec`.

    Raises:
        SpecError: the file raises, or has no ``spec``.
    """
    try:
        module = import_file(files.spec, f"trifold_spec_{files.name}_{files.digest[:12]}")
    except Exception as error:
        where = raised_at(files, error) or files.spec
        raise SpecError(f"{where} raises {type(error).__name__}: {error}", _remedy(error)) from error
    spec = getattr(module, "spec", None)
    if not isinstance(spec, Spec):
        raise SpecError(f"{files.spec} has no spec", "write: spec = Spec(calls=..., smooth=...)")
    return spec
