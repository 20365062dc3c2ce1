"""A copy of the gallery with certificates, as `trifold verify` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.wrong.entry import GALLERY, copy_of_gallery
from trifold.verification.certificate import write_certificate
from trifold.verification.report import OpReport, OutcomeName, Report, Row
from trifold.verification.sources import source_hashes
from trifold.workspace import Workspace

ROOT = GALLERY.root


def certify(
    workspace: Workspace, *ops: str, devices: Sequence[str] = ("cpu",), outcome: OutcomeName = "passed"
) -> None:
    """Write the certificates that a run of all checks on ``devices`` would."""
    for op in ops:
        rows = tuple(
            Row("values", implementation, device, outcome, 10)
            for device in devices
            for implementation in ("prototype", "port")
        )
        report = OpReport(op, rows)
        write_certificate(
            workspace,
            report,
            Report("0.1.0", "2.13.0", "cpu", (report,)),
            sources=source_hashes(workspace, workspace.files(op)),
            examples=None,
            seed=None,
        )


def verified_workspace(folder: Path, *ops: str) -> Workspace:
    """A workspace in ``folder`` with these ops of the gallery, verified on the CPU."""
    for op in ops:
        copy_of_gallery(op, folder)
    workspace = Workspace.at(folder)
    certify(workspace, *ops)
    return workspace
