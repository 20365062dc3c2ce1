"""The compilers and build tools of this machine: their paths and versions, and whether they fit torch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from trifold.errors import ToolchainError

# C++20 as the ports use it (concepts, templated lambdas, std::bit_cast) begins with GCC 11.
OLDEST_GXX = (11,)
NEWEST_GXX_NAME = 16

INSTALL_GXX = "apt-get install g++"
INSTALL_NINJA = "pip install ninja"
INSTALL_CUDA = "install the CUDA toolkit from https://developer.nvidia.com/cuda-downloads, or set CUDA_HOME to it"

Version = tuple[int, ...]


@dataclass(frozen=True)
class Nvcc:
    """nvcc, and the folder of the CUDA toolkit that it belongs to."""

    path: Path
    home: Path


def find_gxx() -> Path:
    """The g++ that builds: ``$CXX``, else ``g++``, else the newest ``g++-N`` on PATH. It is not run.

    Raises:
        ToolchainError: there is none.
    """
    chosen = os.environ.get("CXX", "").strip()
    if chosen:
        found = shutil.which(chosen)
        if found is None:
            raise ToolchainError(f"CXX is '{chosen}', which is not a program on PATH", "unset CXX, or correct it")
        return Path(found).absolute()
    names = ["g++", *(f"g++-{number}" for number in range(NEWEST_GXX_NAME, OLDEST_GXX[0] - 1, -1))]
    for name in names:
        found = shutil.which(name)
        if found is not None:
            return Path(found).absolute()
    raise ToolchainError("there is no C++ compiler: g++ is not on PATH", INSTALL_GXX)


def find_nvcc() -> Nvcc:
    """nvcc of ``$CUDA_HOME`` or ``$CUDA_PATH``, else on PATH, else of /usr/local/cuda. It is not run.

    Raises:
        ToolchainError: there is none, or CUDA_HOME points elsewhere.
    """
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        home = os.environ.get(variable)
        if home:
            nvcc = Path(home).absolute() / "bin" / "nvcc"
            if not nvcc.is_file():
                raise ToolchainError(f"{variable} is {home}, which has no bin/nvcc", f"unset {variable}, or correct it")
            return Nvcc(nvcc, nvcc.parent.parent)
    on_path = shutil.which("nvcc")
    # An nvcc on PATH may be a script or a link outside its toolkit: the headers show which folder is the toolkit.
    candidates = [Path(on_path), Path(on_path).resolve()] if on_path else []
    for nvcc in (*candidates, Path("/usr/local/cuda/bin/nvcc")):
        home_folder = nvcc.parent.parent
        if nvcc.is_file() and (home_folder / "include" / "cuda_runtime.h").is_file():
            return Nvcc(nvcc, home_folder)
    raise ToolchainError("there is no CUDA compiler: nvcc is neither on PATH nor in /usr/local/cuda", INSTALL_CUDA)


def find_ninja() -> Path:
    """ninja on PATH, else in this Python's folder (a virtual environment that is not activated).

    Raises:
        ToolchainError: there is none.
    """
    folders = (sysconfig.get_path("scripts"), str(Path(sys.executable).parent), _user_scripts())
    found = shutil.which("ninja") or shutil.which("ninja", path=os.pathsep.join(folders))
    if found is None:
        raise ToolchainError(
            "there is no build tool: ninja is neither on PATH nor in the folder of this Python", INSTALL_NINJA
        )
    return Path(found).absolute()


def _user_scripts() -> str:
    return sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user"))


def gxx_version(gxx: Path) -> Version:
    """The version of ``gxx``, such as (12, 2, 0).

    Raises:
        ToolchainError: it does not run, or is another compiler than GCC's.
    """
    text = _run_for_version(gxx)
    # "g++ (Debian 12.2.0-14) 12.2.0": the version follows the bracket, which may hold another one
    match = re.search(r"\)\s+(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None or "clang" in text:
        raise ToolchainError(
            f"{gxx} is not g++: it says '{text.partition(chr(10))[0]}'",
            f"set CXX to a g++ {OLDEST_GXX[0]} or newer, or unset it: other compilers are not supported",
        )
    return tuple(int(part) for part in match.groups() if part is not None)


def nvcc_version(nvcc: Path) -> Version:
    """The version of ``nvcc``, such as (13, 0).

    Raises:
        ToolchainError: it does not run, or prints no version.
    """
    text = _run_for_version(nvcc)
    match = re.search(r"release (\d+)\.(\d+)", text)
    if match is None:
        raise ToolchainError(f"{nvcc} does not say its version", INSTALL_CUDA)
    return int(match[1]), int(match[2])


def require_gxx(gxx: Path) -> None:
    """Raise :class:`ToolchainError` if ``gxx`` is too old for C++20."""
    version = gxx_version(gxx)
    if version < OLDEST_GXX:
        raise ToolchainError(
            f"{gxx} is version {dotted(version)}; ports are C++20, which needs g++ {OLDEST_GXX[0]} or newer",
            "apt-get install g++-12 && export CXX=g++-12",
        )


def require_nvcc(nvcc: Path, torch_cuda: str | None) -> None:
    """Raise :class:`ToolchainError` if ``nvcc`` has another major version than the CUDA of torch.

    Args:
        nvcc: the compiler.
        torch_cuda: ``torch.version.cuda``; None (a CPU build) fits every nvcc.
    """
    version = nvcc_version(nvcc)
    if torch_cuda is None or version[0] == int(torch_cuda.partition(".")[0]):
        return
    raise ToolchainError(
        f"{nvcc} is CUDA {dotted(version)}, but torch was built with CUDA {torch_cuda}: the major versions must agree",
        f"set CUDA_HOME to a CUDA {torch_cuda} toolkit, or install torch for CUDA {version[0]}: "
        f"pip install torch --index-url https://download.pytorch.org/whl/cu{version[0]}{version[1]}",
    )


def fingerprint(program: Path) -> str:
    """Identifies a program without running it: its real path, size and modification time."""
    real = program.resolve()
    stat = real.stat()
    return f"{real} {stat.st_size} {stat.st_mtime_ns}"


def dotted(version: Version) -> str:
    return ".".join(map(str, version))


def _run_for_version(program: Path) -> str:
    try:
        done = subprocess.run(
            [str(program), "--version"],
            env=os.environ | {"LC_ALL": "C"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{program} does not run: {error}", "reinstall it, or remove it from PATH") from None
    if done.returncode != 0:
        raise ToolchainError(
            f"{program} --version fails with exit status {done.returncode}", "reinstall it, or remove it from PATH"
        )
    return done.stdout
