"""``compile_commands.json`` of a workspace, from which clangd, VS Code and CLion resolve the headers of its C++.

The file contains folders of this machine, so it is generated and not committed. By default the C++ is read as in the
CPU build, which needs no CUDA toolkit and hides no code; for CUDA, as clang compiles CUDA.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trifold.build import recipe, sources, toolchain
from trifold.cells import Device
from trifold.errors import ToolchainError, WorkspaceError
from trifold.whole_files import write_whole
from trifold.workspace import Workspace

NAME = "compile_commands.json"

_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".cpp")
_CUDA = "-xcuda"
_DEFAULT_ARCH = "9.0"


def write(workspace: Workspace, device: Device = "cpu") -> int:
    """Write the file into the workspace; entries for other files, such as CMake's, are kept.

    Args:
        workspace: the one whose C++ to list, with trifold's headers.
        device: ``"cpu"``: with trifold's replacements of CUDA's headers; ``"cuda"``: with the CUDA toolkit's.

    Returns:
        The number of files of the workspace and of trifold that it lists.

    Raises:
        ToolchainError: for CUDA, there is no CUDA toolkit.
        WorkspaceError: the file exists and is not a compilation database, or cannot be written.
    """
    path = workspace.root / NAME
    flags = _flags(workspace, device)
    entries = {
        str(file): {"directory": str(workspace.root), "file": str(file), "arguments": [*flags, str(file)]}
        for file in _files(workspace)
    }
    others = [entry for entry in _read(path) if _file(entry).is_file() and str(_file(entry)) not in entries]
    try:
        # If the file is a link, for example into CMake's build folder, its target is kept.
        write_whole(path, json.dumps([*entries.values(), *others], indent=1) + "\n")
    except OSError as error:
        raise WorkspaceError(f"{path} cannot be written: {error.strerror}", "make the folder writable") from None
    return len(entries)


def refresh(workspace: Workspace) -> None:
    """Write the file again for the same device as before; nothing if there is none of trifold's."""
    mine = [entry for entry in _read(workspace.root / NAME) if workspace.folder("cuda_src") in _file(entry).parents]
    if mine:
        write(workspace, "cuda" if any(_CUDA in entry.get("arguments", ()) for entry in mine) else "cpu")


def _files(workspace: Workspace) -> Iterator[Path]:
    for root in (workspace.folder("cuda_src"), sources.INCLUDE_ROOT):
        yield from sorted(path for path in root.rglob("*") if path.suffix in _SUFFIXES and path.is_file())


def _flags(workspace: Workspace, device: Device) -> list[str]:
    """The compiler, and the options needed to read the C++; options that only affect generated code are omitted."""
    folders = [workspace.folder("cuda_src"), sources.INCLUDE_ROOT]
    definitions = recipe.definitions("trifold_editor", device.upper())
    if device == "cpu":
        compiler = [_gxx(), "-xc++"]
        folders.append(sources.CPU_INCLUDE_ROOT)
    else:
        home, arch = toolchain.find_nvcc().home, _architecture()
        compiler = ["clang++", _CUDA, f"--cuda-path={home}", f"--cuda-gpu-arch=sm_{arch}", "-DUSE_CUDA"]
    system = (f"-isystem{folder}" for folder in _torch_include())
    return [*compiler, "-std=c++20", *definitions, *(f"-I{folder}" for folder in folders), *system]


def _gxx() -> str:
    """Editors ask it for the system's include folders; any g++ will do."""
    try:
        return str(toolchain.find_gxx())
    except ToolchainError:
        return "g++"


def _architecture() -> str:
    """The first of TORCH_CUDA_ARCH_LIST, as a number."""
    listed = os.environ.get("TORCH_CUDA_ARCH_LIST", "").replace(";", " ").replace("+PTX", "").split()
    numbers = [name for name in listed if name[0].isdigit()]
    return (numbers or [_DEFAULT_ARCH])[0].replace(".", "")


def _torch_include() -> list[Path]:
    """torch's headers, found without importing torch, which takes seconds."""
    spec = importlib.util.find_spec("torch")
    return [Path(folder) / "include" for folder in spec.submodule_search_locations or ()] if spec else []


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        entries = None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) and "file" in entry for entry in entries):
        raise WorkspaceError(f"{path} is not a compilation database", "remove it")
    return entries


def _file(entry: dict[str, Any]) -> Path:
    return Path(str(entry.get("directory", "")), str(entry["file"]))
