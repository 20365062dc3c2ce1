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

#: Names that functions must not have: they would be overloads, which launches cannot name, or second definitions.
FUNCTION_NAMES = frozenset({*FUNCTIONS.values(), *MATHEMATICS.values(), "min", "max", "abs", *_SYSTEM})
