"""The stage of each op of a workspace: which files it has, and the verdict of its certificate."""

from __future__ import annotations

from dataclasses import dataclass

from trifold.verification.certificate import certificate_path, currency, read_certificate, toolkit_digest
from trifold.verification.examples import fewer
from trifold.workspace import OpFiles, Workspace


@dataclass(frozen=True)
class Stage:
    """One line of ``trifold list``, in words.

    Attributes:
        files: ``complete``, or which are missing.
        verified: the certificate's verdict with its devices, and with its examples if they are fewer than the default;
            ``no`` without one.
        certificate: ``current``, or why it proves nothing.
    """

    op: str
    files: str
    verified: str
    certificate: str


def stages(workspace: Workspace) -> list[Stage]:
    toolkit = toolkit_digest()
    return [_stage(workspace, workspace.files(name), toolkit) for name in workspace.ops()]


def _stage(workspace: Workspace, files: OpFiles, toolkit: str) -> Stage:
    missing = ", ".join(str(path.relative_to(workspace.root)) for path in files.missing)
    shape = f"no {missing}" if missing else "complete"
    try:
        certificate = read_certificate(workspace, files.name)
    except FileNotFoundError:
        return Stage(files.name, shape, "no", "none: run trifold verify")
    except ValueError:
        return Stage(files.name, shape, "no", f"unreadable: {certificate_path(workspace, files.name)}")
    devices = " and ".join(certificate["devices"])
    few = fewer(certificate["examples"])
    verdict = f"{certificate['verdict']}{f' on {devices}' if devices else ''}{f' with {few}' if few else ''}"
    return Stage(files.name, shape, verdict, currency(workspace, files, certificate, toolkit))
