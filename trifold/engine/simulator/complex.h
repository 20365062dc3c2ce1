// Complex numbers beside ours, with the types that Numba gives: Python's complex or NumPy's complex128, and a complex64
// of ours (trifold/simulator/complex_numbers.py).
#pragma once

#include "typing.h"

namespace trifold::simulator {

// A Python complex or a NumPy complex64 or complex128.
bool is_complex(PyObject* object);

// NumPy's complex64, or ours, which is derived from it.
bool is_complex64(PyObject* object);

// A complex number as a complex64 of ours; new reference, or null with an exception.
PyObject* as_complex64(PyObject* value);

// One operand is complex: the result, a complex64 where every operand fits it. NotImplemented for
// operators that complex numbers lack and for operands that are no numbers; new reference.
PyObject* operate_complex(Operator op, PyObject* left, PyObject* right);

}  // namespace trifold::simulator
