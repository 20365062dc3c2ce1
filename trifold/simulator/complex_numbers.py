"""complex64 as Numba has it: its parts are float32s, and with an int64 or a float64 it becomes a complex128.

NumPy's own leaves the type of a Python number beside it out of account, and its parts are NumPy's scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trifold import _simulator


class Complex64(np.complex64):
    """What a kernel reads from an array of complex64, and computes from such numbers."""

    __slots__ = ()

    @property
    def real(self) -> Any:
        return _simulator.float32(float(super().real))

    @property
    def imag(self) -> Any:
        return _simulator.float32(float(super().imag))

    def conjugate(self) -> Complex64:
        return Complex64(super().conjugate())

    def __neg__(self) -> Complex64:
        return Complex64(super().__neg__())

    def __pos__(self) -> Complex64:
        return self


_NAMES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32")
_NUMBERS: tuple[type, ...] = (
    int,
    float,
    complex,
    np.number,
    np.bool_,
    *(type(getattr(_simulator, name)(0)) for name in _NAMES),
)


def _operator(name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The two methods of an operator, by the device's function for it."""
    operate = getattr(_simulator, name)

    def method(self: Complex64, other: Any) -> Any:
        return operate(self, other) if isinstance(other, _NUMBERS) else NotImplemented

    def reflected(self: Complex64, other: Any) -> Any:
        return operate(other, self) if isinstance(other, _NUMBERS) else NotImplemented

    return method, reflected


for _name in ("add", "sub", "mul", "truediv", "pow"):
    _method, _reflected = _operator(_name)
    setattr(Complex64, f"__{_name}__", _method)
    setattr(Complex64, f"__r{_name}__", _reflected)


def complex64(*parts: Any) -> Complex64:
    """``np.complex64`` and ``numba.complex64``: of a number, or of two parts."""
    return Complex64(complex(*parts))  # of one part: complex(z, 0) would lose the sign of a zero


def complex_of(*parts: Any) -> Any:
    """``complex``: a complex64 of float32s, else a complex128."""
    made = complex(*parts)
    return Complex64(made) if all(type(part) is _FLOAT32 for part in parts) else made


_FLOAT32 = type(_simulator.float32(0))
