"""The result of a build: a shared library, and its description of itself."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trifold.cells import Device
from trifold.errors import BuildError


@dataclass(frozen=True)
class Manifest:
    """The contents of a loaded library.

    Attributes:
        implementations: for each C++ function that it registers, its name and its types in the schema language, such as
            ``"sigmoid": "(Tensor) -> Tensor"``.
        branches: for each kernel instance that a launch can reach, how often it was launched in this process.
        left_out: maps each choice of a kernel's constants that this build lacks to one that has the same code
            (trifold/choices.h).
    """

    implementations: dict[str, str] = field(default_factory=dict)
    branches: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Manifest:
        """Parse the lines of ``trifold_manifest()`` (trifold/binding.h); the counts of repeated names are added."""
        implementations: dict[str, str] = {}
        branches: dict[str, int] = {}
        left_out: dict[str, str] = {}
        for line in text.splitlines():
            kind, name, value = line.split("\t")
            if kind == "implementation":
                implementations[name] = value
            elif kind == "branch":
                branches[name] = branches.get(name, 0) + int(value)
            else:
                left_out[name] = value
        return cls(implementations, branches, left_out)


@dataclass(frozen=True)
class BuiltLibrary:
    """A port's shared library on disk.

    Attributes:
        op: the op's name.
        device: the device that it was built for.
        namespace: the torch namespace that it registers into.
        path: the library.
        log: the compilers' output.
        seconds: the duration of this call.
        cached: whether it came from the cache, with no compiler run.
    """

    op: str
    device: Device
    namespace: str
    path: Path
    log: Path
    seconds: float
    cached: bool

    def load(self) -> BuiltLibrary:
        """Load it into this process: its functions are registered, before or after their schemas are defined.

        Loading it again does nothing.

        Raises:
            BuildError: the system's loader refuses it.
        """
        import torch

        try:
            load_library: Callable[[str], None] = torch.ops.load_library
            load_library(str(self.path))
        except OSError as error:
            raise BuildError(f"{self.path} cannot be loaded: {error}", f"see {self.log}") from None
        return self

    def manifest(self) -> Manifest:
        """Return its registered functions and the number of launches of each kernel. Loads the library if necessary.

        Raises:
            BuildError: it has no manifest, or the system's loader refuses it.
        """
        self.load()
        try:
            function = ctypes.CDLL(str(self.path)).trifold_manifest
        except AttributeError:
            raise BuildError(
                f"cuda_src/{self.op}.cu does not say what it registers",
                "include <trifold/binding.h> and register with TRIFOLD_LIBRARY(m) and trifold::implement",
            ) from None
        function.restype = ctypes.c_char_p
        return Manifest.parse(function().decode())

    def set_jitter(self, seed: int) -> None:
        """Set the seed of the pauses for later launches on the current device; 0: no pauses. For a jittered build.

        Raises:
            BuildError: it is not a jittered build.
            RuntimeError: CUDA's error, which may come from an earlier launch.
        """
        try:
            function = ctypes.CDLL(str(self.path)).trifold_set_jitter
        except AttributeError:
            raise BuildError(f"{self.path} has no pauses", 'build it with form="jittered"') from None
        if error := function(ctypes.c_uint(seed)):
            raise RuntimeError(f"CUDA error {error} when the seed of the pauses was set")


@dataclass(frozen=True)
class CompiledObject:
    """A port's kernels, compiled by nvcc for one architecture but not linked: proof that the binding compiles.

    Attributes:
        op: the op's name.
        arch: the architecture, as TORCH_CUDA_ARCH_LIST writes it: ``"9.0"``.
        path: the device's code (a cubin), for cuobjdump and nvdisasm.
        log: nvcc's output.
        seconds: the duration of this call.
        cached: whether it came from the cache, with no compiler run.
    """

    op: str
    arch: str
    path: Path
    log: Path
    seconds: float
    cached: bool
