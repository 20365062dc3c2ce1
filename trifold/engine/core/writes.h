// Which bytes of memory kernels were the last to write. Verification asks it of the results of an op: what torch
// computed is not the work of the op's kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "shadow.h"

namespace trifold::engine {

// The bytes that launches wrote, of any number of launches, with a copy of what they left there. It finds out that
// others have overwritten them by comparing; so one that was overwritten with the same value still counts.
class WriteLog {
 public:
  // Forgets everything; launches are added from here on.
  void start();
  void stop() { on_ = false; }
  bool on() const { return on_; }

  // A launch has ended that had this shadow. `counts`: what it wrote is to be found; else it is to be found no more.
  void add(const Buffer& buffer, bool counts);
  // What stands here was made of a launch's results, element by element: of the same number in another type, say.
  void note_copy(uintptr_t begin, size_t size) { note(begin, size, true); }
  // 1 for each of these bytes that a launch wrote and that still holds what the launch left, else 0. Reads the bytes.
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
