"""The origin of trifold's installation, in the forms that PEP 610 records."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trifold.new import origin as module
from trifold.new.origin import Origin, of_direct_url, origin

GIT = {"vcs": "git", "commit_id": "4cb787d", "requested_revision": "main"}

RECORDED: dict[str, tuple[dict[str, Any], Origin]] = {
    "git": (
        {"url": "https://example.org/trifold.git", "vcs_info": GIT},
        Origin("trifold @ git+https://example.org/trifold.git@4cb787d"),
    ),
    "git over ssh": (
        {"url": "ssh://git@example.org/trifold.git", "vcs_info": GIT},
        Origin("trifold @ git+ssh://git@example.org/trifold.git@4cb787d"),
    ),
    "a folder in a repository": (
        {"url": "https://example.org/all.git", "vcs_info": GIT, "subdirectory": "tools/trifold"},
        Origin("trifold @ git+https://example.org/all.git@4cb787d#subdirectory=tools/trifold"),
    ),
    "a repository of this machine": (
        {"url": "file:///srv/trifold.git", "vcs_info": GIT},
        Origin("trifold @ git+file:///srv/trifold.git@4cb787d", here=True),
    ),
    "a password is not passed on": (
        {"url": "https://me:secret@example.org/trifold.git", "vcs_info": GIT},
        Origin("trifold @ git+https://example.org/trifold.git@4cb787d"),
    ),
    "an archive": (
        {"url": "https://example.org/trifold-0.1.0.tar.gz", "archive_info": {}},
        Origin("trifold @ https://example.org/trifold-0.1.0.tar.gz"),
    ),
    "a wheel of this machine": (
        {"url": "file:///dist/trifold-0.1.0.whl", "archive_info": {}},
        Origin("trifold @ file:///dist/trifold-0.1.0.whl", here=True),
    ),
    "a folder of this machine": (
        {"url": "file:///no/such/my%20clone", "dir_info": {"editable": True}},
        Origin("trifold @ file:///no/such/my%20clone", here=True),
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_what_an_installer_recorded(name: str) -> None:
    direct, expected = RECORDED[name]
    assert of_direct_url(direct) == expected


def test_from_a_package_index_it_is_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = SimpleNamespace(version="0.1.0", read_text=lambda name: None)
    monkeypatch.setattr(module, "distribution", lambda name: installed)
    assert origin() == Origin("trifold==0.1.0")


CLONES = {
    "https://example.org/trifold.git": "git+https://example.org/trifold.git",
    "https://token@example.org/trifold.git": "git+https://example.org/trifold.git",
    "git@example.org:me/trifold.git": "git+ssh://git@example.org/me/trifold.git",
    "ssh://git@example.org:22/trifold.git": "git+ssh://git@example.org:22/trifold.git",
    "/srv/trifold.git": None,  # a repository of this machine too
}


@pytest.mark.parametrize("remote", CLONES)
@pytest.mark.parametrize("below", ["", "tools"])
def test_a_clone_is_named_by_its_repository_and_commit(remote: str, below: str, tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=me", "-c", "user.email=me@example.org")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    git("remote", "add", "origin", remote)
    folder = tmp_path / below
    folder.mkdir(exist_ok=True)
    found = of_direct_url({"url": folder.as_uri(), "dir_info": {"editable": True}})
    if CLONES[remote] is None:
        assert found == Origin(f"trifold @ {folder.as_uri()}", here=True)
        return
    subdirectory = f"#subdirectory={below}" if below else ""
    assert found == Origin(f"trifold @ {CLONES[remote]}@{git('rev-parse', 'HEAD')}{subdirectory}")
