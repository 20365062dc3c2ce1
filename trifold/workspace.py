"""A workspace is a folder with four folders in it; an op is five files of one name in them.

    prototypes/<op>.py    reference and Numba kernels
    cuda_src/<op>.cuh     C++ kernels
    cuda_src/<op>.cu      their binding to torch
    ports/<op>.py         the operator: schema, fake, autograd, public function
    verify/<op>.py        what the op must satisfy

Files shared by several ops are in the same folders: headers in ``cuda_src/``, and in each of the other folders Python
modules whose names begin with an underscore, which a file of that folder imports by ``from ._name import ...``.

``[tool.trifold]`` in the workspace's pyproject.toml may rename the folders, and name a file of ``suppressions``
(:mod:`trifold.acceptance`).
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.abc import SourceLoader
from pathlib import Path
from types import CodeType, ModuleType

from trifold.acceptance import SETTING
from trifold.errors import WorkspaceError
from trifold.python_imports import shared_modules

FOLDERS = {
    "prototypes": "prototypes",
    "cuda_src": "cuda_src",
    "ports": "ports",
    "verify": "verify",
}


@dataclass(frozen=True)
class OpFiles:
    """The five files of one op. ``missing`` names those that do not exist."""

    name: str
    prototype: Path
    header: Path
    binding: Path
    port: Path
    spec: Path

    def __iter__(self) -> Iterator[Path]:
        return iter((self.prototype, self.header, self.binding, self.port, self.spec))

    @property
    def missing(self) -> tuple[Path, ...]:
        return tuple(path for path in self if not path.is_file())

    def require(self, *paths: Path) -> None:
        """Raise :class:`WorkspaceError` if one of ``paths`` (all five when none is given) is missing."""
        absent = [path for path in (paths or tuple(self)) if not path.is_file()]
        if absent:
            names = ", ".join(str(path) for path in absent)
            raise WorkspaceError(
                f"the op '{self.name}' has no {names}",
                "an op is five files of the same name; create what is missing, or correct a file's name",
            )

    @property
    def digest(self) -> str:
        """SHA-256 of the five files, in order, and of the Python modules that they share; a missing file counts as
        empty."""
        contents = [(path, path.read_bytes() if path.is_file() else b"") for path in self]
        for path in (self.prototype, self.port, self.spec):
            contents += shared_modules(path).items()
        digest = hashlib.sha256()
        for path, content in contents:
            digest.update(f"{path.name}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()


@dataclass(frozen=True)
class Workspace:
    """The folder ``root`` and the names of its four folders (keys of :data:`FOLDERS`)."""

    root: Path
    folders: dict[str, str] = field(default_factory=lambda: dict(FOLDERS))

    @classmethod
    def at(cls, root: Path | str) -> Workspace:
        """The workspace in ``root`` itself.

        Raises:
            WorkspaceError: ``root`` has none, or its pyproject.toml cannot be read.
        """
        root = Path(root).expanduser().resolve()
        workspace = cls(root, _folder_names(root))
        absent = [name for name in workspace.folders.values() if not (root / name).is_dir()]
        if absent:
            raise WorkspaceError(
                f"{root} is not a trifold workspace: it has no folder {', '.join(absent)}",
                "go to a folder that has prototypes/, cuda_src/, ports/ and verify/, or name one with "
                "--workspace PATH; [tool.trifold] in its pyproject.toml may rename them",
            )
        return workspace

    @classmethod
    def find(cls, start: Path | str | None = None) -> Workspace:
        """The workspace in ``start`` (default: the current folder) or in its nearest parent that has one."""
        origin = Path(start or Path.cwd()).expanduser().resolve()
        for folder in (origin, *origin.parents):
            if all((folder / name).is_dir() for name in _folder_names(folder).values()):
                return cls.at(folder)
        raise WorkspaceError(
            f"{origin} is not in a trifold workspace",
            "go to a folder that has prototypes/, cuda_src/, ports/ and verify/, or name one with --workspace PATH",
        )

    def folder(self, name: str) -> Path:
        return self.root / self.folders[name]

    def files(self, op: str) -> OpFiles:
        """The paths of the files of ``op``, whether or not they exist."""
        sources = self.folder("cuda_src")
        return OpFiles(
            name=op,
            prototype=self.folder("prototypes") / f"{op}.py",
            header=sources / f"{op}.cuh",
            binding=sources / f"{op}.cu",
            port=self.folder("ports") / f"{op}.py",
            spec=self.folder("verify") / f"{op}.py",
        )

    def ops(self) -> tuple[str, ...]:
        """The names of all ops, complete or not, sorted. Files with a leading underscore are not ops."""
        patterns = {"prototypes": "*.py", "cuda_src": "*.cu", "ports": "*.py", "verify": "*.py"}
        stems = {path.stem for name, pattern in patterns.items() for path in self.folder(name).glob(pattern)}
        return tuple(sorted(stem for stem in stems if stem.isidentifier() and not stem.startswith("_")))

    def op(self, name: str) -> OpFiles:
        """The files of the op ``name``, all of which exist.

        Raises:
            WorkspaceError: there is no such op (the nearest name is suggested), or a file of it is missing.
        """
        names = self.ops()
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'? " if near else ""
            listing = ", ".join(names) if names else "none"
            raise WorkspaceError(f"there is no op '{name}' in {self.root}", f"{hint}its ops are: {listing}")
        files = self.files(name)
        files.require()
        return files

    def select(self, names: Iterable[str]) -> tuple[OpFiles, ...]:
        """The files of the ops ``names``, or of all ops if none is named."""
        chosen = tuple(dict.fromkeys(names)) or self.ops()
        if not chosen:
            raise WorkspaceError(f"the workspace {self.root} has no op yet", "add the five files of one")
        return tuple(self.op(name) for name in chosen)


def _folder_names(root: Path) -> dict[str, str]:
    path = root / "pyproject.toml"
    if not path.is_file():
        return dict(FOLDERS)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("trifold", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WorkspaceError(f"{path} cannot be read: {error}", "correct it") from None
    settings = (*FOLDERS, SETTING)
    unknown = sorted(set(table) - set(settings))
    if unknown:
        raise WorkspaceError(
            f"{path}: [tool.trifold] has no setting {', '.join(unknown)}", f"its settings are {', '.join(settings)}"
        )
    table.pop(SETTING, None)
    wrong = sorted(key for key, value in table.items() if not isinstance(value, str) or not value)
    if wrong:
        raise WorkspaceError(f"{path}: {', '.join(wrong)} in [tool.trifold] must be a folder's name", "write a string")
    return FOLDERS | {str(key): str(value) for key, value in table.items()}


def import_file(path: Path, name: str, code: Callable[[Path], CodeType] | None = None) -> ModuleType:
    """Execute the Python file ``path`` as a fresh module ``name``; an older module of that name is replaced.

    A relative import of the file, ``from ._name import ...``, is one of a file in its own folder. Such a module is
    executed once for all files of the folder, and again after it has changed.

    Args:
        path, name: of the file, and of the module.
        code: compiles the file; default: as Python does.

    Raises:
        WorkspaceError: the file does not exist.
        Exception: whatever the file itself raises.
    """
    if not path.is_file():
        raise WorkspaceError(f"{path} does not exist", "create it, or correct its name")
    # As for a file that Python runs as __main__, the name of its spec determines its package.
    spec = importlib.util.spec_from_file_location(f"{_package_for(path)}.{path.stem}", path)
    assert spec is not None and isinstance(spec.loader, SourceLoader)
    module = importlib.util.module_from_spec(spec)
    module.__name__ = name
    sys.modules[name] = module
    try:
        executed = spec.loader.get_code(spec.name) if code is None else code(path)
        assert executed is not None
        exec(executed, module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


_executed: dict[str, dict[Path, bytes]] = {}


def _package_for(path: Path) -> str:
    """The name of the package whose modules are the files in the folder of ``path``; those that have changed since they
    were executed are forgotten, with all that may have imported from them."""
    folder = os.path.abspath(path.parent)
    readable = re.sub(r"\W", "_", path.parent.name)
    name = f"trifold_{readable}_{hashlib.sha256(folder.encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        package = sys.modules[name] = ModuleType(name, f"The shared modules of {folder}.")
        package.__path__ = [folder]
    contents, before = shared_modules(path), _executed.setdefault(name, {})
    if any(before.get(file, content) != content for file, content in contents.items()):
        for module in [other for other in sys.modules if other.startswith(f"{name}.")]:
            del sys.modules[module]
        before.clear()
    if not contents.keys() <= before.keys():
        importlib.invalidate_caches()  # a file may be newer than Python's listing of the folder
    before |= contents
    return name
