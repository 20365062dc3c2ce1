// NVTX's header of this name, for g++.
#pragma once

#include <trifold/cpu/nvtx.h>
