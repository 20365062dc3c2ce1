"""A virtual environment with the running torch and its dependencies, and nothing else."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trifold.errors import GraduationError, ToolchainError
from trifold.graduate.names import distributions

# A package's tests take seconds; on a busy machine minutes.
_LIMIT_S = 1800.0
# Variables that would make trifold importable, or change torch's cache folders.
_LEFT_OUT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_PRELOAD")

_PROBE = """
import ctypes, importlib.util, json, sys
import torch
package = __import__(sys.argv[1])
def implemented(library):
    manifest = ctypes.CDLL(str(library)).trifold_manifest
    manifest.restype = ctypes.c_char_p
    rows = [line.split("\\t") for line in manifest().decode().splitlines()]
    return {name: types for kind, name, types in rows if kind == "implementation"}
print(json.dumps({
    "trifold": importlib.util.find_spec("trifold") is not None,
    "loaded": sorted(name for name in sys.modules if name.partition(".")[0] in ("trifold", "numba")),
    "namespace": package.package.namespace,
    "torch": torch.__version__,
    "declared": {op: {name: schema.types for name, schema in package.package.operators(op).schemas.items()}
                 for op in package.package.ops},
    "implemented": [[op, device, implemented(kernels.path)]
                    for (op, device), kernels in package.package.kernels.items() if kernels.path],
}))
"""


@dataclass(frozen=True)
class Environment:
    """The environment in which a wheel is tested."""

    folder: Path
    python: Path

    def install(self, wheel: Path) -> None:
        """Raises ``GraduationError`` if pip refuses the wheel."""
        pip(["--python", str(self.python), "install", "--no-index", "--no-deps", str(wheel)])

    def probe(self, package: str) -> dict[str, Any]:
        """Import ``package`` and report: ``trifold`` (whether it could be imported), ``namespace``, ``torch``;
        ``declared`` and ``implemented``: the types of each op's operators, in Python and in its libraries.

        Raises:
            GraduationError: it cannot be imported.
        """
        done = self.run("-c", _PROBE, package)
        if done.returncode != 0:
            raise GraduationError(
                f"{package} cannot be imported: {last_line(done.stderr)}", "see the card for what it needs"
            )
        facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return facts

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python with ``arguments``, isolated from the user's folders and variables.

        Raises:
            GraduationError: it does not end in time.
        """
        environment = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
        environment |= {"TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor"), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            return subprocess.run(
                [str(self.python), "-I", *arguments],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            raise GraduationError(
                f"{' '.join(arguments[:2])} in a fresh environment does not end within {_LIMIT_S:g} s",
                "see whether a kernel hangs: trifold verify",
            ) from None


@contextmanager
def fresh_environment() -> Iterator[Environment]:
    """Raises ``ToolchainError`` if the running torch was not installed by pip, so that its files are unknown."""
    with tempfile.TemporaryDirectory(prefix="trifold-fresh-") as name:
        folder = Path(name)
        venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
        paths = sysconfig.get_paths("venv", vars={"base": name, "platbase": name})
        for entry in _entries_of_torch():
            link = Path(paths["purelib"]) / entry.name
            if not link.exists():
                link.symlink_to(entry)
        yield Environment(folder, Path(paths["scripts"]) / "python")


def pip(arguments: list[str]) -> str:
    """Run pip, without a network; return its output.

    Raises:
        ToolchainError: this Python has no pip.
        PipFailed: it fails.
    """
    if importlib.util.find_spec("pip") is None:
        raise ToolchainError("this Python has no pip, which builds and installs the wheel", "python -m ensurepip")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--isolated", "--no-input", "--disable-pip-version-check", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        raise PipFailed(done.stdout)
    return done.stdout


class PipFailed(GraduationError):
    """pip failed; ``log`` is its output."""

    def __init__(self, log: str) -> None:
        super().__init__(last_line(log))
        self.log = log


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was printed"


def _entries_of_torch() -> Iterator[Path]:
    """The files and folders in site-packages of torch and of all that it needs."""
    for name in distributions("torch"):
        distribution = importlib.metadata.distribution(name)
        if distribution.files is None:
            raise ToolchainError(
                f"{name} does not say which files it has, so no fresh environment can be made with it",
                "install torch with pip",
            )
        for top in sorted({file.parts[0] for file in distribution.files}):
            path = Path(str(distribution.locate_file(top)))
            if top not in ("..", "__pycache__") and path.suffix != ".pth" and path.exists():
                yield path
