"""The seam: what the simulator replaces in Numba's simulator, for numba's built-in target and for numba-cuda's.

``FakeCUDAKernel`` stays; its ``__call__`` runs our launch. ``kernel[...]`` returns a configured copy, as on a GPU, so
that two configurations of one kernel do not overwrite each other; ``forall`` covers its tasks with whole blocks, as a
GPU does. ``numba.cuda`` gets the names that it lacks in simulator mode, so that ``from numba.cuda import grid`` works.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from trifold import _simulator
from trifold.errors import LaunchError
from trifold.limits import cooperative_blocks
from trifold.simulator import breakpoints, stepping, uninitialised
from trifold.simulator.arithmetic import cast_to
from trifold.simulator.device import DeviceVocabulary, cg, device_names, refuse_configured
from trifold.simulator.launch import Launcher
from trifold.simulator.programs import Programs
from trifold.simulator.settings import current
from trifold.simulator.signatures import keeping_signatures

_MISSING = object()
_THREADS_OF_FORALL = 128  # default; on a GPU Numba uses the occupancy optimum


class Seam:
    """The replaced attributes, and their original values."""

    def __init__(self) -> None:
        from numba import cuda
        from numba.cuda.errors import normalize_kernel_dimensions
        from numba.cuda.simulator.cudadrv import devicearray
        from numba.cuda.simulator.kernel import FakeCUDAKernel, FakeOverload
        from numba.cuda.simulator.vector_types import SimulatedVectorType

        self._cuda = cuda
        self._kernel_class = FakeCUDAKernel
        self._normalized = normalize_kernel_dimensions
        self._programs = Programs(DeviceVocabulary(FakeCUDAKernel))
        self._launcher = Launcher(self._programs)
        self._before: list[tuple[Any, str, Any]] = []
        self._modules: dict[str, ModuleType | None] = {}
        self._replace(FakeCUDAKernel, "__call__", _simulator.seam(self._call))
        self._replace(FakeCUDAKernel, "__getitem__", lambda kernel, where: self._configured(kernel, where))
        self._replace(FakeCUDAKernel, "forall", self._forall(FakeCUDAKernel.forall))
        self._replace(FakeOverload, "max_cooperative_grid_blocks", _cooperative_blocks)
        self._replace(SimulatedVectorType, "__init__", _converting(SimulatedVectorType.__init__))
        self._replace_jit()
        for name, value in device_names().items():
            self._replace(cuda, name, value)
        self._replace_module("numba.cuda.cg", cg)
        for name in ("device_array", "mapped_array", "managed_array"):
            if hasattr(devicearray, name):
                allocate = _allocating(getattr(devicearray, name))
                self._replace(devicearray, name, allocate)
                if hasattr(cuda, name):
                    self._replace(cuda, name, allocate)
        _simulator.set_switch(_switch)

    def remove(self) -> None:
        """Restore everything."""
        for owner, name, value in reversed(self._before):
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        self._before.clear()
        for name, module in self._modules.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
        _simulator.set_switch(None)

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def _replace_module(self, name: str, module: ModuleType) -> None:
        """The object that ``import`` finds under this name."""
        self._modules[name] = sys.modules.get(name)
        sys.modules[name] = module

    def _replace_jit(self) -> None:
        from numba.cuda import simulator
        from numba.cuda.simulator import api

        jit = keeping_signatures(api.jit)
        for module in (api, simulator, self._cuda):
            self._replace(module, "jit", jit)

    def _call(self, kernel: Any, *arguments: Any, **keywords: Any) -> Any:
        if _simulator.current() is not None:
            refuse_configured(kernel)
            return self._programs.call_inside(kernel.fn, arguments, keywords)
        if kernel._device:  # as in Numba's simulator: on the host a device function is a Python function
            return kernel.fn(*arguments, **keywords)
        if keywords:
            raise LaunchError(
                f"{kernel.__name__} is launched with keyword arguments ({', '.join(keywords)})", "pass all by position"
            )
        if not kernel.__dict__.get("configured"):
            self._normalized(kernel.grid_dim, kernel.block_dim)  # Numba's own message, if there is one
        return self._launcher.launch(kernel, arguments)

    def _configured(self, kernel: Any, where: Any) -> Any:
        grid, block = self._normalized(*where[:2])
        configured = object.__new__(type(kernel))
        vars(configured).update(vars(kernel))
        configured.grid_dim = tuple(map(int, grid))
        configured.block_dim = tuple(map(int, block))
        configured.dynshared_size = int(where[3]) if len(where) == 4 else 0
        configured.configured = True
        return configured

    def _forall(self, before: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(before)
        def forall(kernel: Any, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Any:
            if ntasks <= 0:
                before(kernel, ntasks)  # Numba's own message for a negative number
                return _nothing_to_do
            threads = tpb or _THREADS_OF_FORALL
            return kernel[-(-ntasks // threads), threads, stream, sharedmem]

        return forall


def _nothing_to_do(*arguments: Any) -> None:
    """A launch without tasks."""


def _cooperative_blocks(overload: Any, blockdim: Any, dynsmemsize: int = 0) -> int:
    """For ``kernel.overloads[signature].max_cooperative_grid_blocks``; Numba's own simulator allows one block."""
    return cooperative_blocks(current().compute_capability, blockdim, dynsmemsize)


def _converting(before: Callable[..., None]) -> Callable[..., None]:
    """Converts the components of ``float32x3`` and the like to its number type; Numba's simulator keeps what it
    gets."""

    @functools.wraps(before)
    def made(vector: Any, *components: Any) -> None:
        before(vector, *components)
        cast = cast_to(type(vector).__name__.partition("x")[0])
        if cast is not None:
            vars(vector).update({name: cast(getattr(vector, name)) for name in vector._attrs})

    return made


def _allocating(allocate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(allocate)
    def allocated(*arguments: Any, **keywords: Any) -> Any:
        array = allocate(*arguments, **keywords)
        uninitialised.fill(getattr(array, "_ary", array))
        return array

    return allocated


def _switch(request: Any) -> Any:
    from trifold.simulator.fallback import in_thread, switch  # greenlet is only needed for code without source

    if request[1] == _simulator.OP_POLL and not in_thread():
        return None  # nanosleep() in rewritten code, whose loops poll by themselves
    return switch(request)


_installed: Seam | None = None


def put_in() -> None:
    """Replace Numba's simulator by this one; further calls do nothing."""
    global _installed
    if _installed is None:
        _installed = Seam()
        stepping.install()
        breakpoints.install()


def take_out() -> None:
    """Let Numba's own simulator run kernels again."""
    global _installed
    if _installed is not None:
        _installed.remove()
        _installed = None
        breakpoints.uninstall()
        stepping.uninstall()
