"""``trifold clean``: what it removes, and what it leaves alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import filelock
import pytest
from typer.testing import CliRunner

from trifold.build import cache, cleaning
from trifold.cli import app

DAY_S = 24 * 3600


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty cache."""
    monkeypatch.setenv("TRIFOLD_CACHE_DIR", str(tmp_path / "cache"))
    return cache.builds_folder()


def build(builds: Path, op: str, *, age_days: float = 0.0, size: int = 1000) -> Path:
    """A finished build, asked for so many days ago."""
    folder = builds / f"{op}-cpu-{20 * 'a'}"
    folder.mkdir()
    (folder / "op.so").write_bytes(bytes(size))
    (folder / cache.STAMP).write_text("{}")
    (builds / f"{folder.name}.lock").touch()
    (builds / f"{folder.name}.log").write_text("g++ said no")
    then = time.time() - age_days * DAY_S
    for path in (folder / cache.STAMP, folder, builds / f"{folder.name}.log"):
        os.utime(path, (then, then))
    return folder


def left(builds: Path) -> list[str]:
    return sorted(path.name for path in builds.iterdir() if path.suffix != ".lock")


def test_everything_goes_and_its_size_is_told(builds: Path) -> None:
    build(builds, "add", size=3_000_000)
    (builds / f"mul-checked-{20 * 'b'}.partial-x1").mkdir()
    done = cleaning.clean()
    assert left(builds) == []
    assert len(done.removed) == 2
    assert done.size >= 3_000_000


def test_a_build_under_way_stays(builds: Path) -> None:
    held, other = build(builds, "add"), build(builds, "mul")
    with filelock.FileLock(builds / f"{held.name}.lock"):
        done = cleaning.clean()
    assert (done.held, done.removed) == ([held.name], [other.name])
    assert left(builds) == [held.name, f"{held.name}.log"]


def test_locks_stay_since_another_process_may_wait_for_one(builds: Path) -> None:
    folder = build(builds, "add")
    cleaning.clean()
    assert (builds / f"{folder.name}.lock").exists()
    assert cleaning.clean().removed == []


def test_only_what_nobody_has_asked_for(builds: Path) -> None:
    old, new = build(builds, "add", age_days=8), build(builds, "mul", age_days=6)
    done = cleaning.clean(older_than_days=7)
    assert done.removed == [old.name]
    assert new.exists()


def test_what_a_killed_build_left_goes_at_any_age(builds: Path) -> None:
    whole = build(builds, "add")
    attempt = builds / f"{whole.name}.partial-x1"
    attempt.mkdir()
    cleaning.clean(older_than_days=30)
    assert whole.exists()
    assert not attempt.exists()


def test_a_dry_run_removes_nothing(builds: Path) -> None:
    folder = build(builds, "add")
    assert cleaning.clean(dry_run=True).removed == [folder.name]
    assert (folder / "op.so").exists()


def test_nothing_outside_the_cache_is_touched(builds: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").touch()
    (builds / f"add-cpu-{20 * 'c'}").symlink_to(mine)
    inside = build(builds, "mul")
    (inside / "link").symlink_to(mine)
    (builds / "notes.txt").touch()
    (builds.parent / "else").touch()
    cleaning.clean()
    assert (mine / "thesis.tex").exists()
    assert (builds / "notes.txt").exists()
    assert (builds.parent / "else").exists()
    assert not inside.exists()


def test_the_command(builds: Path) -> None:
    folder = build(builds, "add", size=2 * 2**20)
    dry = CliRunner().invoke(app, ["clean", "--dry-run"])
    assert dry.output.startswith(f"{folder.name}\n1 build would be removed")
    assert "2.0 MiB" in dry.output
    assert CliRunner().invoke(app, ["clean", "--older-than", "1"]).output.startswith("0 builds removed")
    done = CliRunner().invoke(app, ["clean"])
    assert (done.exit_code, done.output.startswith("1 build removed")) == (0, True)
    assert CliRunner().invoke(app, ["clean", "--older-than", "-1"]).exit_code == 2


def test_without_a_cache_there_is_nothing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIFOLD_CACHE_DIR", str(tmp_path / "none"))
    assert cleaning.clean().removed == []
    assert not (tmp_path / "none").exists()
