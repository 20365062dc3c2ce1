"""Names with another meaning in C++: a variable or function of the prototype with such a name is renamed."""

from __future__ import annotations

from trifold.draft import cpp
from trifold.draft.libdevice import FUNCTIONS
from trifold.draft.operations import MATHEMATICS

#: Names that variables must not have.
VARIABLES = frozenset(
    {
        *("threadIdx", "blockIdx", "blockDim", "gridDim", "trifold", "INFINITY", "NAN", "printf", "size_t"),
        *(name for name in cpp.NAMES.values() if name.isidentifier()),
    }
)

# Functions of POSIX, declared by headers that torch and CUDA include.
_SYSTEM = """
accept access bind clock connect daemon div exit index kill link nice pause pipe random read remove rename rindex
select signal sleep swab sync system time truncate wait write
""".split()  # noqa: SIM905

# Mathematical functions that C, C++ or CUDA declares in the global namespace, and that the table of operations lacks.
# Most exist for float, too, with the suffix f.
_MATHEMATICAL = """
cyl_bessel_i0 cyl_bessel_i1 drem erfcinv erfcx erfinv exp10 fadd fdim fdiv ffma fmul fsqrt fsub gamma ilogb isnormal j0
j1 jn lerp llrint llround logb lrint lround modf nearbyint nextafter norm norm3d norm4d normcdf normcdfinv rand rcbrt
remquo rhypot rint rnorm rnorm3d rnorm4d roundeven rsqrt scalb scalbln scalbn significand signbit sincos sincospi sinpi
swap tgamma umax umin y0 y1 yn
""".split()  # noqa: SIM905

# Namespaces that torch's and CUDA's headers open in the global one.
_NAMESPACES = ("at", "c10", "cooperative_groups", "cuda", "nv", "nvcuda", "std", "torch", "trifold")

#: Names that functions must not have: they would be overloads, which launches cannot name, or second definitions.
FUNCTION_NAMES = frozenset(
    {
        *(*FUNCTIONS.values(), *MATHEMATICS.values(), "min", "max", "abs", *_SYSTEM, *_NAMESPACES),
        *(name + suffix for name in _MATHEMATICAL for suffix in ("", "f")),
    }
)
