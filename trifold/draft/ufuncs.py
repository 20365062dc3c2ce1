"""NumPy's functions of numbers (ufuncs) that Numba's CUDA targets support; numba-cuda supports more than Numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core.typing import signature
from numba.np import numpy_support

#: By NumPy's names: those of floats, with their C++ names.
OF_FLOATS: dict[Any, str] = {
    np.arccos: "acos", np.arccosh: "acosh", np.arcsin: "asin", np.arcsinh: "asinh", np.arctan: "atan",
    np.arctan2: "atan2", np.arctanh: "atanh", np.cbrt: "cbrt", np.copysign: "copysign", np.cos: "cos",
    np.cosh: "cosh", np.deg2rad: "trifold::radians", np.degrees: "trifold::degrees", np.exp: "exp", np.exp2: "exp2",
    np.expm1: "expm1", np.fabs: "fabs", np.hypot: "hypot", np.log: "log", np.log10: "log10", np.log1p: "log1p",
    np.log2: "log2", np.rad2deg: "trifold::degrees", np.radians: "trifold::radians", np.rint: "rint", np.sin: "sin",
    np.sinh: "sinh", np.sqrt: "sqrt", np.tan: "tan", np.tanh: "tanh",
}  # fmt: skip

#: By NumPy's names: those that are other functions for integers, or none. For floats, and for integers.
OF_NUMBERS: dict[Any, tuple[str, str]] = {
    np.absolute: ("fabs", "abs"),
    np.ceil: ("ceil", ""),
    np.floor: ("floor", ""),
    np.trunc: ("trunc", ""),
    np.fmax: ("fmax", "max"),
    np.fmin: ("fmin", "min"),
    np.maximum: ("trifold::numpy_maximum", "max"),
    np.minimum: ("trifold::numpy_minimum", "min"),
    np.power: ("pow", "trifold::power"),
    np.sign: ("trifold::numpy_sign", "trifold::numpy_sign"),
    np.square: ("trifold::power<2>", "trifold::power<2>"),
}

#: Those that are operators in C++.
OF_SIGNS: dict[Any, str] = {np.bitwise_and: "&", np.bitwise_or: "|", np.bitwise_xor: "^"}

OF_TESTS: dict[Any, str] = {np.isfinite: "isfinite", np.isinf: "isinf", np.isnan: "isnan"}

_LEFT_OUT = set("egGOmMFD")  # half and extended floats, objects, times, complex numbers


def loop_of(function: Any, arguments: tuple[types.Type, ...]) -> Any:
    """The signature of NumPy's first loop to which the arguments convert without loss; None: there is none."""
    try:
        given = [numpy_support.as_dtype(types.unliteral(each)) for each in arguments]
    except NotImplementedError:
        return None
    for loop in function.types:
        inputs, _, outputs = loop.partition("->")
        if len(inputs) != len(given) or set(loop) & _LEFT_OUT:
            continue
        wanted = [np.dtype(each) for each in inputs]
        if all(np.can_cast(own, to, "safe") for own, to in zip(given, wanted, strict=True)):
            return signature(
                numpy_support.from_dtype(np.dtype(outputs)), *(numpy_support.from_dtype(each) for each in wanted)
            )
    return None
