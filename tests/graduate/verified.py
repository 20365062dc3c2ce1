"""A copy of the gallery with certificates, as `trifold verify` writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.wrong.entry import GALLERY, copy_of_gallery
from trifold.graduate.reverify import Reverified
from trifold.source_hashes import source_hashes
from trifold.verification.certificate import Certificate, remove_certificate, write_certificate
from trifold.verification.report import OpReport, OutcomeName, Report, Row
from trifold.workspace import Workspace

ROOT = GALLERY.root


def certify(
    workspace: Workspace,
    *ops: str,
    devices: Sequence[str] = ("cpu",),
    outcome: OutcomeName = "passed",
    examples: int | None = None,
) -> None:
    """Write the certificates that a run of all checks on ``devices`` would, in the place of those that there are."""
    for op in ops:
        rows = tuple(
            Row("values", implementation, device, outcome, 10, dtypes=("bfloat16", "float32"))
            for device in devices
            for implementation in ("prototype", "port")
        )
        report = OpReport(op, rows, examples=examples)
        remove_certificate(workspace, op)
        write_certificate(
            workspace,
            report,
            Report("0.1.0", "2.13.0", "cpu", (report,)),
            sources=source_hashes(workspace, workspace.files(op)),
            seed=None,
        )


def verified_workspace(folder: Path, *ops: str) -> Workspace:
    """A workspace in ``folder`` with these ops of the gallery, verified on the CPU."""
    for op in ops:
        copy_of_gallery(op, folder)
    workspace = Workspace.at(folder)
    certify(workspace, *ops)
    return workspace


def share_a_module(workspace: Workspace) -> None:
    """Let the port of ``round_ste`` import its fake from a package of modules beside it."""
    port = workspace.files("round_ste").port
    shared = port.parent / "_shapes"
    shared.mkdir()
    (shared / "__init__.py").write_text('"""Shapes of results."""\n')
    (shared / "dense.py").write_text(
        '"""Dense results."""\n\nfrom trifold.port import elementwise_output\n\nfake = elementwise_output\n'
    )
    text = port.read_text().replace("elementwise_output, wire", "wire\n\nfrom ._shapes.dense import fake")
    port.write_text(text.replace("fake=elementwise_output", "fake=fake"))
    certify(workspace, "round_ste")


def nothing_anew(
    workspace: Workspace, certificates: Mapping[str, Certificate], on_step: Callable[[str], None]
) -> dict[str, Reverified]:
    """In the place of ``reverify``, which takes its time: what it says of a run that passes."""
    one = {"seed": 7, "examples": 20, "checks": ["values"], "devices": ["cpu"], "cases": 40}
    return dict.fromkeys(certificates, one)
