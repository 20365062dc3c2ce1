"""The simulator's C++ part: launches, what device code asks and calls, arrays, arithmetic."""

from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

_T = TypeVar("_T")

# Launching ---------------------------------------------------------------------------------------------------------

def launch(
    function: Callable[..., Any],
    generator: bool,
    kernel_name: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    dynamic_shared_bytes: int,
    arguments: tuple[Any, ...],
    checks: int,
    seed: int,
    limits: tuple[int, ...] | None = None,
    cooperative: bool = False,
    /,
) -> None:
    """Runs a kernel: ``function(*arguments)`` once a CUDA thread.

    ``generator``: calling the function makes a generator (or any object with ``__next__`` and ``send``) that yields
    what the thread waits for: a site for ``syncthreads()``, else ``(site, OP_…, operand, …)``; what is sent back is the
    operation's result. ``seed`` 0 is the natural order of blocks and threads. ``limits`` of the device: static shared
    bytes, shared bytes a block, multiprocessors, and for one multiprocessor threads, blocks, shared bytes; sm_90
    without. ``cooperative``: the grid synchronises, which is checked before it starts.

    An exception of the kernel keeps its type and begins with ``tid=[x, y, z] ctaid=[x, y, z]``. Another Python thread's
    launch waits until this one has ended.

    Raises:
        trifold.KernelFault: a check found a mistake.
        trifold.errors.LaunchError: the device could not hold the launch, or a kernel launches another one.
    """

def seam(function: Callable[..., _T]) -> Callable[..., _T]:
    """``function`` as a C callable that binds like a method and leaves no frames of the simulator in tracebacks.

    Where it returns a generator, on the host, that is run to its end, and what it yields are arguments of
    :func:`launch`: so no frame of the simulator is on the stack while a kernel runs, whatever debugger looks at it.

    What lies in the folder of the function's source counts as the simulator. TRIFOLD_ENGINE_TRACEBACK=1 keeps all.
    """

def current() -> tuple[tuple[int, int, int], tuple[int, int, int]] | None:
    """threadIdx and blockIdx of the CUDA thread that runs; None outside a kernel."""

def launcher() -> FrameType | None:
    """The frame that called :func:`launch`; a kernel's outermost frames have it as ``f_back``."""

def threads() -> list[tuple[tuple[int, int, int], str, str, int]]:
    """Each thread of the block that runs: threadIdx; "runs", "may go on", "waits", "has ended" or "has not begun"; the
    file and line where it waits or waited last, "" and 0 where it does not."""

def set_switch(switch: Callable[[Any], Any] | None, /) -> Callable[[Any], Any] | None:
    """What ``cuda.syncthreads()`` and its like call in code that was not rewritten, with what a kernel would yield.

    Gives back what it was before.
    """

def register_site(file: str, line: int, function: str, /) -> int:
    """The number by which a yield names this line."""

OP_SYNCTHREADS_COUNT: int  # predicate
OP_SYNCTHREADS_AND: int  # predicate
OP_SYNCTHREADS_OR: int  # predicate
OP_GRID_SYNC: int
OP_SYNCWARP: int  # mask = all
OP_SHFL: int  # mask, value, source lane
OP_SHFL_UP: int  # mask, value, delta
OP_SHFL_DOWN: int  # mask, value, delta
OP_SHFL_XOR: int  # mask, value, lane mask
OP_SHFL_INTRINSIC: int  # mask, mode, value, source lane or delta or lane mask, clamp
OP_ALL: int  # mask, predicate
OP_ANY: int  # mask, predicate
OP_EQ: int  # mask, predicate
OP_BALLOT: int  # mask, predicate
OP_VOTE_INTRINSIC: int  # mask, mode, predicate
OP_MATCH_ANY: int  # mask, value
OP_MATCH_ALL: int  # mask, value
OP_ACTIVEMASK: int
OP_POLL: int

# What a kernel asks about itself -----------------------------------------------------------------------------------

class Index3:
    """threadIdx, blockIdx, blockDim or gridDim of the CUDA thread that runs."""

    @property
    def x(self) -> int: ...
    @property
    def y(self) -> int: ...
    @property
    def z(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...

threadIdx: Index3
blockIdx: Index3
blockDim: Index3
gridDim: Index3
laneid: Any  # the running thread's lane: an int wherever a number is used, and by calling it
warpsize: int

def grid(ndim: int, /) -> Any: ...
def gridsize(ndim: int, /) -> Any: ...
def lanemask_lt() -> Any: ...
def threadfence() -> None: ...
def threadfence_block() -> None: ...
def threadfence_system() -> None: ...
def nanosleep(ns: Any, /) -> None: ...

class GridGroup:
    """All threads of a cooperative launch."""

    def sync(self) -> None: ...

def this_grid() -> GridGroup: ...

# In code that was not rewritten, these switch to another thread through set_switch's function.
def syncthreads() -> None: ...
def syncthreads_count(predicate: Any, /) -> int: ...
def syncthreads_and(predicate: Any, /) -> int: ...
def syncthreads_or(predicate: Any, /) -> int: ...
def grid_sync() -> None: ...
def syncwarp(mask: Any = ..., /) -> None: ...
def shfl_sync(mask: Any, value: Any, src_lane: Any, /) -> Any: ...
def shfl_up_sync(mask: Any, value: Any, delta: Any, /) -> Any: ...
def shfl_down_sync(mask: Any, value: Any, delta: Any, /) -> Any: ...
def shfl_xor_sync(mask: Any, value: Any, lane_mask: Any, /) -> Any: ...
def shfl_sync_intrinsic(mask: Any, mode: Any, value: Any, lane: Any, clamp: Any, /) -> tuple[Any, bool]: ...
def all_sync(mask: Any, predicate: Any, /) -> bool: ...
def any_sync(mask: Any, predicate: Any, /) -> bool: ...
def eq_sync(mask: Any, predicate: Any, /) -> bool: ...
def ballot_sync(mask: Any, predicate: Any, /) -> Any: ...
def vote_sync_intrinsic(mask: Any, mode: Any, predicate: Any, /) -> tuple[Any, bool]: ...
def match_any_sync(mask: Any, value: Any, /) -> Any: ...
def match_all_sync(mask: Any, value: Any, /) -> tuple[Any, bool]: ...
def activemask() -> Any: ...
