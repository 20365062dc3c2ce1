"""``trifold debug --cuda``: cuda-gdb in a CUDA thread of a port on the GPU, on one of the op's samples."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from trifold import own_process
from trifold.build.toolchain import INSTALL_CUDA, find_nvcc
from trifold.debug import sample as samples
from trifold.debug.port import kernels, operators_of, require_in_function
from trifold.errors import ToolchainError
from trifold.implementation import load_port
from trifold.simulator.coordinates import Place
from trifold.spec.load import load_spec
from trifold.workspace import OpFiles


@dataclass(frozen=True)
class CudaSession:
    """A run under cuda-gdb.

    Attributes:
        breakpoints: kernels, device functions, or a line: where the CUDA thread ``place`` first stops.
        driver: the command to debug.
    """

    cuda_gdb: Path
    breakpoints: tuple[str, ...]
    place: Place
    driver: tuple[str, ...]

    @classmethod
    def open(cls, files: OpFiles, function: str, sample: str | None, place: Place, line: int | None) -> CudaSession:
        """Build the port for cuda-gdb.

        Raises:
            TrifoldError: a GPU or cuda-gdb is missing; the op cannot be built; it has no such function, sample or line.
        """
        cuda_gdb = find_cuda_gdb()
        if line is not None:
            require_in_function(files.header, line)
        implementation = load_port(files, "debug")
        is_operator = bool(operators_of(files, implementation, function))
        calls = samples.named_calls(load_spec(files))
        number = calls.index(samples.choose(calls, sample, files.spec)) + 1
        implementation.kernels("cuda")
        if line is not None:
            breakpoints: tuple[str, ...] = (f"{files.header.name}:{line}",)
        elif is_operator:
            breakpoints = tuple(name for name in kernels(files.header) if name.startswith(function))
        else:
            breakpoints = (function,)
        driver = own_process.command("trifold.debug.driver", files.name, "--device", "cuda")
        driver += ["--workspace", str(files.header.parent.parent), "--sample", str(number)]
        forward = ["--forward"] if function == files.name else []
        return cls(cuda_gdb, breakpoints, place, (*driver, *forward))

    def command(self) -> list[str]:
        """cuda-gdb's commands: pending breakpoints in the library, each for one CUDA thread."""
        indices = zip(("threadIdx", "blockIdx"), self.place, strict=True)
        thread = " && ".join(f"{name}.{axis} == {i}" for name, at in indices for axis, i in zip("xyz", at, strict=True))
        options = ["-q", "-ex", "set breakpoint pending on"]
        for place in self.breakpoints:
            options += ["-ex", f"break {place} if {thread}"]
        return [str(self.cuda_gdb), *options, "-ex", "run", "--args", *self.driver]

    def run(self) -> int:
        """Run cuda-gdb at this process's terminal; return its exit status."""
        return subprocess.run(self.command(), env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}).returncode


def find_cuda_gdb() -> Path:
    """cuda-gdb on PATH, else in the CUDA toolkit.

    Raises:
        ToolchainError: there is no CUDA device, or no cuda-gdb.
    """
    import torch

    if not torch.cuda.is_available():
        raise ToolchainError(
            "--cuda debugs on a GPU, and torch finds no CUDA device here",
            "trifold debug OP --port debugs the same kernel on the CPU",
        )
    found = shutil.which("cuda-gdb")
    if found is not None:
        return Path(found)
    toolkit = find_nvcc().home / "bin" / "cuda-gdb"
    if not toolkit.is_file():
        raise ToolchainError(f"--cuda needs cuda-gdb, which is neither on PATH nor {toolkit}", INSTALL_CUDA)
    return toolkit
