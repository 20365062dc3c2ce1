// The blocks and reports of both guards, for CPU memory and for GPU memory.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>

#include "line.h"

namespace trifold::guard {

enum Mode : int { off = 0, end_mode = 1, start_mode = 2 };

inline constexpr unsigned char poison_byte = 0xFF;

// The memory of one allocation, as the caller asked for it.
struct Extent {
  char* start;
  size_t size;
  uint64_t serial;  // 1 for the first block of the process
  bool live;

  char* end() const { return start + size; }
};

inline Line& operator<<(Line& line, const Extent& block) {
  line << (block.live ? "block " : "the freed block ") << block.serial << " (" << block.size;
  return line << (block.size == 1 ? " byte)" : " bytes)");
}

inline constexpr size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// How far outside `block` the byte at `address` is: the first byte past the end is 1 past it. 0 inside.
inline size_t distance(const char* address, const Extent& block) {
  if (address >= block.end()) return static_cast<size_t>(address - block.end()) + 1;
  return address < block.start ? static_cast<size_t>(block.start - address) : 0;
}

// "trifold guard: write 4 bytes before the start of block 17 (128 bytes)"
inline void describe(Line& line, const char* access, const char* address, const Extent& block) {
  const size_t away = distance(address, block);
  line << "trifold guard: " << access << " ";
  if (away == 0) {
    line << "byte " << static_cast<size_t>(address - block.start) << " of " << block;
  } else {
    line << away << (away == 1 ? " byte " : " bytes ")
         << (address < block.start ? "before the start of " : "past the end of ") << block;
  }
}

// Lines about damaged canaries, kept until they are fetched; those that do not fit are only counted.
struct DamageLog {
  char text[size_t{64} << 10];
  size_t length;
  size_t count;

  // Returns the number of lines added since the last call; `buffer` gets those that fit (cut at `size`, ends with 0).
  size_t take(char* buffer, size_t size) {
    const size_t taken = count;
    if (size != 0) {
      const size_t copied = std::min(size - 1, length);
      memcpy(buffer, text, copied);
      buffer[copied] = '\0';
    }
    count = length = 0;
    return taken;
  }

  void add(const Line& line) {
    ++count;
    if (length + line.size() > sizeof text) return;
    memcpy(text + length, line.data(), line.size());
    length += line.size();
  }

  // The damaged byte at `address`, one of a canary's.
  void add_canary(const char* address, const Extent& block) {
    Line line;
    describe(line, "write", address, block);
    add(line << ", seen by its canary\n");
  }
};

}  // namespace trifold::guard
