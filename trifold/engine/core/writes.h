// The bytes of memory that were last written by kernels. Verification applies it to an op's results, which must not be
// torch's computation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "shadow.h"

namespace trifold::engine {

// The bytes that any number of launches wrote, with a copy of the values. Overwriting by others is found by comparing,
// so a byte that was overwritten with the same value still counts.
class WriteLog {
 public:
  // Forgets everything; launches are added from here on.
  void start();
  void stop() { on_ = false; }
  bool on() const { return on_; }

  // A launch with this shadow has ended. `counts`: its writes are to be found; otherwise they no longer are.
  void add(const Buffer& buffer, bool counts);
  // These bytes were computed elementwise from a launch's results: converted to another type, for example.
  void note_copy(uintptr_t begin, size_t size) { note(begin, size, true); }
  // For each of these bytes 1 if a launch wrote it and it still has that value, else 0. Reads the bytes.
  void find(uintptr_t begin, size_t size, char* found) const;

 private:
  static constexpr size_t page_bytes = 4096;
  struct Page {
    std::array<char, page_bytes> left;
    std::array<bool, page_bytes> written{};
  };

  void note(uintptr_t begin, size_t size, bool counts);

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;  // by address / page_bytes
  bool on_ = false;
};

}  // namespace trifold::engine
