// CUDA's header of this name, for g++. Nearly all of it is in the dialect.
#pragma once

#include <trifold/cpu/float16_raw.h>
#include <trifold/cuda.cuh>
