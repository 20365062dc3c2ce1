// Abbreviates many threads: "threads (0..15, 0, 0)".
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "model.h"

namespace trifold::engine {

// "0..15", "0..30 step 2", "1, 5..7"; the numbers ascend.
std::string number_ranges(std::span<const uint32_t> numbers);

// "thread (3, 0, 0)" or "threads (0..15, 0..3, 0)"; indices in a block of this shape, ascending.
std::string thread_ranges(std::span<const uint32_t> indices, Dim3 block);

}  // namespace trifold::engine
