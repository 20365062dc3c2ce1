"""The random state of one draw, for ops that generate their random numbers inside the kernel with Philox.

A draw is identified by a seed of 64 bits and an offset that is a multiple of 4. The seed is the kernel's key, the
offset a part of its counter, as in torch's own CUDA kernels: draws never share numbers, neither with each other nor
with torch's own draws from the same generator.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

import torch
from torch import Tensor

#: The advance of a CUDA generator by one draw: the number of 32-bit words of a Philox call.
PHILOX_OFFSET = 4

_SEEDS_A_POOL = 64
_TOP = 2**63 - 1
_is_compiling = torch.compiler.is_compiling
_draw_lock = threading.Lock()
_captured = threading.local()


def philox_state(device: torch.device, generator: torch.Generator | None = None) -> tuple[int, int, Tensor | None]:
    """Return the state of the next draw on ``device``, and advance the generator past it.

    Args:
        device: where the kernel runs.
        generator: the source of randomness; default: torch's own for ``device``.

    Returns:
        ``(seed, offset, state)``. ``state`` is None, or an int64 tensor of one element on ``device`` that holds the
        seed; ``seed`` is then 0 and not to be used.

        - CUDA: the generator's own seed and offset, read on the host; no kernel is launched, and there is no
          synchronisation.
        - CUDA while a graph is captured: a state that torch draws anew on each replay, as ``torch.randn`` does.
          One random kernel serves 64 draws of one capture on one stream.
        - CPU: a seed drawn from the generator.
        - Under ``torch.compile``: a state that torch draws.

    Raises:
        RuntimeError: ``generator`` is for another device, or is given under ``torch.compile``.

    A draw is atomic among threads that call this function. Threads that use one CUDA generator both here and in torch's
    own random functions must synchronise.
    """
    if _is_compiling():
        if generator is not None:
            raise RuntimeError("generator must be None under torch.compile; seed with torch.manual_seed instead")
        return 0, 0, torch.randint(_TOP, (1,), dtype=torch.int64, device=device)
    if generator is not None:
        _check_generator(device, generator)
    default = _default_generator(device)
    if default is None:
        return int(torch.randint(_TOP, (), dtype=torch.int64, device="cpu", generator=generator)), 0, None
    generator = generator or default
    if device.index != torch.cuda.current_device():
        with torch.cuda.device(device):
            return philox_state(device, generator)
    try:
        with _draw_lock:
            offset = generator.get_offset()
            generator.set_offset(offset + PHILOX_OFFSET)
    except RuntimeError:  # both refuse while a graph is captured; asking first takes as long as either
        if torch.cuda.is_current_stream_capturing():
            return 0, 0, _captured_seed(device, generator)
        raise
    seed = generator.initial_seed()
    return seed if seed <= _TOP else seed - 2**64, offset, None


@functools.cache  # making the string `device.type` costs as much as two calls of a generator
def _default_generator(device: torch.device) -> torch.Generator | None:
    """The default generator of torch's random functions on a CUDA device; None for other devices."""
    return torch.cuda.default_generators[device.index] if device.type == "cuda" else None


def _check_generator(device: torch.device, generator: torch.Generator) -> None:
    own = generator.device
    if own.type != device.type or own.index not in (None, device.index):
        raise RuntimeError(
            f"generator must be on the device of the result, {device}, but is on {own}; "
            f"make it with torch.Generator('{device}')"
        )


# ------------------------------------------------------------------------------------------- CUDA-graph capture


def _captured_seed(device: torch.device, generator: torch.Generator | None) -> Tensor:
    """One element of a pool of seeds that the running capture draws with torch's own kernel.

    A pool serves one capture and one stream: a replay draws it before it is read, on the stream that reads it.
    It is kept here until this thread draws in another capture; each element handed out keeps its memory too.
    """
    stream = torch.cuda.current_stream(device).cuda_stream
    capture = _capture_id(stream)
    if getattr(_captured, "capture", None) != capture:
        _captured.capture, _captured.pools = capture, {}
    pools: dict[Any, list[Tensor]] = _captured.pools
    key = (stream, generator)
    if not pools.get(key):
        seeds = torch.randint(_TOP, (_SEEDS_A_POOL,), dtype=torch.int64, device=device, generator=generator)
        pools[key] = list(seeds.split(1))[::-1]
    return pools[key].pop()


def _capture_id(stream: int) -> int:
    """The number, unique in this process, of the capture that ``stream`` takes part in."""
    status, number = ctypes.c_int(), ctypes.c_ulonglong()
    # Later versions of this entry point have more outputs, all of which may be null; earlier ones ignore them.
    nulls = (ctypes.c_void_p(),) * 4
    error = _driver().cuStreamGetCaptureInfo(
        ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number), *nulls
    )
    if error != 0:
        raise RuntimeError(f"cuStreamGetCaptureInfo failed with CUDA error {error}")
    return number.value


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")
