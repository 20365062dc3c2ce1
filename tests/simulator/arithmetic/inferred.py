"""Small programs, whose results must have the types that Numba's CUDA target infers for them.

    python -m tests.simulator.arithmetic.inferred    prints those types as JSON, for each program and type of its inputs

As numba_types.py, it runs in a separate process, and needs no GPU. A program is its statements and, last, the
expression that it gives; ``a`` is an element of one type.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

KINDS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
PROGRAMS = (
    # constants, which CPython computes before Numba sees them
    *("a + 10**-3", "a * 2**-1", "a + 7 // 2", "a + (1 << 40)", "a + 2**31", "a - -(2**31)", "a ** 2", "a ** 0.5"),
    # parts of complex numbers, and of others
    *("a.real + 1", "a.imag * 2", "(a + 1).real", "t = a.real; t += 1; t", "s = a.real; if n: s = a.imag + 1; s"),
    *("np.complex64(a) * a", "np.complex64(a) + 1", "abs(np.complex64(a))", "z = np.complex64(a); z += a; z.real"),
    *("cmath.exp(a)", "cmath.sqrt(a)", "cmath.log(a)", "cmath.polar(np.complex64(n))[0]"),
    # one variable, several types
    *("s = a; if n: s = 2.5; s", "s = a; if n: s = 1; s * a", "s = 1; if n: s = a; s + 1", "a if n else 0"),
    *("s = 0; for i in range(2): s += a; s + a", "s = a; for i in range(2): s = s * 2; s + a"),
    *("s = a; while n < s.real: s += 1; s + a", "s = a; for i in range(2): s = s + 2.5; s"),
    *("p, q = a, 1; p, q = q, p; p + q", "p = q = a; p += 1; q", "k = 0; for v in (1, 2): k += v * a; k"),
    # branches that constants decide
    *("s = a; if FEW > 3: s = 2.5; s", "s = a; if FEW == 3: s = 2.5; s", "s = a; if not FEW: s = 2.5; s"),
    *("s = a; if FEW: s = 1.5; s * a", "s = a; if 2 < 1: s = 2.5; s", "a if FEW < 3 else n", "a if FEW else 2.5"),
    # loops over unsigned numbers
    *("k = 0; for i in range(np.uint8(3)): k = i - 1; k", "k = a; for i in range(np.uint32(1), 3): k = i + 0; k"),
    *("i = a; for i in range(np.uint16(2)): n + 1; i", "k = 1; for i in range(np.uint64(1), np.uint64(3)): k = i; k"),
    # what device functions return
    *(
        "either(a, 2.5)",
        "either(a, 1) + a",
        "either(either(a, 1), a)",
        "both(a)[0] + both(1)[0]",
        "twice(a) + twice(1)",
    ),
    "p = (a, 1); for i in range(2): p = (p[0] * 2.5, p[1]); p[0]",
    # logic
    *("0 < n < 2", "(n > 1) + (n > 2)", "-(n > 1)", "~(n > 1)", "(n > 1) | 4", "a or 0", "a and a", "not a"),
)
_DEVICE_FUNCTIONS = """
@cuda.jit(device=True)
def either(a, b):
    if a:
        return a
    return b


@cuda.jit(device=True)
def both(a):
    s = a
    if a:
        s = a / 2
    return s, a


@cuda.jit(device=True)
def twice(a):
    s = a
    for _ in range(1):
        s = s * 2
    return s
"""
HEADER = f"import cmath\n\nimport numpy as np\nfrom numba import cuda\n\nFEW = 3\n\nfound = []\n{_DEVICE_FUNCTIONS}"


def cases() -> Iterator[tuple[str, str]]:
    """Program and type of its inputs."""
    for program in PROGRAMS:
        for kind in KINDS:
            yield program, kind


def function(program: str, name: str, ending: str) -> str:
    """The source of a function of an array and a number; ``ending`` says what is done with the result."""
    *statements, result = program.split("; ")
    body = ["a = x[0]", *statements, ending.format(result)]
    return f"def {name}(x, n):\n{textwrap.indent(chr(10).join(body), '    ')}\n"


def main() -> None:
    import numba.cuda
    from numba.core import types as numba_types
    from numba.cuda.compiler import compile_cuda

    types: Any = getattr(numba.cuda, "types", None)
    if not hasattr(types, "float16"):  # numba-cuda has its own types
        types = numba_types
    names: dict[str, object] = {}
    exec(HEADER, names)
    inferred = {}
    for program, kind in cases():
        exec(function(program, "f", "return {}"), names)
        item = types.boolean if kind == "bool" else getattr(types, kind)
        try:
            compiled = compile_cuda(names["f"], None, (types.Array(item, 1, "C"), types.int64), cc=(9, 0))
        except Exception:  # refused, in one of many ways
            continue
        inferred[f"{program} | {kind}"] = str(compiled.signature.return_type)
    print(json.dumps(inferred))


if __name__ == "__main__":
    main()
