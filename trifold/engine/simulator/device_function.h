// Functions on numbers that kernels call by a module's name: math.sqrt, cuda.libdevice.sinf, cuda.popc. Each is a row
// of a table: its name, how the types of its arguments choose the types it computes in, and what it computes.
#pragma once

#include <Python.h>

#include <span>

#include "number.h"

namespace trifold::simulator {

enum class Typing : uint8_t {
  fixed,            // by the row's signature
  real,             // an integer becomes float64, float16 float32
  real_or_half,     // as `real`, but float16 stays
  joined,           // all become the float that operators would compute in
  joined_integers,  // as `joined`, but two integers become float64
  numpy,            // as NumPy's ufuncs: float64 beside it or for integers of 32 bits and more, else float32
  as_given,         // the function looks at the types itself
};

struct Row;

// Reads arguments of the row's kinds; writes results and gives their number: more than one make a tuple.
using General = int (*)(const Row& row, const Value* arguments, Value* results);

struct Row {
  const char* name;  // "module.function"
  Typing typing;
  const char* signature;  // results:arguments for `fixed`, else the arguments' number in its place
  double (*unary)(double) = nullptr;
  double (*binary)(double, double) = nullptr;
  General general = nullptr;
  int option = 0;  // for `general`: a rounding mode, an operator
};

// Letters of a signature: e f d floats of 16, 32, 64 bits; b bool; h i l integers of 16, 32, 64; I L unsigned.
Kind kind_of_letter(char letter);

std::span<const Row> math_rows();
std::span<const Row> numpy_rows();
std::span<const Row> cuda_rows();
std::span<const Row> libdevice_rows();
std::span<const Row> rounding_rows();

// Adds `functions`, a dict of all rows' functions by their names, to the module; -1 with an exception.
int add_device_functions(PyObject* module);

}  // namespace trifold::simulator
