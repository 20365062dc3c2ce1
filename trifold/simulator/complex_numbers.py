"""complex64 with Numba's semantics: its parts are float32s, and with an int64 or a float64 it becomes a complex128.

NumPy's own complex64 ignores the type of a Python number combined with it, and its parts are NumPy's scalars.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

import numpy as np

from trifold import _simulator


class Complex64(np.complex64):
    """The type of elements of a complex64 array in a kernel, and of results computed from them."""

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
    """The two methods of an operator, from the device's function for it."""
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
    """``np.complex64`` and ``numba.complex64``: from a number, or from two parts."""
    return Complex64(complex(*parts))  # from one part: complex(z, 0) would lose the sign of a zero


def complex128(*parts: Any) -> np.complex128:
    """``np.complex128`` and ``numba.complex128``: from a number, or from two parts."""
    return np.complex128(complex(*parts))


def complex_of(*parts: Any) -> Any:
    """``complex``: a complex64 from float32s, else a complex128."""
    made = complex(*parts)
    return Complex64(made) if all(type(part) is _FLOAT32 for part in parts) else made


_FLOAT32 = type(_simulator.float32(0))


# cmath --------------------------------------------------------------------------------------------------------------

# Numba has each for complex64 and complex128, and uses the first if it holds every operand; uint16 counts as held.
_SMALL: tuple[type, ...] = (
    bool,
    np.complex64,
    *(type(getattr(_simulator, name)(0)) for name in ("int8", "int16", "uint8", "float16", "float32")),
)
_OF_COMPLEX: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(np, name) for name in ("cos", "cosh", "exp", "log10", "sin", "sinh", "sqrt", "tan", "tanh")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
}


def _rounded(value: Any, parts: tuple[Any, ...]) -> Any:
    return Complex64(value) if all(isinstance(part, _SMALL) for part in parts) else np.complex128(value)


def _cmath_function(name: str, in_numpy: Callable[[Any], Any]) -> Callable[[Any], Any]:
    in_python = getattr(cmath, name)

    def computed(z: Any) -> Any:
        try:
            return _rounded(in_python(complex(z)), (z,))
        except (ValueError, OverflowError):  # a GPU raises nothing
            with np.errstate(all="ignore"):
                return _rounded(in_numpy(np.complex128(complex(z))), (z,))

    return computed


def _log(*parts: Any) -> Any:
    with np.errstate(all="ignore"):
        logarithms = [np.log(np.complex128(complex(part))) for part in parts]
        return _rounded(logarithms[0] / logarithms[1] if len(parts) > 1 else logarithms[0], parts)


def _real(value: float, z: Any) -> Any:
    return _FLOAT32(value) if isinstance(z, np.complex64) else value


def _phase(z: Any) -> Any:
    return _real(cmath.phase(complex(z)), z)


def _polar(z: Any) -> tuple[Any, Any]:
    return _real(float(np.abs(np.complex128(complex(z)))), z), _phase(z)


#: Device functions for cmath's functions of one number, by name.
CMATH: dict[str, Callable[..., Any]] = {
    name: _cmath_function(name, function) for name, function in _OF_COMPLEX.items()
} | {
    "log": _log,
    "phase": _phase,
    "polar": _polar,
}
