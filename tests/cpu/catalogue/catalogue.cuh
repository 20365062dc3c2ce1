// All kernels of the catalogue; each file's are in a namespace of its name.
#pragma once

#include "atomics.cuh"
#include "barriers.cuh"
#include "bounds.cuh"
#include "collectives.cuh"
#include "functions.cuh"
#include "layouts.cuh"
#include "native.cuh"
#include "reductions.cuh"
#include "scans.cuh"
#include "tiles.cuh"
#include "uninitialised.cuh"
#include "waiting.cuh"
#include "warps.cuh"
