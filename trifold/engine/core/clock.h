// What threads, warps and blocks know of each other's accesses. Changed only through the checker.
#pragma once

#include <cstdint>

namespace trifold::engine {

// Counts a launch's synchronising events. All of a launch runs on one OS thread, so this is a total order.
using Stamp = uint32_t;

struct ThreadClock {};
struct WarpClock {};
struct BlockClock {};

}  // namespace trifold::engine
