"""Decides whether an op's certificate lets it graduate."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from trifold.errors import GraduationError
from trifold.verification.certificate import Certificate, currency, read_certificate
from trifold.verification.examples import fewer
from trifold.workspace import OpFiles, Workspace

EXAMPLES = "examples"  # the waiver for a search with fewer examples than by default

_NOT_ON_CPU = "the port cannot run on the CPU: "


def require_certificate(
    workspace: Workspace, files: OpFiles, contents: Mapping[str, bytes], waived: Collection[str]
) -> Certificate:
    """The certificate of an op that may graduate, with what was waived.

    Args:
        workspace, files: the op.
        contents: its files as they will be shipped, by their paths in the workspace.
        waived: permitted gaps: ``cuda``, ``examples``.

    Raises:
        GraduationError: there is none, or it is another op's, stale, failed, does not cover a device, or had fewer
            examples than by default.
    """
    again = f"trifold verify {files.name}"
    try:
        certificate = read_certificate(workspace, files.name)
    except FileNotFoundError:
        raise GraduationError(f"{files.name} has no certificate", again) from None
    except ValueError as error:
        raise GraduationError(str(error), again) from None
    state = currency(workspace, files, certificate)
    if state != "current":
        raise GraduationError(f"the certificate of {files.name} is {state}", again)
    for path, content in contents.items():
        if certificate["sources"].get(path) != hashlib.sha256(content).hexdigest():
            raise GraduationError(f"the certificate of {files.name} is stale: {path} changed since", again)
    lacking = [device for device in ("cpu", "cuda") if device not in certificate["devices"]]
    reason = not_on_cpu(certificate)
    if reason and "cpu" in lacking:
        lacking.remove("cpu")
    for device in lacking:
        if device not in waived:
            remedy = f"run {again} on a machine with one"
            if device == "cuda":
                remedy += ", or graduate with --allow-unverified cuda, which the certificate and the card will say"
            raise GraduationError(f"{files.name} is not verified on {device}", remedy)
    few = fewer(certificate["examples"])
    if few and EXAMPLES not in waived:
        raise GraduationError(
            f"{files.name} was verified with {few}",
            f"run {again}, or graduate with --allow-unverified {EXAMPLES}, which the certificate and the card will say",
        )
    return certificate | {"waived": [*(device for device in lacking if device in waived), *([EXAMPLES] if few else [])]}


def not_on_cpu(certificate: Certificate) -> str:
    """Why the op's port has no build for the CPU; empty if it has one."""
    reasons = [row["reason"] for row in certificate["rows"] if row["reason"].startswith(_NOT_ON_CPU)]
    return str(reasons[0]).removeprefix(_NOT_ON_CPU) if reasons else ""
