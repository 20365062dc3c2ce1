"""Memory of a GPU that a process shares with another, by the driver's interprocess handles.

Each block is a separate allocation, so that the other process can map it without other memory of this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

_MAP_ON_DEMAND = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
_SLEEP = 4  # CU_CTX_SCHED_BLOCKING_SYNC
_GRANULE = 2 * 2**20  # of a driver's allocation: smaller ones may share a page
_STAGED = 2**20  # elements of a tensor; a copy of more takes longer than the wait
_MOST_KEPT = 2**30  # bytes that torch may keep cached: other processes need the rest


class _Handle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_byte * 64),)


class DriverError(RuntimeError):
    """The driver returned an error."""


class DeviceBytes:
    """Device memory, presented to torch by the CUDA array interface, without a copy."""

    def __init__(self, pointer: int, count: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 2,
        }

    def tensor(self, device: torch.device) -> Tensor:
        return torch.as_tensor(self, device=device)


class Lent:
    """A tensor's bytes, which another process can map until :meth:`release`.

    Args:
        block: the bytes.
        in_place: lend the block's own memory if it is a separate allocation: the other process can write into it.
            Otherwise lend a copy.

    Attributes:
        handle: for :func:`borrowed`, in hexadecimal digits.

    Raises:
        DriverError: there is not enough memory, or memory cannot be shared.
    """

    def __init__(self, block: Tensor, *, in_place: bool = False) -> None:
        self._device, self._copy = block.device, ctypes.c_uint64()
        with torch.cuda.device(self._device):
            torch.cuda.synchronize()
            if in_place and _is_an_allocation(block):
                self.handle = _handle_of(ctypes.c_uint64(block.data_ptr()))
                self._block = block  # keeps the memory alive
                return
            self._allocate(max(block.numel(), _GRANULE))
            try:
                self.handle = _handle_of(self._copy)
            except DriverError:
                self.release()
                raise
            DeviceBytes(self._copy.value, block.numel()).tensor(self._device).copy_(block)
            torch.cuda.synchronize()

    def _allocate(self, size: int) -> None:
        try:
            _call("cuMemAlloc_v2", ctypes.byref(self._copy), ctypes.c_size_t(size))
        except DriverError:  # torch may have cached memory that it does not need
            torch.cuda.empty_cache()
            _call("cuMemAlloc_v2", ctypes.byref(self._copy), ctypes.c_size_t(size))

    def release(self) -> None:
        if self._copy.value:
            with torch.cuda.device(self._device):
                _call("cuMemFree_v2", self._copy)


def _handle_of(pointer: ctypes.c_uint64) -> str:
    handle = _Handle()
    _call("cuIpcGetMemHandle", ctypes.byref(handle), pointer)
    return bytes(handle).hex()


def _is_an_allocation(block: Tensor) -> bool:
    """Whether a block of bytes is a whole allocation of the driver, up to the rounding of its size."""
    begin, size = ctypes.c_uint64(), ctypes.c_size_t()
    try:
        _call("cuMemGetAddressRange_v2", ctypes.byref(begin), ctypes.byref(size), ctypes.c_uint64(block.data_ptr()))
    except DriverError:
        return False
    return begin.value == block.data_ptr() and size.value < block.numel() + _GRANULE


@contextlib.contextmanager
def borrowed(handle: str, count: int, device: torch.device) -> Iterator[Tensor]:
    """``count`` bytes of another process's :class:`Lent`, mapped within the context.

    Raises:
        DriverError: they cannot be mapped.
    """
    with torch.cuda.device(device):
        torch.cuda.synchronize()
        pointer = ctypes.c_uint64()
        found = _Handle.from_buffer_copy(bytes.fromhex(handle))
        _call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), found, ctypes.c_uint(_MAP_ON_DEMAND))
        try:
            yield DeviceBytes(pointer.value, count).tensor(device)
            torch.cuda.synchronize()
        finally:
            _call("cuIpcCloseMemHandle", pointer)


def staged(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors, with copies in the host's memory in place of small ones of a GPU, after one wait for all.

    While other processes use the GPU, each wait takes until it is this one's turn, so one for each copy would take most
    of a check's time. The copies are detached and contiguous. Tensors with more elements than ``_STAGED`` stay where
    they are, so that two of one shape are always on the same device.
    """
    copies = [_copy_to_host(tensor) if tensor.is_cuda and tensor.numel() <= _STAGED else tensor for tensor in tensors]
    wait_for(tensor for tensor, copy in zip(tensors, copies, strict=True) if copy is not tensor)
    return copies


def _copy_to_host(tensor: Tensor) -> Tensor:
    """An asynchronous copy. Of a tensor that is not plain and contiguous, torch would read it before it has arrived."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().to("cpu", non_blocking=True)


def wait_for(tensors: Iterable[Tensor]) -> None:
    """Wait for the copies from and to these tensors, in the current stream of their GPUs."""
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.current_stream(device).synchronize()


def give_back_what_is_kept() -> None:
    """Free memory of the GPU that torch has cached, if it is much: other processes need it."""
    if torch.cuda.is_initialized() and torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > _MOST_KEPT:
        torch.cuda.empty_cache()


def let_autograd_finish() -> None:
    """Wait until autograd's thread for a GPU has dropped the objects of the last backward, which happens some time
    after backward returned."""
    if torch.cuda.is_initialized() and not gpu_is_lost():
        torch.ones(1, device="cuda", requires_grad=True).sum().backward()


def wait_asleep() -> None:
    """Make this process sleep while it waits for a GPU. Must be called before the GPU is used.

    CUDA's default is to poll if no more processes use the GPU than there are cores. Workers and ops' processes share
    the GPU and wait for each other's kernels: polling would keep cores from those that compile.
    """
    with contextlib.suppress(DriverError):
        _call("cuInit", ctypes.c_uint(0))
        count = ctypes.c_int()
        _call("cuDeviceGetCount", ctypes.byref(count))
        for number in range(count.value):
            device = ctypes.c_int()
            _call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
            _call("cuDevicePrimaryCtxSetFlags_v2", device, ctypes.c_uint(_SLEEP))


def gpu_is_lost() -> bool:
    """Whether a kernel's fault has ended this process's use of the GPU, after which every call raises."""
    if not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DriverError(str(error)) from error


def _call(name: str, *arguments: object) -> None:
    status = getattr(_driver(), name)(*arguments)
    if status != 0:
        raise DriverError(f"{name} returns {status}")
