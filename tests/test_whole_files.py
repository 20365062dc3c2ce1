"""Files that are replaced at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from trifold.whole_files import write_whole


def test_a_failure_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "half\udc80")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "before"


def test_a_link_is_replaced_and_its_target_kept(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "link"
    target.write_text("of another program")
    path.symlink_to(target)
    write_whole(path, "new")
    assert (path.read_text(), path.is_symlink(), target.read_text()) == ("new", False, "of another program")
