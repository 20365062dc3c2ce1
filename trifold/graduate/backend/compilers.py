"""Compiles the kernels: for each op one library for the CPU and, if there is an nvcc, one for CUDA.

The libraries are linked against empty stand-ins for torch's, so that of the installed torch only its headers matter;
:mod:`abi` then checks every undefined symbol.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from trifold.build import port_text, toolchain
from trifold.errors import BuildError, ToolchainError
from trifold.graduate.backend import abi
from trifold.graduate.backend.elf import SharedLibrary
from trifold.graduate.backend.plan import Plan

# The compute capability of the GPU that the CPU emulates.
_EMULATED_GPU = "9.0"
# A library exports only its registrations; two of them in one process share no symbol.
_EXPORTS = "{ global: trifold_manifest; local: *; };\n"
# The runtime for kernels on the CPU is a separate library, with a hash of its sources in its name: packages with the
# same engine share one. (Its thread-local storage is of the static kind, of which a process has 1.6 KiB for all
# libraries.) It exports each function that a kernel's headers for the CPU declare: the visible ones of this namespace.
_ENGINE_EXPORTS = '{ global: extern "C++" { trifold::cpu::*; }; local: *; };\n'
_ENGINE_FLAGS = ("-O2", "-fPIC", "-ffunction-sections", "-fdata-sections", "-fvisibility=hidden", "-fno-gnu-unique")


@dataclass(frozen=True)
class Library:
    """A built library: its name in the package's ``lib`` folder, its requirements, and its symbols."""

    name: str
    path: Path
    needs: abi.Needs
    defined: tuple[str, ...]


@dataclass(frozen=True)
class Built:
    """All libraries, and the compilers that made them, such as ``{"g++": "12.2.0"}``."""

    libraries: tuple[Library, ...]
    compilers: dict[str, str]


def find_nvcc() -> toolchain.Nvcc | None:
    """nvcc, if this machine has one. Raises ``ToolchainError`` if CUDA_HOME points elsewhere."""
    try:
        return toolchain.find_nvcc()
    except ToolchainError:
        if os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH"):
            raise
        return None


def build(root: Path, plan: Plan, folder: Path, *, cuda: bool) -> Built:
    """Build everything into ``folder``.

    Raises:
        ToolchainError: a compiler is missing or too old.
        BuildError: something does not compile, or needs more than torch's stable ABI; the text is the compiler's.
    """
    gxx = toolchain.find_gxx()
    toolchain.require_gxx(gxx)
    compilers = {"g++": toolchain.dotted(toolchain.gxx_version(gxx))}
    nvcc = toolchain.find_nvcc() if cuda else None
    if nvcc is not None:
        compilers["nvcc"] = toolchain.dotted(toolchain.nvcc_version(nvcc.path))
    elif len(plan.not_on_cpu) == len(plan.ops):
        raise ToolchainError("no op has a CPU build, and there is no nvcc", toolchain.INSTALL_CUDA)
    work = _Workshop(root, plan, folder, gxx)
    return Built(work.build(nvcc), compilers)


@dataclass(frozen=True)
class _Workshop:
    root: Path
    plan: Plan
    folder: Path
    gxx: Path

    def build(self, nvcc: toolchain.Nvcc | None) -> tuple[Library, ...]:
        engine = sorted({file.parent for file in (self.root / self.plan.engine).glob("*/*.cpp")})
        on_cpu = [op for op in self.plan.ops if op not in self.plan.not_on_cpu]
        # The kernels first, since they take longest.
        jobs = [partial(self._nvcc_object, op, nvcc) for op in self.plan.ops] if nvcc is not None else []
        jobs += [partial(self._cpu_object, op) for op in on_cpu]
        jobs += [partial(self._engine_object, folder) for folder in engine] if on_cpu else []
        _run_all(jobs)
        libraries = []
        if on_cpu:
            libraries.append(self._engine_library(engine))
            libraries += [self._cpu_library(op, libraries[0]) for op in on_cpu]
        if nvcc is not None:
            libraries += [self._cuda_library(op, nvcc) for op in self.plan.ops]
        return tuple(libraries)

    # ------------------------------------------------------------------------------------------------- compiling

    def _definitions(self, key: str) -> tuple[str, ...]:
        return (
            "-DTORCH_TARGET_VERSION=0x020b000000000000",
            f"-DTRIFOLD_NAMESPACE={self.plan.namespace}",
            f"-DTRIFOLD_DISPATCH_KEY={key}",
        )

    def _cpu_object(self, op: str) -> None:
        folder = self.folder / f"{op}.sources"
        extra = _for_gxx(self.root / self.plan.sources, self.root / self.plan.include, folder)
        flags = ("-std=c++20", "-fPIC", *self.plan.gxx_flags, *self._definitions("CPU"), *extra, *self._same_paths())
        own = (f"-I{folder}", f"-I{self.root / self.plan.include}", f"-I{self.root / self.plan.cpu_include}")
        headers = (*own, *(f"-isystem{path}" for path in _torch_headers()))
        self._run(self.gxx, *flags, *headers, "-x", "c++", "-c", folder / f"{op}.cu", "-o", self.folder / f"{op}.cpu.o")

    def _engine_object(self, folder: Path) -> None:
        """All files of a folder as one, since compiling the headers takes most of the time."""
        source = self.folder / f"engine.{folder.name}.cpp"
        # By full paths: if the folder were searched, its limits.h would hide the system's.
        source.write_text("".join(f'#include "{file}"\n' for file in sorted(folder.glob("*.cpp"))))
        headers = (f"-I{self.root / self.plan.include}", *self._same_paths())
        self._run(self.gxx, "-std=c++20", *_ENGINE_FLAGS, *headers, "-c", source, "-o", self._object_of(folder))

    def _nvcc_object(self, op: str, nvcc: toolchain.Nvcc) -> None:
        host = (f"-ccbin={self.gxx}", "-Xcompiler=-fPIC", f"-Xcompiler={','.join(self._same_paths())}")
        flags = ("-std=c++20", "-cudart=shared", *host, *self.plan.nvcc_flags, *self._definitions("CUDA"))
        headers = (f"-I{self.root / self.plan.include}", *(f"-isystem={path}" for path in _torch_headers()))
        code = (*_gencode(self.plan.architectures, self.plan.ptx), *headers)
        source = self.root / self.plan.sources / f"{op}.cu"
        command: tuple[str | Path, ...] = (nvcc.path, *flags, *code, "-c", source, "-o", self.folder / f"{op}.cuda.o")
        try:
            self._run(*command)
        except BuildError as error:
            # nvcc 13.0 cannot compile some kernels with --split-compile.
            if "error: Failed to read bitcode" not in str(error):
                raise
            self._run(*(word for word in command if not str(word).startswith("--split-compile")))

    def _same_paths(self) -> tuple[str, ...]:
        """Keeps the paths of the package and of torch at build time out of the library."""
        folders = {self.root: ".", self.folder: ".", _torch_headers()[0]: "torch"}
        return tuple(f"-ffile-prefix-map={folder}={name}" for folder, name in folders.items())

    def _object_of(self, folder: Path) -> Path:
        return self.folder / f"engine.{folder.name}.o"

    # --------------------------------------------------------------------------------------------------- linking

    def _engine_library(self, engine: Iterable[Path]) -> Library:
        name = abi.engine_name(self.plan.engine_hash)
        flags = (f"-Wl,-soname,{name}", "-lpthread", "-ldl")
        return self._link(name, _ENGINE_EXPORTS, (), [self._object_of(folder) for folder in engine], flags)

    def _cpu_library(self, op: str, engine: Library) -> Library:
        flags = (str(engine.path), "-Wl,-rpath,$ORIGIN")
        torch_libraries = ("c10", "torch_cpu", "torch")
        return self._link(f"{op}.cpu.so", _EXPORTS, torch_libraries, [self.folder / f"{op}.cpu.o"], flags, engine)

    def _cuda_library(self, op: str, nvcc: toolchain.Nvcc) -> Library:
        name = f"{op}.cuda{toolchain.nvcc_version(nvcc.path)[0]}.so"
        flags = (f"-L{nvcc.home / 'lib64'}", f"-L{nvcc.home / 'lib'}", "-lcudart")
        torch_libraries = ("c10", "c10_cuda", "torch_cpu", "torch_cuda", "torch")
        return self._link(name, _EXPORTS, torch_libraries, [self.folder / f"{op}.cuda.o"], flags)

    def _link(
        self,
        name: str,
        exports: str,
        torch_libraries: Iterable[str],
        objects: Sequence[Path],
        flags: Sequence[str],
        companion: Library | None = None,
    ) -> Library:
        """Link ``objects``; symbols that ``companion`` defines may stay undefined."""
        made, script = self.folder / name, self.folder / f"{name}.map"
        script.write_text(exports)
        stand_ins = [self._stand_in(library) for library in torch_libraries]
        rules = ("-shared", "-s", "-Wl,--gc-sections", "-Wl,--build-id=none", f"-Wl,--version-script={script}")
        self._run(self.gxx, *rules, "-Wl,--no-as-needed", *objects, *stand_ins, *flags, "-o", made)
        library = SharedLibrary.read(made)
        found, foreign = abi.needs(library, companion.defined if companion is not None else ())
        if foreign:
            raise BuildError(
                f"{name} needs {', '.join(self._readable(foreign))}, which neither torch {abi.FLOOR}'s stable ABI nor "
                "the C++ library has",
                "define it, or use what <trifold/binding.h> and torch/csrc/stable have",
            )
        return Library(name, made, found, library.defined)

    def _stand_in(self, library: str) -> Path:
        """An empty library of that name: libraries linked against it load the real one."""
        path = self.folder / f"lib{library}.so"
        if not path.exists():
            self._run(self.gxx, "-shared", "-x", "c++", "/dev/null", f"-Wl,-soname,{path.name}", "-o", path)
        return path

    def _readable(self, symbols: Sequence[str]) -> list[str]:
        try:
            done = subprocess.run(["c++filt", *symbols], capture_output=True, text=True, check=True, timeout=30)
        except (OSError, subprocess.SubprocessError):
            return list(symbols)
        return done.stdout.splitlines()

    def _run(self, *command: str | Path) -> None:
        words = [str(word) for word in command]
        done = subprocess.run(
            words, cwd=self.folder, env=os.environ | {"LC_ALL": "C"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace",
        )  # fmt: skip
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip() or f"it ended with status {done.returncode}"
            raise BuildError(f"{' '.join(words)}\n{said}")


def _torch_headers() -> tuple[Path, Path]:
    include = Path(torch.__path__[0]) / "include"
    return include, include / "torch" / "csrc" / "api" / "include"


def _run_all(jobs: Sequence[Callable[[], object]]) -> None:
    """Run them, as many at a time as there are CPUs; the first error cancels those that have not begun."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        running = [pool.submit(job) for job in jobs]
        try:
            for future in running:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _for_gxx(sources: Path, include: Path, folder: Path) -> tuple[str, ...]:
    """Write the kernels rewritten for g++, and the rewritten headers of trifold that replace those in ``include``, into
    ``folder``; returns the flags that they need."""
    paths = sorted(path for path in sources.rglob("*") if path.is_file())
    texts = {path.relative_to(sources): path.read_text(encoding="utf-8") for path in paths}

    def quoted(name: Path) -> str:
        line = re.sub(r'(["\\])', r"\\\1", str(name))
        return f'"{line}"'

    made = port_text.for_gxx(texts, quoted, _EMULATED_GPU)
    for name, text in {**made.texts, **port_text.trifold_headers(include)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#line 1 {quoted(name)}\n{text}", encoding="utf-8")
    for header, text in made.headers.items():
        (folder / header).write_text(text, encoding="utf-8")
    define = [f"-D{name}" for name in made.definitions]
    return (*define, *(part for name in made.includes for part in ("-include", name)))


def _gencode(architectures: Sequence[str], ptx: str) -> tuple[str, ...]:
    numbers = [architecture.replace(".", "") for architecture in architectures]
    flags = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]
    if ptx:
        newest = ptx.replace(".", "")
        flags.append(f"-gencode=arch=compute_{newest},code=compute_{newest}")
    return tuple(flags)
