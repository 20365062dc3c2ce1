"""The record of a verification: what was checked, for which sources, with which versions. Graduation embeds it.

Its hashes show whether files have changed since. They do not show who wrote it: whoever does not trust its author
verifies again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trifold.cells import CellName
from trifold.machine.packages import installed_version
from trifold.source_hashes import changed_sources, source_hashes
from trifold.verification.examples import default_examples, share
from trifold.verification.report import OpReport, Report, Row, row_from_json
from trifold.whole_files import write_whole
from trifold.workspace import OpFiles, Workspace

Certificate = dict[str, Any]

_PACKAGES = ("torch", "numba", "numba-cuda", "numpy", "hypothesis")

# The keys of every certificate and of each of its rows, with their types.
_FIELDS = {"op": str, "verdict": str, "devices": list, "sources": dict, "examples": dict, "rows": list}
_OF_ROW = ("check", "implementation", "device", "outcome", "cases", "reason", "dtypes", "accepted")


def certificate_path(workspace: Workspace, op: str) -> Path:
    return workspace.root / ".trifold" / "certificates" / f"{op}.json"


def write_certificate(
    workspace: Workspace,
    result: OpReport,
    report: Report,
    *,
    sources: Mapping[str, str],
    toolkit: str | None = None,
    seed: int | None,
) -> bool:
    """Write the certificate of one op, whatever its verdict: a failed one must not leave an old one standing.

    One with fewer examples than the default does not replace a fuller one of the same sources and the same trifold,
    unless the op has failed.

    Args:
        workspace, result, report: what was verified, and what came out.
        sources: :func:`~trifold.source_hashes.source_hashes` of the op from before the run. Where they were
            others after it, there is no certificate: see :func:`remove_certificate`.
        toolkit: :func:`toolkit_digest` from before the run; default: that of now.
        seed: of the search; None: the default.

    Returns:
        Whether it was written; else a fuller one has been kept.
    """
    toolkit = toolkit_digest() if toolkit is None else toolkit
    if result.verdict != "failed" and _is_less(result, _of_same(workspace, result.op, sources, toolkit)):
        return False
    certificate: Certificate = {
        "op": result.op,
        "verdict": result.verdict,
        "devices": list(result.devices),
        "device": report.device,
        "trifold": report.trifold,
        "versions": _versions(),
        "sources": dict(sources),
        "toolkit": toolkit,
        "examples": dict(result.drawn),
        "seed": seed,
        "cases": sum(row.cases for row in result.rows),
        "rows": [{name: getattr(row, name) for name in _OF_ROW} for row in result.rows],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    path = certificate_path(workspace, result.op)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(certificate, indent=2) + "\n")
    return True


def _of_same(workspace: Workspace, op: str, sources: Mapping[str, str], toolkit: str) -> Certificate | None:
    """The op's certificate, if there is one for these sources and this trifold."""
    try:
        certificate = read_certificate(workspace, op)
    except (FileNotFoundError, ValueError):
        return None
    same = certificate["sources"] == dict(sources) and certificate.get("toolkit") == toolkit
    return certificate if same else None


def _is_less(result: OpReport, before: Certificate | None) -> bool:
    """Whether a result shows less than a certificate: fewer examples, and no further implementation."""
    if before is None or (before["verdict"] == "incomplete" and result.verdict == "verified"):
        return False
    return share(result.drawn) < share(before["examples"])


def remove_certificate(workspace: Workspace, op: str) -> None:
    """Delete an op's certificate, because the run cannot say which files its verdict is about."""
    certificate_path(workspace, op).unlink(missing_ok=True)


def read_certificate(workspace: Workspace, op: str) -> Certificate:
    """The certificate of an op, whatever its verdict.

    Raises:
        FileNotFoundError: there is none.
        ValueError: the file is not a certificate, or is another op's; the message names the file and the reason.
    """
    path = certificate_path(workspace, op)
    text = path.read_bytes()
    try:
        certificate = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is no certificate: {error}") from None
    for name, kind in _FIELDS.items():
        if not isinstance(certificate, dict) or not isinstance(certificate.get(name), kind):
            raise ValueError(f"{path} is no certificate: its '{name}' is missing, or no {kind.__name__}")
    if not all(isinstance(device, str) for device in certificate["devices"]):
        raise ValueError(f"{path} is no certificate: a device is no str")
    if not all(type(number) is int for number in certificate["examples"].values()):
        raise ValueError(f"{path} is no certificate: a number of examples is no int")
    if any(not isinstance(row, dict) or sorted(row) != sorted(_OF_ROW) for row in certificate["rows"]):
        raise ValueError(f"{path} is no certificate: a row has not {', '.join(_OF_ROW)}")
    for name in ("dtypes", "accepted"):
        if not all(isinstance(row[name], list) for row in certificate["rows"]):
            raise ValueError(f"{path} is no certificate: {name} of a row is no list")
    if certificate["op"] != op:
        raise ValueError(f"{path} is the certificate of {certificate['op']}, not of {op}")
    found: Certificate = certificate
    return found


def currency(workspace: Workspace, files: OpFiles, certificate: Certificate, toolkit: str | None = None) -> str:
    """``current``, or why the certificate proves nothing of these files with this toolkit.

    Args:
        workspace, files: the op, whose sources are looked for and hashed anew.
        certificate: of the op.
        toolkit: :func:`toolkit_digest`, where the caller has it.
    """
    changed = changed_sources(certificate["sources"], source_hashes(workspace, files))
    if changed:
        return f"stale: {', '.join(changed)} changed since"
    if certificate.get("toolkit") != (toolkit_digest() if toolkit is None else toolkit):
        return "stale: trifold itself changed since"
    if certificate["verdict"] != "verified":
        return f"no proof: it says '{certificate['verdict']}'"
    return "current"


def certified_rows(
    workspace: Workspace, cell: CellName, device_name: str, *, examples: int | None, seed: int | None
) -> list[Row]:
    """What the op's certificate says about a cell, if a verification here and now would give the same.

    Args:
        workspace, cell: what was verified.
        device_name: of this machine.
        examples, seed: of the search; None: the default.

    Returns:
        The cell's rows; none if there is no certificate, if it is for other files, versions, devices or searches, or if
            the op is not verified.
    """
    try:
        certificate = read_certificate(workspace, cell.op)
    except (FileNotFoundError, ValueError):
        return []
    here = {
        "device": device_name,
        "trifold": version("trifold"),
        "versions": _versions(),
        "seed": seed,
    }
    if any(certificate.get(name) != value for name, value in here.items()):
        return []
    name = f"{cell.implementation} {cell.device}"
    if certificate["examples"].get(name) != (default_examples(name) if examples is None else examples):
        return []
    if currency(workspace, workspace.files(cell.op), certificate) != "current":
        return []
    rows = [row_from_json(row | {"failures": []}) for row in certificate["rows"]]
    if any(row.outcome == "failed" for row in rows):
        return []
    return [row for row in rows if (row.implementation, row.device) == (cell.implementation, cell.device)]


# Files that no verdict depends on: other commands, and what displays a verdict.
_APART = frozenset(
    {
        *("bench", "graduate", "new", "sanitize"),
        *("cli.py", "pytest_plugin.py", "record_sources.py"),
    }
)
_COMPILED = (".pyc", ".so")


def toolkit_digest() -> str:
    """SHA-256 of all files of trifold that a verdict depends on.

    These are the headers and the wiring that a port is built from, and everything that judges it: checks, specs and
    tolerances (``verification``, ``spec``), simulator, device emulation and the engine's sources. Only the commands
    that use a verdict are left out, and compiled files, which are built from the sources at installation.
    """
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in _toolkit_files(root):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _toolkit_files(root: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(root):
        apart = _APART if Path(parent) == root else frozenset()
        folders[:] = sorted(name for name in folders if name not in apart and name != "__pycache__" and name[0] != ".")
        names = sorted(name for name in names if name not in apart and name[0] != "." and not name.endswith(_COMPILED))
        yield from (Path(parent, name) for name in names)


def _versions() -> dict[str, str | None]:
    return {name: installed_version(name) for name in _PACKAGES} | {"python": platform.python_version()}
