"""The proof of a verification: what was checked, of which sources, with which versions; graduation embeds it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from trifold.verification.job import CellName
from trifold.verification.report import OpReport, Report, Row
from trifold.workspace import OpFiles, Workspace

Certificate = dict[str, Any]

_PACKAGES = ("torch", "numba", "numba-cuda", "numpy", "hypothesis")

# What every certificate has, of which kind, and what each of its rows has.
_FIELDS = {"op": str, "verdict": str, "devices": list, "sources": dict, "rows": list}
_OF_ROW = ("check", "implementation", "device", "outcome", "cases", "reason")


def certificate_path(workspace: Workspace, op: str) -> Path:
    return workspace.root / ".trifold" / "certificates" / f"{op}.json"


def write_certificate(
    workspace: Workspace, files: OpFiles, result: OpReport, report: Report, *, examples: int | None, seed: int | None
) -> Path:
    """Write the certificate of one op, whatever its verdict: a failed one must not leave an old one standing."""
    certificate: Certificate = {
        "op": result.op,
        "verdict": result.verdict,
        "devices": list(result.devices),
        "device": report.device,
        "trifold": report.trifold,
        "versions": _versions(),
        "sources": {
            str(path.relative_to(workspace.root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        },
        "toolkit": toolkit_digest(),
        "examples": examples,
        "seed": seed,
        "cases": sum(row.cases for row in result.rows),
        "rows": [{name: getattr(row, name) for name in _OF_ROW} for row in result.rows],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    path = certificate_path(workspace, result.op)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".json")
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(certificate, stream, indent=2)
        stream.write("\n")
    os.replace(temporary, path)
    return path


def read_certificate(workspace: Workspace, op: str) -> Certificate:
    """The certificate of an op, whatever it says.

    Raises:
        FileNotFoundError: there is none.
        ValueError: its file is no certificate, or is another op's; says which file, and why.
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
    if any(not isinstance(row, dict) or sorted(row) != sorted(_OF_ROW) for row in certificate["rows"]):
        raise ValueError(f"{path} is no certificate: a row has not {', '.join(_OF_ROW)}")
    if certificate["op"] != op:
        raise ValueError(f"{path} is the certificate of {certificate['op']}, not of {op}")
    found: Certificate = certificate
    return found


def currency(workspace: Workspace, files: OpFiles, certificate: Certificate) -> str:
    """``current``, or why the certificate is not of these files and this toolkit."""
    sources = certificate["sources"]
    changed = [
        str(path.relative_to(workspace.root))
        for path in files
        if not path.is_file()
        or sources.get(str(path.relative_to(workspace.root))) != hashlib.sha256(path.read_bytes()).hexdigest()
    ]
    if changed:
        return f"stale: {', '.join(changed)} changed since"
    if certificate.get("toolkit") != toolkit_digest():
        return "stale: trifold's headers changed since"
    return "current"


def certified_rows(
    workspace: Workspace, cell: CellName, device_name: str, *, examples: int | None, seed: int | None
) -> list[Row]:
    """What the op's certificate says of a cell, where that is what a verification here and now would say.

    Args:
        workspace, cell: what was verified.
        device_name: of this machine.
        examples, seed: of the search; None: the default.

    Returns:
        No row where there is no certificate, where it is of other files, versions, devices or searches, or where a
        check of the cell failed.
    """
    try:
        certificate = read_certificate(workspace, cell.op)
    except (FileNotFoundError, ValueError):
        return []
    here = {
        "device": device_name,
        "trifold": version("trifold"),
        "versions": _versions(),
        "examples": examples,
        "seed": seed,
    }
    if any(certificate.get(name) != value for name, value in here.items()):
        return []
    if currency(workspace, workspace.files(cell.op), certificate) != "current":
        return []
    rows = [
        Row(**row)
        for row in certificate["rows"]
        if (row["implementation"], row["device"]) == (cell.implementation, cell.device)
    ]
    return [] if any(row.outcome == "failed" for row in rows) else rows


def toolkit_digest() -> str:
    """SHA-256 of the headers and of the wiring that a port is built from."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted([*(root / "include").rglob("*.*h"), *(root / "port").glob("*.py")]):
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _versions() -> dict[str, str | None]:
    return {name: _version(name) for name in _PACKAGES} | {"python": platform.python_version()}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
