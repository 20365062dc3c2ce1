"""Compiles what modules launch with Numba's CUDA target, as far as LLVM's IR, which needs no GPU.

    python -m tests.draft.compiled FILE…    prints, as JSON, by file what was refused: "" where nothing was

A launch compiles its kernel for the types of its arguments, and computes nothing. It is run in a separate process, in
which the simulator is not switched on.
"""

from __future__ import annotations

import json
import runpy
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np


def switch_launches() -> None:
    """From now on launches compile. The compute capability is the H200's, as there may be no device to ask."""
    from numba.cuda import dispatcher
    from numba.cuda.compiler import compile_cuda

    device = SimpleNamespace(compute_capability=(9, 0))
    for name, module in list(sys.modules.items()):
        if name.startswith("numba.cuda") and hasattr(module, "get_current_device"):
            module.get_current_device = lambda: device  # type: ignore[attr-defined]

    def configured(kernel: Any, _where: Any) -> Any:
        def launch(*arguments: Any) -> None:
            compile_cuda(kernel.py_func, None, tuple(map(kernel.typeof_pyval, arguments)), cc=(9, 0))

        return launch

    dispatcher.CUDADispatcher.__getitem__ = configured


def refusal(file: str) -> str:
    """Why a module's launches do not compile; "" if they do."""
    try:
        runpy.run_path(file)["main"](np.random.default_rng(23))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    switch_launches()
    print(json.dumps({file: refusal(file) for file in sys.argv[1:]}))
