// Functions that kernels call on numbers: Python's built-in ones, casts, and the rewriter's replacements of operators.
// Each has the signature of METH_FASTCALL.
#pragma once

#include "number.h"

namespace trifold::simulator {

PyObject* builtin_round(PyObject* module, PyObject* const* arguments, Py_ssize_t count);
PyObject* view(PyObject* module, PyObject* const* arguments, Py_ssize_t count);

// The object as a number of this kind; TypeError if it is not a number.
PyObject* cast(Kind kind, PyObject* object);

// numpy.dtype of a kind; new reference.
PyObject* numpy_dtype(Kind kind);

// A tuple of two new references, which it steals; null if one is null.
PyObject* pair(PyObject* first, PyObject* second);

// Reads `count` arguments, all numbers; TypeError that names the function otherwise.
bool read_arguments(const char* function, PyObject* const* arguments, Py_ssize_t count, Py_ssize_t expected,
                    Value* values);

int add_functions(PyObject* module);

}  // namespace trifold::simulator
