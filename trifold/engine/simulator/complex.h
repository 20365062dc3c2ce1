// Complex operands, with the types of Numba's results: Python's complex or NumPy's complex128, and our own complex64
// (trifold/simulator/complex_numbers.py).
#pragma once

#include "typing.h"

namespace trifold::simulator {

// A Python complex or a NumPy complex64 or complex128.
bool is_complex(PyObject* object);

// NumPy's complex64, or ours, which is derived from it.
bool is_complex64(PyObject* object);

// A complex number as our complex64; new reference, or null with an exception.
PyObject* as_complex64(PyObject* value);

// The result if one operand is complex: a complex64 if every operand fits it. NotImplemented for operators that complex
// numbers lack and for operands that are not numbers; new reference.
PyObject* operate_complex(Operator op, PyObject* left, PyObject* right);

}  // namespace trifold::simulator
