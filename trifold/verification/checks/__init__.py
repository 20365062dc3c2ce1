"""The checks of the matrix, in the order in which they run and are shown.

Bounds come first: a kernel that writes where it must not can break anything that runs after it in the process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trifold.verification.cell import Cell
from trifold.verification.checks import (
    contract,
    findings,
    gpu,
    gpu_paths,
    gradcheck,
    gradients,
    jitter,
    memory,
    origin,
    registration,
    rounding,
    sensitivity,
    values,
)


@dataclass(frozen=True)
class Check:
    """One row of the matrix.

    Attributes:
        run: raises ``CheckFailed`` or ``NotRun``; may return a remark, shown beside the outcome.
        finds: the mistakes that it finds, for the documentation.
        devices: where it applies.
        after: checks whose results it uses; they run first, even if they were not requested.
        own_build: it builds a port for itself.
        form: the form of the port that it builds; made while earlier checks run. None: it is built when it is needed.
    """

    name: str
    run: Callable[[Cell], str | None]
    finds: str
    devices: tuple[str, ...] = ("cpu", "cuda")
    after: tuple[str, ...] = ()
    own_build: bool = False
    form: str | None = None


_VALUES = ("values",)
_CASES = ("values", "gradients")

CHECKS: tuple[Check, ...] = (
    Check("bounds", memory.bounds, "accesses outside the arguments, outputs that are not written"),
    Check("values", values.values, "wrong results, shapes, dtypes or strides; arguments that are changed"),
    Check("sensitivity", sensitivity.sensitivity, "cases and tolerances that impostors would pass", after=_VALUES),
    Check("rounding", rounding.rounding, "half types that are truncated, rounded twice or by a detour"),
    Check("gradients", gradients.gradients, "wrong gradients in any dtype and layout"),
    Check("gradcheck", gradcheck.gradcheck_float64, "a gradient that is not the derivative (float64)"),
    Check("gradcheck32", gradcheck.gradcheck_float32, "a gradient that is not the derivative (float32)"),
    Check("gradgradcheck", gradcheck.gradgradcheck, "second derivatives that are silently wrong"),
    Check("opcheck", registration.opcheck, "a schema, fake or autograd registration that does not hold"),
    Check("fake", registration.fake, "a fake whose shape, dtype or strides are not the real ones", after=_VALUES),
    Check("compile", registration.compiles, "graph breaks, results that change under torch.compile"),
    Check("errors", contract.errors, "bad arguments that pass, crash, or raise without naming the argument"),
    Check("repeatable", contract.repeatable, "results that change from call to call"),
    Check(
        "findings",
        findings.findings,
        "races, uninitialised reads, divergent barriers, deadlocks; results that change with the schedule",
        own_build=True,
    ),
    Check(
        "written",
        origin.written,
        "results that torch computed, and no kernel of the op",
        ("cpu",),
        own_build=True,
    ),
    Check(
        "gpu paths",
        gpu_paths.gpu_paths,
        "all of these in the kernels that only a GPU uses; such kernels that no case reaches",
        ("cpu",),
    ),
    Check("branches", contract.branches, "kernels that no case reaches", after=_CASES),
    Check("stream", gpu.stream, "work in another stream than torch's current one", ("cuda",)),
    Check("no sync", gpu.no_synchronisation, "a call that waits for the device", ("cuda",)),
    Check("graph", gpu.graph, "calls that a CUDA graph cannot capture, or that replay stale inputs", ("cuda",)),
    Check(
        "jitter",
        jitter.jitter,
        "races that a GPU's own timing hides: results that change where threads pause",
        ("cuda",),
        form=jitter.FORM,
    ),
    Check("second device", gpu.second_device, "work on the current device instead of the tensors'", ("cuda",)),
)
