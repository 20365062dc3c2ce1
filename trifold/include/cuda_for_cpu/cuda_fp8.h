// CUDA's header of this name, for g++.
#pragma once

#include <trifold/cpu/float8.h>
#include <trifold/cpu/float8_scales.h>
