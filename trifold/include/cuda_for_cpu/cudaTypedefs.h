// CUDA's header of this name, for g++: of the driver API, tensor maps.
#pragma once

#include <trifold/cpu/driver_api.h>
