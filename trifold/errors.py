"""Errors for a user's mistakes: a sentence that describes the mistake, and the remedy."""

from __future__ import annotations

import signal


class TrifoldError(Exception):
    """A mistake that the user can correct.

    Args:
        problem: one sentence that names the argument, file or tool at fault.
        remedy: what to do about it, in the imperative; may be a command.

    The command line prints both and no stack trace.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}\n  {remedy}" if remedy else problem)
        self.problem = problem
        self.remedy = remedy


class WorkspaceError(TrifoldError):
    """The workspace, or a file of an op in it, is missing or cannot be read."""


class ToolchainError(TrifoldError):
    """A compiler or a build tool is missing, too old, or does not fit torch."""


class BuildError(TrifoldError):
    """The port's C++ did not compile; the text holds the compiler's errors and the log's path."""


class SchemaError(TrifoldError):
    """The schema in ``ports/<op>.py`` and the C++ functions in ``cuda_src/<op>.cu`` differ."""


class PrototypeError(TrifoldError):
    """The prototype cannot run here: numba is missing, or was imported in the wrong mode."""


class SpecError(TrifoldError):
    """``verify/<op>.py`` lacks something required, or states something invalid."""


class LaunchError(TrifoldError):
    """A kernel cannot be launched: because of its configuration, its arguments, or where it is launched from."""


class ArgumentError(TrifoldError):
    """Arguments of a command that contradict each other."""


class GraduationError(TrifoldError):
    """An op cannot graduate, or a graduated wheel does not match its metadata."""


def of_signal(number: int) -> str:
    """The name of a signal that ended a process; of SIGKILL, with the usual cause.

    >>> of_signal(11)
    'SIGSEGV'
    """
    name = signal.Signals(number).name
    return f"{name}, as when the system has no memory left for it" if number == signal.SIGKILL else name
