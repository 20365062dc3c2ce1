// All of it is in the dialect.
#pragma once

#include <trifold/cuda.cuh>
