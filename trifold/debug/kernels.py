"""The kernels and device functions of a prototype, and the lines at which a debugger can stop in them."""

from __future__ import annotations

from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from trifold.debug.sample import DebugError


def check_line(prototype: ModuleType, path: Path, line: int) -> None:
    """Raise :class:`DebugError` unless a statement of a kernel or device function in ``path`` begins at ``line``."""
    functions = [f for f in device_functions(prototype).values() if f.__code__.co_filename == str(path)]
    stops = sorted({stop for function in functions for stop in _lines(function.__code__)})
    if line in stops:
        return
    around = next((f for f in functions if f.__code__.co_firstlineno <= line <= max(_lines(f.__code__))), None)
    if around is not None:
        later = next(stop for stop in stops if stop > line)
        raise DebugError(f"no statement begins at {path}:{line}, in {around.__name__}", f"the next one: --line {later}")
    listing = ", ".join(f"{f.__name__} {min(_lines(f.__code__))}-{max(_lines(f.__code__))}" for f in functions)
    raise DebugError(f"{path}:{line} is not in a kernel", f"the lines of its kernels: {listing}")


def device_functions(prototype: ModuleType) -> dict[str, FunctionType]:
    """The kernels and device functions in ``prototype``, defined or imported there, by name."""
    functions = {name: getattr(value, "fn", None) for name, value in vars(prototype).items()}  # FakeCUDAKernel.fn
    return {name: function for name, function in functions.items() if isinstance(function, FunctionType)}


def _lines(code: CodeType) -> set[int]:
    """The lines at which tracing stops, without that of ``def``."""
    lines = {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            lines |= _lines(constant)
    return lines
