// CUDA's header of this name, for g++.
#pragma once

#include <trifold/cpu/thrust/reductions.h>
#include <trifold/cpu/thrust/sorting.h>
