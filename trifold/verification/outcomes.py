"""How a check ends where it does not pass: it failed, or it did not run."""

from __future__ import annotations

from enum import StrEnum

from trifold.findings import Finding
from trifold.spec import Call

# What an op raises to refuse a call; IndexError, as torch does for a dimension that does not exist.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)
REFUSALS_NAMED = ", ".join(kind.__name__ for kind in REFUSALS[:-1]) + f" or {REFUSALS[-1].__name__}"

# What it may raise for a call that no user was promised: a prototype that is written for one dtype often asserts it.
MAY_REFUSE = (*REFUSALS, AssertionError)


class CheckFailed(Exception):
    """A check found something wrong.

    Attributes:
        call, sample: the call that shows it, and the call's name if it has one.
        findings: of the execution engine, if these are what is wrong.
    """

    def __init__(
        self, message: str, call: Call | None = None, sample: str = "", findings: tuple[Finding, ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.call = call
        self.sample = sample
        self.findings = findings


class Absence(StrEnum):
    """The reasons for which a row may be absent from a verified op; a row's reason starts with one of them.

    An op cannot add to them.
    """

    NO_GUARD = "the guard allocator is not loaded in the op's process: its library needs Linux and glibc"
    NOT_GUARDED = "torch's CPU allocator does not go through posix_memalign here, so nothing is guarded"
    NO_DEVICE_GUARD = "memory of the GPU cannot be guarded in the op's process"
    NOT_ON_CPU = "the port cannot run on the CPU"
    NO_SANITIZER = "there is no compute-sanitizer on this machine"
    SANITIZER_FAILS = "compute-sanitizer does not work on this machine, not even on a kernel of torch's"
    ONE_GPU = "this machine has one CUDA device"
    SMALL_GPU = "the GPU has too little memory"
    NO_GRADIENT = "no gradient on purpose"
    WAITS = "a call waits for the GPU on purpose"
    OTHER_DTYPE = "the op refuses the dtype in which this row computes, and no call of its spec is in it"
    SAME_KERNELS = "a GPU takes the same kernels"
    NO_BUILD = "Numba compiles a prototype when it is launched: there is no build to add pauses to"
    NOT_CLAIMED = "the spec claims no single rounding of half types (Spec(rounded_once=...))"


class NotRun(Exception):
    """A check does not apply to this cell, or cannot run on this machine."""

    def __init__(self, absence: Absence, detail: str = "") -> None:
        super().__init__(f"{absence}: {detail}" if detail else str(absence))
