// CUDA's header of this name, for g++.
#pragma once

#include <trifold/cpu/cub/radix_keys.h>
