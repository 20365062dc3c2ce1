"""Reads ``verify/<op>.py``."""

from __future__ import annotations

from trifold.errors import SpecError
from trifold.raised_at import raised_at
from trifold.spec import Spec
from trifold.workspace import OpFiles, import_file


def load_spec(files: OpFiles) -> Spec:
    """The op's :class:`~trifold.spec.Spec`.

    Raises:
        SpecError: the file raises, or has no ``spec``.
    """
    try:
        module = import_file(files.spec, f"trifold_spec_{files.name}_{files.digest[:12]}")
    except Exception as error:
        where = raised_at(files, error) or files.spec
        raise SpecError(f"{where} raises {type(error).__name__}: {error}", "correct it") from error
    spec = getattr(module, "spec", None)
    if not isinstance(spec, Spec):
        raise SpecError(f"{files.spec} has no spec", "write: spec = Spec(calls=..., smooth=...)")
    return spec
