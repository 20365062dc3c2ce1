// Thrust's header of this name, for g++: the version of CUDA 13.0.
#pragma once

#define THRUST_VERSION 300001
#define THRUST_MAJOR_VERSION (THRUST_VERSION / 100000)
#define THRUST_MINOR_VERSION (THRUST_VERSION / 100 % 1000)
#define THRUST_SUBMINOR_VERSION (THRUST_VERSION % 100)
