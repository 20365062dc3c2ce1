"""Runs the code that Numba's CUDA target compiles on the CPU: an evaluator that shares nothing with the simulator.

    python -m tests.draft.numba_on_cpu FOLDER FILE…    writes the results of each module as FOLDER/<its name>.npz

The LLVM IR that Numba makes for a GPU is compiled for this machine: registers of the GPU, its barrier and libdevice
become functions of Python, the threads of a block are threads of the system, one block after another. Float16 is inline
PTX there, so that modules with it have no results, nor have those that need another function than these.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import runpy
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tests.draft.compiled import switch_launches

_SECONDS = 60  # of a module
_INT, _DOUBLE, _FLOAT = ctypes.c_int32, ctypes.c_double, ctypes.c_float
_ONE = ("sin", "cos", "atan", "floor", "ceil", "fabs", "tanh", "sqrt")
_TWO = ("copysign", "fmod", "hypot", "pow")
# Types with pointers to them, which LLVM has no more: {i8*, i64}*, [4 x i32]*, i8*, float addrspace(3)*.
_POINTER = re.compile(
    r'(?<![\w"])(?:\{[^{}]*\}|\[[^\[\]]*\]|%"[^"]*"|i\d+|float|double|ptr)(?P<space> addrspace\(\d\))?\*'
)


class NotComparable(Exception):
    """The module has what this machine cannot run."""


class Machine:
    """Compiles and runs kernels; ``where`` holds the thread, the block and the barrier of each system thread."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._target = llvm.Target.from_default_triple().create_target_machine(opt=1)
        self._kept: list[Any] = []
        self._where = threading.local()
        self._shape: tuple[int, int] = (1, 1)
        for register, read in (
            ("tid", lambda: self._where.thread),
            ("ctaid", lambda: self._where.block),
            ("ntid", lambda: self._shape[1]),
            ("nctaid", lambda: self._shape[0]),
        ):
            self._define(f"{register}.x", _INT, [], read)
            for axis in "yz":
                self._define(f"{register}.{axis}", _INT, [], lambda least=int(register[0] == "n"): least)
        self._define("barrier", None, [], lambda: self._where.barrier.wait())
        for kind, suffix in ((_DOUBLE, ""), (_FLOAT, "f")):
            for count, names in ((1, _ONE), (2, _TWO)):
                for name in names:
                    function = getattr(np, {"atan": "arctan", "pow": "power"}.get(name, name))
                    self._define(f"__nv_{name}{suffix}", kind, [kind] * count, _rounded(function, kind))
            for name in ("isinf", "isnan"):
                test = getattr(math, name)
                self._define(f"__nv_{name}{suffix or 'd'}", _INT, [kind], lambda x, test=test: int(test(x)))

    def _define(self, name: str, result: Any, arguments: list[Any], function: Callable[..., Any]) -> None:
        made = ctypes.CFUNCTYPE(result, *arguments)(function)
        self._kept.append(made)
        llvm.add_symbol(name, ctypes.cast(made, ctypes.c_void_p).value)

    def launch(self, kernel: Any, blocks: int, threads: int, arrays: tuple[Any, ...]) -> None:
        """Run a kernel of arrays."""
        from numba.cuda.compiler import compile_cuda

        compiled = compile_cuda(kernel.py_func, None, tuple(map(kernel.typeof_pyval, arrays)), cc=(9, 0))
        engine = llvm.create_mcjit_compiler(self._linked(compiled.library.get_llvm_str()), self._target)
        engine.finalize_object()
        kinds: list[Any] = [ctypes.c_void_p]
        values: list[Any] = []
        for array in arrays:
            kinds += [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
            kinds += [ctypes.c_int64] * (2 * array.ndim)
            values += [None, None, array.size, array.itemsize, array.ctypes.data, *array.shape, *array.strides]
        function = ctypes.CFUNCTYPE(_INT, *kinds)(engine.get_function_address(compiled.fndesc.llvm_func_name))
        self._shape = blocks, threads

        def run(block: int, thread: int, barrier: threading.Barrier) -> None:
            self._where.thread, self._where.block, self._where.barrier = thread, block, barrier
            result = ctypes.create_string_buffer(64)
            function(ctypes.cast(result, ctypes.c_void_p), *values)

        for block in range(blocks):
            barrier = threading.Barrier(threads)
            running = [threading.Thread(target=run, args=(block, thread, barrier)) for thread in range(threads)]
            for each in running:
                each.start()
            for each in running:
                each.join()

    def _linked(self, text: str) -> Any:
        if " asm " in text:
            raise NotComparable("inline PTX")
        parts = [self._for_this_machine(part) for part in re.split(r"(?m)^(?=; ModuleID)", text) if part.strip()]
        main, *others = map(llvm.parse_assembly, parts)
        for other in others:
            main.link_in(other)
        main.verify()
        return main

    def _for_this_machine(self, text: str) -> str:
        text = re.sub(r'target triple = ".*"', f'target triple = "{llvm.get_default_triple()}"', text)
        text = re.sub(r'target datalayout = ".*"', f'target datalayout = "{self._target.target_data}"', text)
        text = re.sub(r"llvm\.nvvm\.read\.ptx\.sreg\.", "", text).replace("llvm.nvvm.barrier0", "barrier")
        while (without := _POINTER.sub(lambda found: f"ptr{found['space'] or ''}", text)) != text:
            text = without
        return text


def _rounded(function: Callable[..., Any], kind: Any) -> Callable[..., float]:
    scalar = np.float32 if kind is _FLOAT else np.float64

    def computed(*operands: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*map(scalar, operands)))

    return computed


def results(file: str) -> dict[str, Any]:
    """Return the result of a module's ``main``."""
    from numba.cuda import dispatcher

    machine = Machine()
    switch_launches()
    dispatcher.CUDADispatcher.__getitem__ = lambda kernel, where: (
        lambda *arrays: machine.launch(kernel, where[0], where[1], arrays)
    )
    outputs: dict[str, Any] = runpy.run_path(file)["main"](np.random.default_rng(23))
    return outputs


def main(folder: str, files: list[str]) -> None:
    """Each module in a separate process: one that calls an undefined function ends it."""
    for file in files:
        child = os.fork()
        if child == 0:
            signal.alarm(_SECONDS)
            try:
                np.savez(Path(folder) / Path(file).stem, **results(file))
            except NotComparable:
                pass
            finally:
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
