"""The origin of this installation, in the form for ``pip install`` on another machine."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True)
class Origin:
    """An argument of ``pip install``.

    Attributes:
        requirement: ``trifold==0.1.0``, or ``trifold @ URL``.
        here: it names a folder or a file of this machine, which others do not have.
    """

    requirement: str
    here: bool = False


def origin() -> Origin:
    """As recorded by the installer (PEP 610); the version if it came from a package index.

    A folder that is a clone of a git repository is given as the repository and the commit.
    """
    installed = distribution("trifold")
    recorded = installed.read_text("direct_url.json")
    if recorded is None:
        return Origin(f"trifold=={installed.version}")
    return of_direct_url(json.loads(recorded))


def of_direct_url(direct: dict[str, Any]) -> Origin:
    """The origin described by a ``direct_url.json``.

    >>> of_direct_url({"url": "https://example.org/trifold.git", "vcs_info": {"vcs": "git", "commit_id": "4cb787d"}})
    Origin(requirement='trifold @ git+https://example.org/trifold.git@4cb787d', here=False)
    >>> of_direct_url({"url": "file:///dist/trifold-0.1.0.whl", "archive_info": {}})
    Origin(requirement='trifold @ file:///dist/trifold-0.1.0.whl', here=True)
    """
    url = str(direct["url"])
    subdirectory = f"#subdirectory={direct['subdirectory']}" if direct.get("subdirectory") else ""
    if vcs := direct.get("vcs_info"):
        return _of_url(f"{vcs['vcs']}+{url}@{vcs['commit_id']}{subdirectory}")
    if "dir_info" in direct and (cloned := _clone_at(Path(unquote(urlsplit(url).path)))):
        return _of_url(cloned)
    return _of_url(url + subdirectory)


def _of_url(url: str) -> Origin:
    parts = urlsplit(url)
    # Removes this machine's passwords from a file that is committed; ssh needs its user's name.
    if parts.scheme.endswith(("http", "https")):
        url = url.replace(f"//{parts.netloc}", f"//{parts.netloc.rpartition('@')[2]}", 1)
    return Origin(f"trifold @ {url}", parts.scheme.endswith("file"))


def _clone_at(folder: Path) -> str | None:
    """The repository and commit of which this folder is a clone; None if it is not a clone."""
    commit, remote, top = (
        _git(folder, *command)
        for command in (("rev-parse", "HEAD"), ("remote", "get-url", "origin"), ("rev-parse", "--show-toplevel"))
    )
    if commit is None or remote is None or top is None:
        return None
    host, colon, path = remote.partition(":")
    if colon and not path.startswith("//") and "/" not in host:  # git@example.org:owner/name.git
        remote = f"ssh://{host}/{path}"
    if urlsplit(remote).scheme not in ("https", "http", "ssh", "git"):
        return None
    below = folder.resolve().relative_to(Path(top).resolve())
    return f"git+{remote}@{commit}" + (f"#subdirectory={below.as_posix()}" if below.parts else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
