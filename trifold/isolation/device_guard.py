"""A guard allocator for GPUs: a kernel's access past a tensor's end or before its start is an illegal memory access.

All of torch's memory on GPUs is allocated through it, in a process that installs it before anything uses CUDA::

    device_guard.install()
    with device_guard.armed("end"):
        y = kernel(x)  # the next call that waits for the GPU raises: an illegal memory access was encountered
    for line in device_guard.damage():
        ...  # writes on a block's other side

Memory is mapped in granules of 2 MiB. A block ends directly before addresses without memory (or up to 15 bytes before
them, since it begins at a multiple of 16), or begins directly after them. It is initialised to NaN in every floating
type, and so is the rest of its granules: results show a read there, and :func:`damage` a write within 64 KiB of the
block.

compute-sanitizer knows the sizes of allocations, so under it :func:`allocate_whole_vectors` guards nothing.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from trifold import installed
from trifold.errors import ToolchainError
from trifold.isolation.guard import PLACEMENTS, Mode, read_damage

_LIBRARY = "libtrifold_device_guard.so"
_MESSAGE_BYTES = 1024
DRIVER = "libcuda.so.1"
# An environment variable: if set, the op's process calls allocate_whole_vectors.
WHOLE_VECTORS = "TRIFOLD_WHOLE_VECTORS"

_installed = False
_of_whole_vectors = False


@functools.cache
def _built() -> ctypes.CDLL:
    path = installed.find(_LIBRARY)
    if path is None:
        raise ToolchainError(
            f"trifold's guard allocator for GPUs ({_LIBRARY}) is not built here", "install trifold with `pip install .`"
        )
    guard = ctypes.CDLL(str(path))
    guard.trifold_device_guard_check.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    guard.trifold_device_guard_check.restype = ctypes.c_size_t
    return guard


@functools.cache
def library(driver: str = DRIVER) -> ctypes.CDLL:
    """The allocator, after a test on the first GPU that blocks lie next to addresses without memory.

    Args:
        driver: the file name of CUDA's driver.

    Raises:
        ToolchainError: it was not built, there is no driver, or the driver cannot map virtual memory.
    """
    guard = _built()
    guard.trifold_device_guard_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    guard.trifold_device_guard_malloc.restype = ctypes.c_void_p
    guard.trifold_device_guard_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    guard.trifold_device_guard_free.restype = None
    guard.trifold_device_guard_holds.argtypes = [ctypes.c_void_p]
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    if guard.trifold_device_guard_open(driver.encode(), 0, message, _MESSAGE_BYTES):
        raise ToolchainError(
            f"memory of the GPU cannot be guarded: {message.value.decode()}",
            "update the driver; it needs a GPU with virtual memory management",
        )
    return guard


def install() -> None:
    """Make torch allocate all memory on GPUs through the guard, until this process ends.

    Raises:
        ToolchainError: see :func:`library`; or torch has used CUDA before, or its allocator cannot be replaced.
    """
    global _installed
    guard = library()
    if _installed:
        return
    probe = _take_over("trifold_device_guard")
    if not guard.trifold_device_guard_holds(probe.data_ptr()):
        raise ToolchainError(
            "torch allocates memory of the GPU some other way than by its current allocator",
            f"use a torch that trifold supports, not {torch.__version__}",
        )
    _installed = True


def _take_over(functions: str) -> torch.Tensor:
    """Make torch allocate through the library's functions ``<functions>_malloc`` and ``_free``; returns a first
    block."""
    path = str(installed.find(_LIBRARY))
    try:
        allocator = torch.cuda.memory.CUDAPluggableAllocator(path, f"{functions}_malloc", f"{functions}_free")
        torch.cuda.memory.change_current_allocator(allocator)
        return torch.empty(1, dtype=torch.uint8, device="cuda")
    except (AttributeError, RuntimeError) as error:
        raise ToolchainError(
            f"torch does not take trifold's allocator: {error}", "install it before CUDA is used, in torch with CUDA"
        ) from error


def allocate_whole_vectors() -> None:
    """Make torch allocate each block on a GPU separately, with a multiple of 16 bytes.

    compute-sanitizer 2025.3 counts a copy of 16 bytes that leaves some out (``cp.async`` with a size) as a read of all
    16: at the end of a tensor of 444 bytes it would report it. :func:`damage` reports writes into the bytes past the
    end, which the tool then takes for the tensor's own.

    Raises:
        ToolchainError: see :func:`install`.
    """
    global _of_whole_vectors
    guard, message = _built(), ctypes.create_string_buffer(_MESSAGE_BYTES)
    if guard.trifold_whole_vectors_open(DRIVER.encode(), message, _MESSAGE_BYTES):
        raise ToolchainError(f"the driver cannot be used: {message.value.decode()}", "update it")
    _take_over("trifold_whole_vectors")
    _of_whole_vectors = True


def allocates_whole_vectors() -> bool:
    """Whether :func:`allocate_whole_vectors` has succeeded in this process."""
    return _of_whole_vectors


def is_active() -> bool:
    """Whether :func:`install` has succeeded in this process."""
    return _installed


def holds(pointer: int) -> bool:
    """Whether ``pointer`` (such as ``tensor.data_ptr()``) is in a guarded block."""
    return bool(library().trifold_device_guard_holds(pointer))


@contextmanager
def armed(mode: Mode) -> Iterator[None]:
    """Choose the placement of blocks that any thread allocates within the context. Outside of it they are guarded as
    well.

    Args:
        mode: ``end`` places a block's last byte (or one of the 16 there) directly before addresses without memory,
            ``start`` its first byte directly after them.
    """
    library().trifold_device_guard_place(PLACEMENTS[mode])
    yield


def damage() -> list[str]:
    """One line for each block's side that was overwritten since the last call: see
    :func:`trifold.isolation.guard.damage`."""
    return read_damage(_built().trifold_device_guard_check)
