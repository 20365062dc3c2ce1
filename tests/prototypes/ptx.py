"""Compiles the kernels that the prototypes of ops launch, to PTX, without a GPU.

    python -m tests.prototypes.ptx OP... > kernels.json

Numba's CUDA target is on in this process, which therefore cannot simulate: launching a kernel on CPU tensors compiles
it instead, for the types of its arguments. Numba asks the current device for its compute capability only when it
compiles a device function; it is compiled for sm_90.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

CAPABILITY = (9, 0)


def compiled(ops: list[str]) -> dict[str, dict[str, str]]:
    """The PTX of each kernel, by op and name, for the first calls of the op's spec in float32."""
    os.environ.pop("NUMBA_ENABLE_CUDASIM", None)
    import numba
    import torch
    from numba import cuda
    from numba.cuda import dispatcher

    import trifold.prototype
    from trifold.implementation import load_prototype
    from trifold.workspace import Workspace, import_file

    found: dict[str, dict[str, str]] = {}

    def compiling(kernel: Any, configuration: Any) -> Callable[..., None]:
        def compile_for(*arguments: Any) -> None:
            name = kernel.py_func.__name__
            if name not in found[op]:
                found[op][name], _ = cuda.compile_ptx(
                    kernel.py_func, tuple(map(numba.typeof, arguments)), cc=CAPABILITY
                )

        return compile_for

    def in_float32(case: Any) -> Any:
        floating = getattr(case, "dtype", torch.int64).is_floating_point
        return dataclasses.replace(case, dtype=torch.float32) if floating else case

    device = SimpleNamespace(compute_capability=CAPABILITY)
    launching = sys.modules[trifold.prototype.launch.__module__]
    with (
        mock.patch.object(dispatcher, "get_current_device", return_value=device),
        mock.patch.object(dispatcher.CUDADispatcher, "__getitem__", compiling),
        mock.patch.object(launching, "_require_mode"),
    ):
        for op in ops:
            found[op] = {}
            files = Workspace.at(Path(__file__).parents[2]).op(op)
            function = load_prototype(files, "cuda").function
            spec: Any = import_file(files.spec, f"spec_for_ptx_{op}").spec
            for call in (*spec.smooth, *spec.edges):
                args, kwargs = call.with_cases(in_float32).arguments("cpu")
                leaves = [one for one in args if isinstance(one, torch.Tensor) and one.is_floating_point()]
                for one in leaves:
                    one.requires_grad_()
                result = function(*args, **kwargs)
                torch.autograd.grad(result, leaves, torch.ones_like(result), allow_unused=True)
    return found


if __name__ == "__main__":
    json.dump(compiled(sys.argv[1:]), sys.stdout)
