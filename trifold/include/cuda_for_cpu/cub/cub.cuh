// CUDA's header of this name, for g++.
#pragma once

#include <trifold/cpu/cub/block_histogram.h>
#include <trifold/cpu/cub/block_io.h>
#include <trifold/cpu/cub/block_neighbours.h>
#include <trifold/cpu/cub/block_radix_sort.h>
#include <trifold/cpu/cub/block_reduce.h>
#include <trifold/cpu/cub/block_scan.h>
#include <trifold/cpu/cub/warp.h>

#ifdef __CUDA_RUNTIME_API_H__  // a program, and not a port
#include <trifold/cpu/cub/device.h>
#endif
