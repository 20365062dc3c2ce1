"""``RawKernel``: a kernel of ordinary CUDA text, launched on the CPU. CuPy's interface (``cupy.RawKernel``)."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trifold.build import cuda_text, diagnostics, sources, text
from trifold.cpu import runtime
from trifold.cpu.raw_arguments import Argument, Parameter, convert
from trifold.errors import BuildError, LaunchError
from trifold.limits import capability_name, limits_of

_NAME = re.compile(r"[A-Za-z_][\w:]*(\s*<.*>)?", re.DOTALL)


class RawKernel:
    """A ``__global__`` function, compiled by g++ on its first launch.

    Args:
        code: CUDA C++, as nvcc accepts it; or the path of a file. Host functions and launches in it are compiled, too;
            parts that use torch are skipped.
        name: the kernel; of a template with its arguments: ``"scale<float>"``.
        options: ``-g``, ``-D``, ``-U``, ``-I`` and ``-std`` for the compiler, whose default is C++17, as for nvcc;
            options for GPUs only are ignored.
        checks: check each access of memory. A mistake raises :class:`trifold.KernelFault`, and each launch runs once
            for each of :func:`trifold.cpu.runtime.schedules`, from the same contents of its arrays.
        compute_capability: of the GPU whose limits apply to launches, such as ``"8.6"``; default: that of
            :func:`trifold.cpu.runtime.compute_capability`. ``__CUDA_ARCH__`` is what ``-arch`` in ``options`` says,
            else this one's, else that of TRIFOLD_COMPUTE_CAPABILITY, else 900.

    Launching it raises:
        BuildError: the text does not compile, has no such kernel, or uses something that the CPU does not support.
        ToolchainError: g++ is missing or too old.
        LaunchError: an argument does not fit its parameter, or no device supports the grid, block or shared memory.
        KernelFault: checks have found a mistake.
        AcceptanceError: a comment in the text accepts something that is not a kind of finding
            (:mod:`trifold.acceptance`).

    >>> import numpy as np
    >>> from trifold.cpu import RawKernel
    >>> double = RawKernel("__global__ void twice(float* x) { x[threadIdx.x] *= 2; }", "twice")
    >>> x = np.arange(4, dtype=np.float32)
    >>> double((1,), (4,), (x,))
    >>> x
    array([0., 2., 4., 6.], dtype=float32)
    """

    def __init__(
        self,
        code: str | Path,
        name: str,
        options: Sequence[str] = (),
        *,
        checks: bool = True,
        compute_capability: str | None = None,
    ) -> None:
        if not isinstance(code, (str, Path)):
            raise LaunchError(f"code must be text or a Path, not {type(code).__name__}", "pass the CUDA source")
        if not isinstance(name, str) or _NAME.fullmatch(name.strip()) is None:
            raise LaunchError(f"name must be a kernel's name, not {name!r}", 'pass it as "axpy" or "axpy<float>"')
        self.source = code if isinstance(code, Path) else None
        self.code = code.read_text(encoding="utf-8") if isinstance(code, Path) else code
        self.name = name.strip()
        self.options = tuple(options)
        self.checks = checks
        self.compute_capability = compute_capability
        limits_of(compute_capability)  # reports an unknown one now

    def __repr__(self) -> str:
        return f"RawKernel({self.name!r}, {'checked' if self.checks else 'unchecked'})"

    def __call__(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        cluster: int | tuple[int, ...] | None = None,
        cooperative: bool = False,
    ) -> None:
        """Launch it and wait for its end.

        Args:
            grid: blocks, and
            block: threads in a block: a number, or up to three (x, y, z).
            args: torch CPU tensors and NumPy arrays for pointers (of any layout: the kernel gets the address of the
                first element), numbers for values, NumPy void scalars for structs.
            shared_mem: bytes of dynamic shared memory.
            cluster: blocks in a cluster: a number, or up to three (x, y, z); None: as ``__cluster_dims__`` says.
            cooperative: the kernel may wait for the whole grid (``cooperative_groups::this_grid().sync()``).
        """
        clusters = (0, 0, 0) if cluster is None else _extent("cluster", cluster)
        shape = (*_extent("grid", grid), *_extent("block", block), *clusters, int(cooperative))
        if not isinstance(shared_mem, int) or shared_mem < 0:
            raise LaunchError(f"shared_mem must be a number of bytes, not {shared_mem!r}", "pass 0 or more")
        library = self._library
        arguments = convert(self.name, library.parameters, args)
        launch = functools.partial(library.launch, shape, shared_mem, arguments)
        with runtime.compute_capability(self.compute_capability):
            if self.checks:
                _run_checked(launch, arguments)
            else:
                launch()

    def compile(self) -> None:
        """Build and load it now, not at the first launch."""
        _ = self._library

    @functools.cached_property
    def _library(self) -> _Library:
        path = self.source if self.source is not None else text.kept(self.code, self.name)
        folders = tuple(Path(option[2:]) for option in self.options if option.startswith("-I"))
        known = cuda_text.read_program(path, folders, drop_torch=True)
        if self.checks:
            runtime.accept(known)
        base = re.sub(r"\s*<.*", "", self.name, flags=re.DOTALL).rpartition("::")[2]
        kernels = {kernel.name: kernel for file in reversed(known.values()) for kernel in file.kernels}
        if base not in kernels:
            raise BuildError(
                f"{diagnostics.shown(path)} has no kernel named {base}",
                f"its kernels: {', '.join(sorted(kernels))}" if kernels else "it has no __global__ function",
            )
        names = kernels[base].parameters
        if kernels[base].template and "<" not in self.name:
            raise BuildError(
                f"name: {base} of {diagnostics.shown(path)} is a template, but {self.name!r} has no arguments for it",
                f"name the instance: {base}<float>",
            )
        product = text.build_library(
            path,
            self.options,
            checked=self.checks,
            tail=_tail(self.name, names),
            capability=capability_name(self.compute_capability),
        )
        return _Library(product.path, names)


class _Library:
    """A loaded library of one kernel."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise BuildError(f"{path} cannot be loaded: {error}", "remove it, so that it is built again") from None
        self.path = path
        library.trifold_signature.restype = ctypes.c_char_p
        library.trifold_launch.restype = ctypes.c_char_p
        library.trifold_launch.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        library.trifold_use_threads.argtypes = [ctypes.c_void_p]
        library.trifold_use_threads.restype = None
        if (threads := _torch_parallel_for()) is not None:
            library.trifold_use_threads(threads)
        self._launch = library.trifold_launch
        lines = library.trifold_signature().decode().splitlines()
        padded = (*names, *("" for _ in range(len(lines) - len(names))))
        self.parameters = tuple(
            Parameter.parse(name or f"number {number}", line)
            for number, (name, line) in enumerate(zip(padded, lines, strict=True))
        )

    def launch(self, shape: tuple[int, ...], shared: int, arguments: Sequence[Argument]) -> None:
        """Raises :class:`LaunchError` with the launch's error; the checks' findings are not handled here."""
        addresses = (ctypes.c_void_p * max(1, len(arguments)))(*(ctypes.addressof(each.value) for each in arguments))
        message = self._launch((ctypes.c_uint * 10)(*shape), shared, addresses)
        if message is not None:
            raise LaunchError(message.decode(errors="replace"))


def _run_checked(launch: functools.partial[None], arguments: Sequence[Argument]) -> None:
    """Run every schedule from the same contents of the arrays; the results of the first one are kept."""
    memory = {each.memory.begin: each.memory for each in arguments if each.memory is not None}
    inputs = {begin: each.read() for begin, each in memory.items()} if runtime.schedule_count() > 1 else {}
    results: dict[int, bytes] = {}

    def once() -> None:
        if results:
            for begin, content in inputs.items():
                memory[begin].write(content)
        for each in memory.values():
            runtime.note_memory(each.begin, each.size)
        launch()
        if inputs and not results:
            results.update({begin: each.read() for begin, each in memory.items()})

    try:
        runtime.run_checked(once)
    finally:
        for begin, content in results.items():
            memory[begin].write(content)


def _extent(what: str, given: int | tuple[int, ...]) -> tuple[int, int, int]:
    extents = given if isinstance(given, (tuple, list)) else (given,)
    right = 1 <= len(extents) <= 3 and all(isinstance(extent, int) and 0 < extent < 2**31 for extent in extents)
    if not right:
        raise LaunchError(
            f"{what} must be one to three positive numbers, not {given!r}", "pass (x,), (x, y) or (x, y, z)"
        )
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def _tail(name: str, parameters: tuple[str, ...]) -> str:
    """The functions that the library exports, appended to the user's text."""
    names = sources.quoted(Path(",".join(parameters))) if parameters else '""'
    title = sources.quoted(Path(name))
    return f"""
#line 1 "the name of the kernel: {name.replace(chr(34), "'")}"
#include <trifold/cpu/raw_kernel.h>
namespace {{ constexpr auto trifold_kernel = &{name}; }}
#define TRIFOLD_EXPORT extern "C" __attribute__((visibility("default")))
TRIFOLD_EXPORT const char* trifold_signature() {{
  static const std::string text = trifold::cpu::signature(trifold_kernel);
  return text.c_str();
}}
TRIFOLD_EXPORT const char* trifold_launch(const unsigned* shape, size_t shared, void** arguments) {{
  return trifold::cpu::launch_raw<trifold_kernel>(trifold_kernel, {title}, {names}, shape, shared, arguments);
}}
TRIFOLD_EXPORT void trifold_use_threads(trifold::cpu::TorchParallelFor threads) {{
  trifold::cpu::use_torch_threads(threads);
}}
"""


@functools.cache
def _torch_parallel_for() -> int | None:
    """The address of torch's thread pool in C; None if this torch has none."""
    import torch

    try:
        library = ctypes.CDLL(str(Path(torch.__path__[0]) / "lib" / "libtorch_cpu.so"))
        return ctypes.cast(library.torch_parallel_for, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None
