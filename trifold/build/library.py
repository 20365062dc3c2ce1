"""What a build gives: a shared library, and what that library says of itself."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trifold.cells import Device
from trifold.errors import BuildError


@dataclass(frozen=True)
class Manifest:
    """What a loaded library holds.

    Attributes:
        implementations: for each C++ function that it registers, its name and the schema's types that its C++
            type stands for, such as ``"sigmoid": "(Tensor) -> Tensor"``.
        branches: for each kernel instance that a launch can reach, how often it was launched in this process.
        left_out: from each choice of a kernel's constants that this build lacks to one that has the same code
            (trifold/choices.h).
    """

    implementations: dict[str, str] = field(default_factory=dict)
    branches: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Manifest:
        """Read the lines of ``trifold_manifest()`` (trifold/binding.h); a name that stands twice is added up."""
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
        device: what it was built for.
        namespace: the torch namespace that it registers into.
        path: the library.
        log: what the compilers printed when it was built.
        seconds: how long this call took.
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
        """What it registers, and how often each kernel was launched in this process. Loads it where it is not.

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
        """Launches on the current device have the pauses of this seed from now on; 0: none. Of a jittered build.

        Raises:
            BuildError: it is no jittered build.
            RuntimeError: CUDA's error, which may be of an earlier launch.
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
        log: what nvcc printed.
        seconds: how long this call took.
        cached: whether it came from the cache, with no compiler run.
    """

    op: str
    arch: str
    path: Path
    log: Path
    seconds: float
    cached: bool
