"""Names that C++ has for other things: a variable or function of the prototype gets another one."""

from __future__ import annotations

from trifold.draft import cpp
from trifold.draft.libdevice import FUNCTIONS
from trifold.draft.operations import MATHEMATICS

#: No variable is named so.
VARIABLES = frozenset(
    {
        *("threadIdx", "blockIdx", "blockDim", "gridDim", "trifold", "INFINITY", "NAN", "printf", "size_t"),
        *(name for name in cpp.NAMES.values() if name.isidentifier()),
    }
)

# Of POSIX, declared by headers that torch and CUDA include.
_SYSTEM = """
accept access bind clock connect daemon div exit index kill link nice pause pipe random read remove rename rindex
select signal sleep swab sync system time truncate wait write
""".split()  # noqa: SIM905

#: No function: it would be an overload, which no launch can name, or a second definition.
FUNCTION_NAMES = frozenset({*FUNCTIONS.values(), *MATHEMATICS.values(), "min", "max", "abs", *_SYSTEM})
