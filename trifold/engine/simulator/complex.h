// Complex numbers beside ours: NumPy's scalars, with the types that Numba gives.
#pragma once

#include "typing.h"

namespace trifold::simulator {

// A Python complex or a NumPy complex64 or complex128.
bool is_complex(PyObject* object);

// One operand is complex: the result as a NumPy scalar, complex64 where every operand fits it. NotImplemented for
// operators that complex numbers lack and for operands that are no numbers; new reference.
PyObject* operate_complex(Operator op, PyObject* left, PyObject* right);

}  // namespace trifold::simulator
