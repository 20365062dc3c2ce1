"""All files are written, or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trifold.errors import WorkspaceError
from trifold.new.write import write_all


def everything(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_files_and_their_folders_are_made(tmp_path: Path) -> None:
    write_all({tmp_path / "a" / "b" / "c.py": "c", tmp_path / "d.py": "d"}, force=False)
    assert everything(tmp_path) == {"a/b/c.py": "c", "d.py": "d"}


def test_a_file_that_exists_stays_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "d.py").write_text("mine")
    with pytest.raises(WorkspaceError, match=r"d\.py exists already; nothing was written"):
        write_all({tmp_path / "a" / "c.py": "c", tmp_path / "d.py": "d"}, force=False)
    assert everything(tmp_path) == {"d.py": "mine"}
    assert not (tmp_path / "a").exists()


def test_a_link_that_leads_nowhere_is_there_too(tmp_path: Path) -> None:
    (tmp_path / "d.py").symlink_to(tmp_path / "nowhere")
    with pytest.raises(WorkspaceError, match="exists already"):
        write_all({tmp_path / "d.py": "d"}, force=False)


def test_force_replaces(tmp_path: Path) -> None:
    (tmp_path / "d.py").write_text("mine")
    write_all({tmp_path / "d.py": "d"}, force=True)
    assert everything(tmp_path) == {"d.py": "d"}


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_in_a_file_s_place(tmp_path: Path, force: bool) -> None:
    (tmp_path / "d.py").mkdir()
    with pytest.raises(WorkspaceError, match="is a folder"):
        write_all({tmp_path / "c.py": "c", tmp_path / "d.py": "d"}, force=force)
    assert everything(tmp_path) == {}


@pytest.mark.parametrize("fails_at", [0, 1, 2, 3])
@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_where_a_step_fails_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, fails_at: int
) -> None:
    """A full disk, say, at any of the steps."""
    original = getattr(Path, step)
    calls: list[Path] = []

    def failing(self: Path, *args: Any, **kwargs: Any) -> Any:
        calls.append(self)
        if len(calls) == fails_at + 1:
            raise OSError(28, "No space left on device", str(self))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Path, step, failing)
    texts = {tmp_path / "new" / folder / "op.py": folder for folder in ("a", "b", "c", "d")}
    with pytest.raises(WorkspaceError, match="No space left on device; nothing was written"):
        write_all(texts, force=False)
    assert list(tmp_path.iterdir()) == []


def test_where_a_replacement_fails_the_old_files_are_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {tmp_path / name: "new" for name in ("a.py", "b.py")}
    for path in texts:
        path.write_text("old")
    original = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if target == tmp_path / "b.py" and ".new-" in self.name:
            raise OSError(28, "No space left on device", str(self))
        return original(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(WorkspaceError):
        write_all(texts, force=True)
    assert everything(tmp_path) == {"a.py": "old", "b.py": "old"}


def test_a_file_in_a_folder_s_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(WorkspaceError, match="cannot be written"):
        write_all({tmp_path / "c.py": "c", tmp_path / "a" / "d.py": "d"}, force=False)
    assert everything(tmp_path) == {"a": "a file"}
