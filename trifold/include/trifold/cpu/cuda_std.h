// cuda::std, which is the C++ library's own std here; what libcu++ does differently, such as atomics, has headers of
// its own, whose names come first.
#pragma once

#include <trifold/cuda.cuh>

namespace cuda::std {

using namespace ::std;

}  // namespace cuda::std
