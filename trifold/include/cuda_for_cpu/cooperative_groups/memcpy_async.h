// CUDA's header of this name, for g++.
#pragma once

#include <trifold/host/group_copies.h>
