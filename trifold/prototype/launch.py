"""Launching a Numba kernel on torch tensors: in Numba's simulator for CPU tensors, on the GPU for CUDA tensors.

Tensors are passed to the kernel as arrays of the same shape; on the GPU, with the same strides. Half and 8-bit
floating types are converted to float32, as a kernel does when it loads them; an :class:`Output` is rounded to the
tensor's dtype after the launch, as torch does. A kernel thus computes in float32 for these types and otherwise in the
tensors' dtype, as the C++ port does.
"""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from numba import cuda
from torch import Tensor

from trifold.errors import PrototypeError
from trifold.simulator.fresh import unwritten
from trifold.simulator.writes import carry_over

THREADS_PER_BLOCK = 256  # as in the plain kernels of the port: trifold::threads_per_block

ELEMENTS_PER_THREAD = 8  # of a row that a team of threads holds in its registers

# For each kernel, by its identity: the kernel, and its number of launches by argument types.
_launches: dict[int, tuple[Any, Counter[str]]] = {}


@dataclass(frozen=True)
class Output:
    """An argument that the kernel writes."""

    tensor: Tensor


def output(tensor: Tensor) -> Output:
    """Marks ``tensor`` as written by the kernel."""
    return Output(tensor)


def simulated() -> bool:
    """Whether Numba's simulator is on in this process; it is decided when numba is imported."""
    return bool(numba.config.ENABLE_CUDASIM)


def launch(
    kernel: Any,
    grid: int | tuple[int, ...],
    *arguments: Any,
    block: int | tuple[int, ...] = THREADS_PER_BLOCK,
    shared: int = 0,
) -> None:
    """Run ``kernel[grid, block, stream, shared](*arguments)`` on the device of its tensors, in torch's current stream.

    Args:
        kernel: a ``@cuda.jit`` kernel.
        grid: blocks in each dimension; a grid with a zero launches nothing.
        arguments: tensors (read), :func:`output` of tensors (written), numbers; all tensors on one device.
        block: threads in each dimension.
        shared: bytes of dynamic shared memory for each block: of ``cuda.shared.array(0, dtype)``.

    Raises:
        PrototypeError: the tensors are on the CPU and Numba's simulator is off, or the reverse.
        RuntimeError: the tensors are on several devices.
    """
    if 0 in (grid if isinstance(grid, tuple) else (grid,)):
        return
    tensors = [a.tensor if isinstance(a, Output) else a for a in arguments if isinstance(a, Output | Tensor)]
    if len({tensor.device for tensor in tensors}) > 1:
        raise RuntimeError(_on_several_devices(kernel, arguments))
    on_gpu = any(tensor.is_cuda for tensor in tensors)
    _require_mode(on_gpu)
    staged = [_stage(argument) for argument in arguments]
    _, counts = _launches.setdefault(id(kernel), (kernel, Counter()))
    counts[", ".join(map(_type_name, staged))] += 1
    if on_gpu:
        _run_on_gpu(kernel, (grid, block), shared, staged, tensors[0].device)
    else:
        with np.errstate(all="ignore"):  # overflow to inf is what the hardware does
            kernel[grid, block, 0, shared](*[a.numpy() if isinstance(a, Tensor) else a for a in staged])
    for argument, passed in zip(arguments, staged, strict=True):
        if not isinstance(argument, Output) or passed.data_ptr() == argument.tensor.data_ptr():
            continue
        if on_gpu:
            argument.tensor.copy_(passed)
        else:
            _copy_written(argument.tensor.detach(), passed)
            carry_over(passed, argument.tensor)


def launch_elementwise(kernel: Any, n: int, *arguments: Any) -> None:
    """:func:`launch` with one thread per element: ceil(n / 256) blocks of 256 threads."""
    launch(kernel, -(-n // THREADS_PER_BLOCK), *arguments)


def threads_for(columns: int) -> int:
    """The number of threads in a block for a row of ``columns`` elements: as many warps as have an element, up to 256
    threads.

    >>> threads_for(2), threads_for(33), threads_for(1000)
    (32, 64, 256)
    """
    return min(32 * max(1, -(-columns // 32)), THREADS_PER_BLOCK)


def launch_rows(plain: Any, in_registers: Any, x: Tensor, *arguments: Any, after: tuple[Any, ...] = ()) -> None:
    """:func:`launch` of a kernel over the rows of ``x``, chosen by type and length as in the port.

    ``in_registers`` has a team of threads per row, which holds :data:`ELEMENTS_PER_THREAD` elements per thread: 4
    threads, a warp or the block, the smallest that is enough. Its last argument is the number of threads in a team.
    ``plain`` has a block per row, of :func:`threads_for` it; it is used for longer rows, and for float64.

    Args:
        plain, in_registers: kernels of ``(x, *arguments, rows, columns, *after)``.
        x: a matrix, whose rows and columns are passed after ``arguments``. If there are none, nothing is launched.
        arguments, after: as for :func:`launch`.
    """
    count, columns = x.shape
    if columns == 0:
        return
    least = -(-columns // ELEMENTS_PER_THREAD)
    team = 4 if least <= 4 else 32 if least <= 32 else THREADS_PER_BLOCK
    if x.dtype == torch.float64 or columns > team * ELEMENTS_PER_THREAD:
        launch(plain, count, x, *arguments, count, columns, *after, block=threads_for(columns))
    else:
        grid = -(-count * team // THREADS_PER_BLOCK)
        launch(in_registers, grid, x, *arguments, count, columns, *after, team)


def launches(kernel: Any) -> dict[str, int]:
    """How often :func:`launch` launched a kernel in this process, by argument types such as "float32[2], int": numba
    compiles an instance of the kernel for each."""
    return dict(_launches[id(kernel)][1]) if id(kernel) in _launches else {}


def _type_name(argument: Any) -> str:
    if isinstance(argument, Tensor):
        return f"{str(argument.dtype).removeprefix('torch.')}[{argument.dim()}]"
    return type(argument).__name__


def _stage(argument: Any) -> Any:
    tensor = argument.tensor if isinstance(argument, Output) else argument
    if not isinstance(tensor, Tensor):
        return tensor
    tensor = tensor.detach()
    # Kernels do not compute in floating-point types of fewer than 4 bytes.
    narrow = tensor.is_floating_point() and tensor.element_size() < 4
    dtype = torch.float32 if narrow else tensor.dtype
    if tensor.is_cuda:
        return tensor.to(dtype)
    if tensor.dtype == dtype and tensor.is_contiguous():
        return tensor
    # Numba's simulator accepts no strided array.
    return _copy_written(torch.empty(tensor.shape, dtype=dtype, device=tensor.device), tensor)


def _copy_written(to: Tensor, source: Tensor) -> Tensor:
    """Copies the elements that were written; the others of ``to`` are left unchanged, and uninitialised if they
    were."""
    missing = unwritten(source)
    if missing is None:
        return to.copy_(source)
    return to.copy_(torch.where(missing, to, source.to(to.dtype)))


def _run_on_gpu(kernel: Any, extents: Any, shared: int, arguments: list[Any], device: torch.device) -> None:
    with torch.cuda.device(device):
        stream = cuda.external_stream(torch.cuda.current_stream(device).cuda_stream)
        arrays = [cuda.as_cuda_array(a, sync=False) if isinstance(a, Tensor) else a for a in arguments]
        kernel[*extents, stream, shared](*arrays)


def _on_several_devices(kernel: Any, arguments: tuple[Any, ...]) -> str:
    function = kernel.py_func if hasattr(kernel, "py_func") else kernel.fn  # the latter in the simulator
    devices = {
        name: (each.tensor if isinstance(each, Output) else each).device
        for name, each in zip(inspect.signature(function).parameters, arguments, strict=False)
        if isinstance(each, Output | Tensor)
    }
    (first, one), *others = devices.items()
    name, other = next((name, device) for name, device in others if device != one)
    return (
        f"{function.__name__}: {first} and {name} must be on the same device, but {first} is on {one} and {name} is on "
        f"{other}; move one with {name}.to({first}.device)"
    )


def _require_mode(on_gpu: bool) -> None:
    if on_gpu and simulated():
        raise PrototypeError(
            "the prototype's tensors are on a GPU, but Numba's simulator is switched on in this process",
            "unset NUMBA_ENABLE_CUDASIM before Python starts, or pass CPU tensors",
        )
    if not on_gpu and not simulated():
        raise PrototypeError(
            "the prototype's tensors are on the CPU, but numba was imported before its simulator was switched on",
            "set NUMBA_ENABLE_CUDASIM=1 before Python starts, or load the prototype before anything imports numba",
        )
