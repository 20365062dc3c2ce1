"""What a library may ask of the machine that loads it: torch's stable ABI, CUDA's runtime, the C and C++ libraries."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from trifold.graduate.backend.elf import SharedLibrary

# The C functions that torch 2.11 exports for libraries of other versions.
FLOOR = "2.11"
_SHIMS = frozenset(Path(__file__).with_name("stable_abi_2_11.txt").read_text(encoding="utf-8").split())
_SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux-x86-64)\.so\.\d+")
_CUDA = re.compile(r"libcudart\.so\.(\d+)")
# A distribution with this glibc has a libstdc++ up to this version (auditwheel's policies for manylinux).
_LIBSTDCXX = ((28, 24), (31, 28), (34, 29), (35, 30), (38, 32), (39, 33))
_OLDEST_GLIBC = 28
ENGINE_PREFIX = "libkernel_engine_"


@dataclass(frozen=True)
class Needs:
    """The oldest machine that loads it.

    Attributes:
        glibc: its minor version: 34 for 2.34.
        libstdcxx: the last part of GLIBCXX_3.4.N.
        cuda: the major version of CUDA's runtime; None without it.
        shims: how many functions of torch it calls.
    """

    glibc: int
    libstdcxx: int
    cuda: int | None
    shims: int

    @property
    def platform(self) -> str:
        """The wheel's platform tag (PEP 600), which pip compares with the machine's glibc."""
        by_libstdcxx = next((glibc for glibc, last in _LIBSTDCXX if self.libstdcxx <= last), 40)
        return f"manylinux_2_{max(self.glibc, by_libstdcxx, _OLDEST_GLIBC)}_x86_64"


def engine_name(digest: str) -> str:
    """The file name of the library that runs kernels on the CPU."""
    return f"{ENGINE_PREFIX}{digest}.so"


def needs(library: SharedLibrary, beside: Collection[str] = ()) -> tuple[Needs, tuple[str, ...]]:
    """What ``library`` needs, and which of its symbols nothing that it may rely on has.

    ``beside`` are the symbols of the libraries that lie in the same folder.
    """
    glibc = libstdcxx = shims = 0
    cuda: int | None = None
    foreign = []
    for symbol in library.undefined:
        runtime = _CUDA.fullmatch(symbol.library)
        if runtime:
            cuda = int(runtime[1])
        elif symbol.version and _SYSTEM.fullmatch(symbol.library):
            glibc = max(glibc, _last(symbol.version, "GLIBC_2."))
            libstdcxx = max(libstdcxx, _last(symbol.version, "GLIBCXX_3.4."))
        elif symbol.name in _SHIMS:
            shims += 1
        elif not symbol.weak and symbol.name not in beside:
            foreign.append(symbol.name)
    return Needs(glibc, libstdcxx, cuda, shims), tuple(sorted(foreign))


def together(all_needs: Iterable[Needs]) -> Needs:
    """The oldest machine that loads all of them."""
    every = list(all_needs)
    cudas = [one.cuda for one in every if one.cuda is not None]
    return Needs(
        max(one.glibc for one in every),
        max(one.libstdcxx for one in every),
        cudas[0] if cudas else None,
        max(one.shims for one in every),
    )


def _last(version: str, prefix: str) -> int:
    rest = version.removeprefix(prefix)
    number = rest.partition(".")[0]
    return int(number) if rest != version and number.isdigit() else 0
