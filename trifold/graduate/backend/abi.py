"""Symbols that a library may require of the machine that loads it: torch's stable ABI, CUDA's runtime, C and C++."""

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
# Maps version numbers of libstdc++ or libgcc_s to the glibc of the oldest distributions that have them (auditwheel
# 6.8's policies for manylinux on x86-64).
_GLIBC_BESIDE = {
    "GLIBCXX_3.4": ((19, 17), (22, 24), (24, 27), (28, 31), (29, 34), (30, 35), (33, 39)),
    "CXXABI_1.3": ((7, 17), (10, 24), (11, 27), (12, 31), (13, 34), (15, 39)),
    "CXXABI_TM": ((1, 17),),
    "CXXABI_FLOAT128": ((0, 24),),
    "GCC": ((4, 17), (7, 27), (12, 35), (14, 39)),
}
_GLIBC_OF_FORMAT = {"GLIBC_ABI_DT_RELR": 36}
_OLDEST_GLIBC = 17  # of manylinux2014: no g++ with C++20 makes libraries for an older one
ENGINE_PREFIX = "libkernel_engine_"


@dataclass(frozen=True)
class Needs:
    """The oldest machine that loads a library.

    Attributes:
        glibc: the minor version that its symbols need: 34 for 2.34.
        libstdcxx: the last part of GLIBCXX_3.4.N.
        distribution: the minor version of glibc in the oldest distributions that also have such a libstdc++ and
            libgcc_s.
        cuda: the major version of CUDA's runtime; None if unused.
        shims: how many functions of torch it calls.
    """

    glibc: int
    libstdcxx: int
    distribution: int
    cuda: int | None
    shims: int

    @property
    def platform(self) -> str:
        """The wheel's platform tag (PEP 600), which pip compares with the machine's glibc."""
        return f"manylinux_2_{max(self.distribution, _OLDEST_GLIBC)}_x86_64"


def engine_name(digest: str) -> str:
    """The file name of the library that runs kernels on the CPU."""
    return f"{ENGINE_PREFIX}{digest}.so"


def needs(library: SharedLibrary, provided: Collection[str] = ()) -> tuple[Needs, tuple[str, ...]]:
    """Return the requirements of ``library``, and the required symbols and versions that no permitted library provides.

    ``provided`` are the symbols of the libraries in the same folder.
    """
    shims = 0
    cuda: int | None = None
    foreign = []
    for symbol in library.undefined:
        runtime = _CUDA.fullmatch(symbol.library)
        if runtime:
            cuda = int(runtime[1])
        elif symbol.name in _SHIMS:
            shims += 1
        elif not (symbol.weak or symbol.name in provided or (symbol.version and _SYSTEM.fullmatch(symbol.library))):
            foreign.append(symbol.name)
    versions = [version for name, version in library.versions if _SYSTEM.fullmatch(name)]
    known = {version: glibc for version in versions if (glibc := _glibc_beside(version)) is not None}
    least = Needs(
        glibc=max((glibc for version, glibc in known.items() if version.startswith("GLIBC_")), default=0),
        libstdcxx=max((_number(version, "GLIBCXX_3.4") or 0 for version in versions), default=0),
        distribution=max(known.values(), default=0),
        cuda=cuda,
        shims=shims,
    )
    return least, tuple(sorted({*foreign, *(set(versions) - known.keys())}))


def together(all_needs: Iterable[Needs]) -> Needs:
    """The oldest machine that loads all of them."""
    every = list(all_needs)
    cudas = [one.cuda for one in every if one.cuda is not None]
    return Needs(
        max(one.glibc for one in every),
        max(one.libstdcxx for one in every),
        max(one.distribution for one in every),
        cudas[0] if cudas else None,
        max(one.shims for one in every),
    )


def _glibc_beside(version: str) -> int | None:
    """The minor version of the first glibc that has ``version``, or that distributions combine with a library that has
    it.

    >>> _glibc_beside("GLIBC_2.34"), _glibc_beside("GLIBCXX_3.4.30"), _glibc_beside("GCC_12.0.0")
    (34, 35, 35)
    >>> _glibc_beside("GLIBC_PRIVATE")
    """
    if version in _GLIBC_OF_FORMAT:
        return _GLIBC_OF_FORMAT[version]
    for prefix, glibcs in _GLIBC_BESIDE.items():
        number = _number(version, prefix)
        if number is not None:
            return next((glibc for last, glibc in glibcs if number <= last), None)
    return _number(version, "GLIBC_2")


def _number(version: str, prefix: str) -> int | None:
    """The number after ``prefix`` in a version: 0 if there is none, None for another prefix."""
    match = re.fullmatch(rf"{re.escape(prefix)}(?:[._](\d+)[.\d]*)?", version)
    return int(match[1] or 0) if match else None
