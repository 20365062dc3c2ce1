"""Where in an op's Python files an exception was raised."""

from __future__ import annotations

import os
import traceback

from trifold.workspace import OpFiles


def raised_at(files: OpFiles, error: BaseException) -> str:
    """The innermost line of the op's Python files, or of a module that they share, at which ``error`` left it.

    For an exception of torch.compile, it is the line that torch.compile could not trace.

    Returns:
        ``file:line``; empty if the exception did not pass through these files.
    """
    folders = {str(path.parent) for path in (files.prototype, files.port, files.spec)}
    left = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    traced = [(frame.filename, frame.lineno) for frame in getattr(error, "real_stack", None) or ()]
    for path, line in reversed([*left, *traced]):
        if os.path.dirname(path) in folders:
            return f"{path}:{line}"
    return ""
