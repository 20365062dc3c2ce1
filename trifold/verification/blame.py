"""Which form of an op raised an exception during a check, and at which of the user's lines."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from trifold.errors import TrifoldError
from trifold.findings import KernelFault
from trifold.raised_at import raised_at
from trifold.verification.outcomes import CheckFailed
from trifold.verification.remote_errors import RaisedByOp
from trifold.workspace import OpFiles


def words_of(error: BaseException, reference: Callable[..., Any]) -> str:
    """An exception in words, which say so if the reference raised it, or autograd in the reference's backward pass."""
    if isinstance(error, TrifoldError):
        return str(error)
    by_reference = "the reference itself raised " if _is_of_reference(error, reference) else ""
    return f"{by_reference}{type(error).__name__}: {error}"


def is_of_check(error: BaseException | None, files: OpFiles, reference: Callable[..., Any]) -> bool:
    """Whether code of the verification raised this exception: no file of the op, and not the reference."""
    if error is None or isinstance(error, RaisedByOp | KernelFault | TrifoldError | CheckFailed):
        return False
    return not place_of(error, files, reference)


def place_of(error: BaseException | None, files: OpFiles, reference: Callable[..., Any]) -> str:
    """The user's line, as ``file:line``, at which an exception or the one that caused it was raised; empty if unknown.

    A fault of a kernel has none: its findings have their own.
    """
    while error is not None:
        if isinstance(error, RaisedByOp):
            place = error.place
        elif isinstance(error, CheckFailed | KernelFault | TrifoldError):
            place = ""
        else:
            place = raised_at(files, error)
            code = getattr(reference, "__code__", None)
            if not place and code is not None and _is_of_reference(error, reference):
                place = f"{code.co_filename}:{code.co_firstlineno}"  # its backward pass is torch's code
        if place:
            return place
        error = error.__cause__
    return ""


def _is_of_reference(error: BaseException, reference: Callable[..., Any]) -> bool:
    """Whether an exception of this process passed through the reference, or through a function of the verification that
    computes the gradients of the function that it was given, and was given the reference."""
    if isinstance(error, RaisedByOp | KernelFault):
        return False
    code = getattr(reference, "__code__", None)
    return any(
        (code is not None and frame.f_code is code) or frame.f_locals.get("function") is reference
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )
