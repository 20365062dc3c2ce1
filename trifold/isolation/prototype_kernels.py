"""A prototype's kernels in the op's process: how often each was launched, and how Numba compiles it for a GPU."""

from __future__ import annotations

import contextlib
import os
import pickle
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from trifold.cells import Device
from trifold.implementation import prototype_module
from trifold.workspace import OpFiles


def prototype_launches(files: OpFiles, device: Device) -> dict[str, int]:
    """The number of launches of each kernel of the prototype in this process.

    On a GPU they are counted for each set of argument types. A kernel that the prototype launches without trifold
    counts once for each compilation.
    """
    module = prototype_module(files, device)
    kernels = {
        name: value
        for name, value in vars(module).items()
        if getattr(getattr(value, "py_func", None) or getattr(value, "fn", None), "__module__", "") == module.__name__
    }
    if device == "cuda":
        from trifold.prototype.launch import launches

        counts: dict[str, int] = {}
        for name, kernel in kernels.items():
            if not kernel.targetoptions.get("device"):
                of_types = {f"{name}({types})": count for types, count in launches(kernel).items()}
                counts |= of_types or {name: len(kernel.overloads)}
        return counts
    from trifold.simulator.launch import launched

    return {name: launched(kernel.fn) for name, kernel in kernels.items() if not kernel._device}


def kernels_in(error: BaseException) -> list[str]:
    """The prototype's kernel whose launch raised ``error``: one name, or none."""
    from trifold.prototype.launch import launch

    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code is launch.__code__:
            kernel = frame.f_locals["kernel"]
            return [str(kernel.py_func.__name__)]
    return []


def prepare_kernels(files: OpFiles) -> None:
    """Make Numba cache the compiled kernels of the prototype for the op's other processes, and add line information, as
    ``nvcc -lineinfo`` does, which does not change the code.

    Numba's cache, the folder ``NUMBA_CACHE_DIR``, identifies a kernel by its own code and not by that of its device
    functions, so each run needs another folder.
    """
    functions = [
        value
        for value in vars(prototype_module(files, "cuda")).values()
        if isinstance(options := getattr(value, "targetoptions", None), dict) and not options.get("debug")
    ]
    _set_lines(functions, True)
    for function in functions:
        if not function.targetoptions.get("device"):
            function.compile = _with_lines(function.compile, functions)
            if "NUMBA_CACHE_DIR" in os.environ:
                _keep_compiled(function)


def _keep_compiled(kernel: Any) -> None:
    """Make a kernel's dispatcher cache what it compiles, unless files are linked, which cannot be cached."""
    try:
        kernel.enable_caching()
    except RuntimeError:  # its source is not in a file
        return
    save = kernel._cache.save_overload

    def save_if_possible(*compiled: Any) -> None:
        with contextlib.suppress(RuntimeError, pickle.PicklingError):
            save(*compiled)

    kernel._cache.save_overload = save_if_possible


def _set_lines(functions: Sequence[Any], lines: bool) -> None:
    for function in functions:
        function.targetoptions["lineinfo"] = lines
        if function.targetoptions.get("device"):
            function.overloads.clear()  # each kernel uses what its device functions were compiled to


def _with_lines(compile_kernel: Callable[[Any], Any], functions: Sequence[Any]) -> Callable[[Any], Any]:
    """A dispatcher's ``compile`` with line information; without it, also in its device functions, where NVVM refuses it
    (numba-cuda 0.30: ``ERROR_COMPILATION``)."""

    def compile_with_lines(signature: Any) -> Any:
        try:
            return compile_kernel(signature)
        except Exception as error:
            if type(error).__name__.lower() != "nvvmerror":  # of Numba or of cuda.bindings
                raise
        _set_lines(functions, False)
        try:
            return compile_kernel(signature)
        finally:
            _set_lines(functions, True)

    return compile_with_lines
