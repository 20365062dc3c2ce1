"""The output folder appears whole, at once, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trifold.errors import GraduationError
from trifold.graduate.staging import new_folder

_HOLD = """
import sys, pathlib
from trifold.graduate.staging import new_folder
with new_folder(pathlib.Path(sys.argv[1])) as stage:
    (stage / "file").write_text("half")
    print("holds", flush=True)
    sys.stdin.readline()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_appears_when_the_block_ends(tmp_path: Path) -> None:
    with new_folder(tmp_path / "out") as stage:
        (stage / "deep").mkdir()
        (stage / "deep" / "file").write_text("whole")
        assert names(tmp_path) == [".out.graduating"]
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "deep" / "file").read_text() == "whole"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_where_the_block_fails(error: type[BaseException], tmp_path: Path) -> None:
    def fail() -> None:
        with new_folder(tmp_path / "out") as stage:
            (stage / "file").write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == []


def test_a_folder_a_file_or_a_broken_link_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("folder", "file", "link"):
        with pytest.raises(GraduationError, match=f"{name} exists already"), new_folder(tmp_path / name):
            pass
    assert names(tmp_path) == ["file", "folder", "link"]


def test_one_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    def overtaken() -> None:
        with new_folder(tmp_path / "out"):
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "theirs").write_text("")

    with pytest.raises(GraduationError, match="exists already"):
        overtaken()
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["theirs"]


def test_its_parent_must_exist(tmp_path: Path) -> None:
    with pytest.raises(GraduationError, match="there is no folder") as raised, new_folder(tmp_path / "a" / "b"):
        pass
    assert raised.value.remedy == f"mkdir -p {tmp_path / 'a'}"


def test_two_at_once_and_what_a_killed_one_leaves(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HOLD, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "holds\n"
        with pytest.raises(GraduationError, match="another graduation is writing"), new_folder(tmp_path / "out"):
            pass
        assert names(tmp_path) == [".out.graduating"]  # of which nothing was removed
        other.kill()
    with new_folder(tmp_path / "out") as stage:
        assert names(stage) == []
    assert names(tmp_path) == ["out"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(GraduationError, match="cannot be written"), new_folder(tmp_path / "out"):
        pass
