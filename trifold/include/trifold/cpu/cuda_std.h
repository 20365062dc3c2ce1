// cuda::std, which is the C++ library's std here. The parts in which libcu++ differs, such as atomics, have their own
// headers, whose names take precedence.
#pragma once

#include <trifold/cuda.cuh>

namespace cuda::std {

using namespace ::std;

}  // namespace cuda::std
