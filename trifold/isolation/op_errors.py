"""Errors in an op's process, for the judge."""

from __future__ import annotations

from trifold.errors import TrifoldError
from trifold.findings import KernelFault
from trifold.raised_at import raised_at
from trifold.workspace import OpFiles

from .tensors import Json

_NO_TENSOR = "There were no tensor arguments to this function"  # torch's words, of 30 lines
_WITHOUT_A_TENSOR = (
    "an operator is called without a tensor, by whose device torch chooses its kernel: lists of tensors are empty; let "
    "the public function in ports/*.py return before it calls the operator"
)


def error_of(error: BaseException, files: OpFiles) -> Json:
    """An exception as JSON: the names of its types, its message, the line of the op's Python files that raised it, and
    the engine's findings."""
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind not in (object, BaseException)]
    findings = [finding.to_json() for finding in error.findings] if isinstance(error, KernelFault) else []
    place = "" if isinstance(error, TrifoldError) else raised_at(files, error)  # ours name the file at fault
    message = _WITHOUT_A_TENSOR if _NO_TENSOR in str(error) else str(error)
    return {"kinds": kinds, "message": message, "place": place, "findings": findings}


def either(kernels: list[str]) -> str:
    """Names of kernels, one of which is the right one, in words."""
    return " or ".join(kernels) or "a kernel that is not known"


def first_lines(error: BaseException) -> str:
    """The message of an error of CUDA, without its advice on debugging."""
    return str(error).partition("Search for")[0].partition("CUDA kernel errors might")[0].strip()
