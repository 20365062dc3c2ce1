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

from trifold.verification.report import OpReport, Report
from trifold.workspace import OpFiles, Workspace

_PACKAGES = ("torch", "numba", "numba-cuda", "numpy", "hypothesis")


def certificate_path(workspace: Workspace, op: str) -> Path:
    return workspace.root / ".trifold" / "certificates" / f"{op}.json"


def write_certificate(
    workspace: Workspace, files: OpFiles, result: OpReport, report: Report, *, examples: int | None, seed: int | None
) -> Path:
    """Write the certificate of one op, whatever its verdict: a failed one must not leave an old one standing."""
    certificate: dict[str, Any] = {
        "op": result.op,
        "verdict": result.verdict,
        "devices": list(result.devices),
        "device": report.device,
        "trifold": report.trifold,
        "versions": {name: _version(name) for name in _PACKAGES} | {"python": platform.python_version()},
        "sources": {
            str(path.relative_to(workspace.root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        },
        "toolkit": toolkit_digest(),
        "examples": examples,
        "seed": seed,
        "cases": sum(row.cases for row in result.rows),
        "rows": [
            {
                "check": row.check,
                "implementation": row.implementation,
                "device": row.device,
                "outcome": row.outcome,
                "cases": row.cases,
                "reason": row.reason,
            }
            for row in result.rows
        ],
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


def toolkit_digest() -> str:
    """SHA-256 of the headers and of the wiring that a port is built from."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted([*(root / "include").rglob("*.*h"), *(root / "port").glob("*.py")]):
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
