// Operators on values, with the results of the GPU for a Python operator compiled by Numba.
#pragma once

#include "number.h"
#include "typing.h"

namespace trifold::simulator {

// False if Numba has no such operation for these kinds.
bool compute(Operator op, const Value& a, const Value& b, Value& result);

bool negate(const Value& a, Value& result);
bool keep_sign(const Value& a, Value& result);  // unary +
bool invert(const Value& a, Value& result);
Value absolute(const Value& a);
void divide_with_remainder(const Value& a, const Value& b, Value& quotient, Value& remainder);

// -1, 0, 1, or 2 if a NaN makes all comparisons but != false.
int compare(const Value& a, const Value& b);

const char* symbol(Operator op);

// float % and // as Numba compiles them; T is float or double.
template <typename T>
struct Division {
  T quotient, remainder;
};
Division<float> divide_floor(float x, float y);
Division<double> divide_floor(double x, double y);

}  // namespace trifold::simulator
