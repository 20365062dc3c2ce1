"""Runs a sample of the checks again before a wheel is built, on calls that no earlier run has drawn."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from trifold.cells import CellName, Device, ImplementationKind
from trifold.errors import GraduationError
from trifold.machine.cells import Machine
from trifold.verification.certificate import Certificate, currency
from trifold.verification.report import OpReport, Row
from trifold.verification.verify import verify
from trifold.verification.watch import InWords
from trifold.workspace import Workspace

# The checks that a wrong kernel fails first; the rest of the matrix would take minutes.
CHECKS = ("values", "gradients", "repeatable", "findings")
EXAMPLES = 20

_DEVICES: tuple[Device, ...] = ("cpu", "cuda")
_IMPLEMENTATIONS: tuple[ImplementationKind, ...] = ("prototype", "port")

Reverified = dict[str, Any]


def reverify(
    workspace: Workspace, certificates: Mapping[str, Certificate], on_step: Callable[[str], None] = lambda text: None
) -> dict[str, Reverified]:
    """Verify a sample of each op with a new seed, on those devices of its certificate that this machine has.

    Args:
        workspace: of the ops.
        certificates: by op; current.
        on_step: called with a short text for each step.

    Returns:
        By op, an addition to its certificate: ``seed``, ``examples``, ``checks``, ``devices`` (none if the machine has
        none of the certificate's) and ``cases``.

    Raises:
        GraduationError: a check fails, or none ran on such a device; the text has the seed and the failing call.
    """
    seed = secrets.randbits(32)
    machine = Machine.here()
    devices = {op: _devices(machine, op, certificate) for op, certificate in certificates.items()}
    cases = dict.fromkeys(certificates, 0)
    for group in dict.fromkeys(devices.values()):
        ops = [op for op in certificates if devices[op] == group]
        if not group:
            continue
        report = verify(
            *ops,
            workspace=workspace,
            checks=CHECKS,
            devices=group,
            examples=EXAMPLES,
            seed=seed,
            watch=InWords(on_step),
        )
        for result in report.ops:
            _require_passed(result, group, seed)
            cases[result.op] = sum(row.cases for row in result.rows)
    for op, certificate in certificates.items():  # the verified sources are those of the certificate
        state = currency(workspace, workspace.files(op), certificate)
        if state != "current":
            raise GraduationError(f"the certificate of {op} is {state}", f"trifold verify {op}")
    return {
        op: {
            "seed": seed,
            "examples": EXAMPLES,
            "checks": list(CHECKS),
            "devices": list(devices[op]),
            "cases": cases[op],
        }
        for op in certificates
    }


def _devices(machine: Machine, op: str, certificate: Certificate) -> tuple[Device, ...]:
    return tuple(
        device
        for device in _DEVICES
        if device in certificate["devices"]
        and not any(machine.lacks(CellName(op, implementation, device)) for implementation in _IMPLEMENTATIONS)
    )


def _require_passed(result: OpReport, devices: tuple[Device, ...], seed: int) -> None:
    again = f"correct it, and run trifold verify {result.op} --seed {seed} --examples {EXAMPLES}"
    for row in result.rows:
        if row.outcome == "failed":
            raise GraduationError(f"{result.op} fails as it is verified anew, with seed {seed}: {_shown(row)}", again)
    for device in devices:
        for implementation in _IMPLEMENTATIONS:
            values = result.row("values", implementation, device)
            if values is None or values.outcome != "passed" or values.cases == 0:
                own = [row for row in result.rows if (row.implementation, row.device) == (implementation, device)]
                reason = next((row.reason for row in own if row.reason), "no case ran")
                raise GraduationError(
                    f"{result.op} cannot be verified anew: {implementation} on {device}: {reason}", again
                )


def _shown(row: Row) -> str:
    """The first failure of a row: the error, its call, and a program that reproduces it."""
    lines = [f"{row.check}, {row.implementation} on {row.device}"]
    for failure in row.failures[:1]:
        lines += [failure.message, failure.sample and f"case: {failure.sample}", failure.code]
    return "\n".join(filter(None, lines))
