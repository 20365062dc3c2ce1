"""Writes the wheel (the binary distribution format, with RECORD) and the archive of the sources.

Both are the same bytes for the same content: times and owners are fixed.
"""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

# The earliest time that ZIP supports.
_TIME = (1980, 1, 1, 0, 0, 0)
_GENERATOR = "trifold-graduate"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def metadata(fields: Mapping[str, str | tuple[str, ...]], description: str) -> bytes:
    """The text of METADATA or PKG-INFO (core metadata)."""
    lines = ["Metadata-Version: 2.1"]
    for name, value in fields.items():
        lines += [f"{name}: {one}" for one in ((value,) if isinstance(value, str) else value)]
    return ("\n".join([*lines, "Description-Content-Type: text/markdown"]) + f"\n\n{description}").encode()


def write_wheel(folder: Path, name: str, version: str, platform: str, core: bytes, files: Mapping[str, bytes]) -> Path:
    """``<name>-<version>-py3-none-<platform>.whl`` in ``folder``, with ``files`` and its .dist-info."""
    tag = f"py3-none-{platform}"
    info = f"{name}-{version}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: {_GENERATOR}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    content = {**files, f"{info}/METADATA": core, f"{info}/WHEEL": wheel.encode()}
    content[f"{info}/RECORD"] = _record(content, f"{info}/RECORD")
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in content.items():
            entry = zipfile.ZipInfo(file, _TIME)
            entry.external_attr = (0o100755 if file.endswith(".so") else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return path


def record_hash(content: bytes) -> str:
    """In RECORD's format: ``sha256=`` and URL-safe base 64 without padding."""
    digest = hashlib.sha256(content).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _record(content: Mapping[str, bytes], own: str) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerows([file, record_hash(data), len(data)] for file, data in content.items())
    rows.writerow([own, "", ""])
    return text.getvalue().encode()


def write_sdist(folder: Path, name: str, version: str, core: bytes, root: Path) -> Path:
    """``<name>-<version>.tar.gz`` in ``folder``, with all files of ``root`` but ``dist``."""
    top = f"{name}-{version}"
    path = folder / f"{top}.tar.gz"
    with (
        path.open("wb") as stream,
        gzip.GzipFile("", "wb", 9, stream, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        _add(archive, f"{top}/PKG-INFO", core)
        for file in source_files(root):
            _add(archive, f"{top}/{file.relative_to(root)}", file.read_bytes())
    return path


def source_files(root: Path) -> list[Path]:
    """The files of the source package, sorted."""
    left_out = {"dist", "__pycache__", "PKG-INFO"}
    return sorted(
        path for path in root.rglob("*") if path.is_file() and not left_out & set(path.relative_to(root).parts)
    )


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    archive.addfile(entry, io.BytesIO(content))
