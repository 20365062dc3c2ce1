// Thrust's complex numbers, for g++: the C++ library's.
#pragma once

#include <complex>

namespace thrust {

using ::std::complex;

using ::std::abs, ::std::arg, ::std::norm, ::std::conj, ::std::polar, ::std::proj;
using ::std::acos, ::std::asin, ::std::atan, ::std::cos, ::std::sin, ::std::tan;
using ::std::acosh, ::std::asinh, ::std::atanh, ::std::cosh, ::std::sinh, ::std::tanh;
using ::std::exp, ::std::log, ::std::log10, ::std::pow, ::std::sqrt;

}  // namespace thrust
