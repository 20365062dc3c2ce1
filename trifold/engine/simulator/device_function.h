// Functions on numbers that kernels call by a module's name: math.sqrt, cuda.libdevice.sinf, cuda.popc. Each is a row
// of a table: its name, how its arguments' types determine the types it computes in, and the computation.
#pragma once

#include <Python.h>

#include <span>

#include "number.h"

namespace trifold::simulator {

enum class Typing : uint8_t {
  fixed,            // as in the row's signature
  real,             // integers become float64, float16 becomes float32
  real_or_half,     // as `real`, but float16 is kept
  joined,           // all become the float in which operators would compute
  joined_integers,  // as `joined`, but two integers become float64
  numpy,            // as NumPy's ufuncs: float64 with a float64 or an integer of 32 bits or more, else float32
  as_given,         // the function inspects the types itself
};

struct Row;

// Reads arguments of the row's kinds, writes results, and returns their number: several make a tuple.
using General = int (*)(const Row& row, const Value* arguments, Value* results);

struct Row {
  const char* name;  // "module.function"
  Typing typing;
  const char* signature;  // results:arguments for `fixed`, else only the number of arguments
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

// Adds `functions`, a dict of all rows' functions by name, to the module; -1 with an exception.
int add_device_functions(PyObject* module);

}  // namespace trifold::simulator
