"""A workspace of one op, made of the files with its name in a folder of tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from trifold.workspace import OpFiles, Workspace

HERE = Path(__file__).parent


def op_of(name: str, root: Path, folder_of_files: Path = HERE, **generated: str) -> OpFiles:
    """The op ``name``; ``generated`` has the texts of files that are not in the folder, by their suffixes."""
    for suffix, folder in (("cuh", "cuda_src"), ("cu", "cuda_src"), ("py", "ports")):
        (root / folder).mkdir(exist_ok=True)
        made = root / folder / f"{name}.{suffix}"
        if suffix in generated:
            made.write_text(generated[suffix], encoding="utf-8")
        else:
            shutil.copyfile(folder_of_files / made.name, made)
    for folder in ("prototypes", "verify"):
        (root / folder).mkdir()
        (root / folder / f"{name}.py").touch()
    return Workspace.at(root).op(name)
