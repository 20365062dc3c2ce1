#include "skip.h"

#include <fcntl.h>
#include <trifold/cpu.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace trifold::cpu {

bool skipping = false;

namespace {

constexpr size_t most_bytes = 4096;  // the capacity of a pipe that is always available

struct Bytes {
  uintptr_t address = 0;
  size_t n = 0;
  std::array<char, most_bytes> content;
};

Bytes replaced;                                // n 0: none are replaced
uintptr_t awaited_begin = 0, awaited_end = 0;  // of the next access that is to be skipped

// Copies memory by way of a pipe: the system reports addresses that cannot be read or written, where a plain access
// would end the process.
class SafeCopy {
 public:
  SafeCopy() { usable_ = pipe2(ends_, O_CLOEXEC | O_NONBLOCK) == 0; }
  ~SafeCopy() {
    if (!usable_) return;
    close(ends_[0]);
    close(ends_[1]);
  }
  SafeCopy(const SafeCopy&) = delete;
  SafeCopy& operator=(const SafeCopy&) = delete;

  bool copy(void* to, const void* from, size_t n) {
    const auto whole = static_cast<ssize_t>(n);
    if (!usable_ || write(ends_[1], from, n) != whole || read(ends_[0], to, n) != whole) {
      std::array<char, most_bytes> rest;
      while (usable_ && read(ends_[0], rest.data(), rest.size()) > 0) {
      }
      return false;
    }
    return true;
  }

 private:
  int ends_[2];
  bool usable_;
};

SafeCopy& safe_copy() {
  static SafeCopy copy;
  return copy;
}

void put_back() {
  const size_t n = std::exchange(replaced.n, 0);
  if (n != 0) safe_copy().copy(reinterpret_cast<void*>(replaced.address), replaced.content.data(), n);
}

}  // namespace

void fill_with_poison(void* bytes, size_t n) {
  // The last bytes of an element are its sign and exponent.
  constexpr unsigned char pattern[] = {0xcb, 0xcb, 0xfb, 0xff};
  auto* const end = static_cast<unsigned char*>(bytes) + n;
  for (size_t i = 1; i <= n; ++i) end[-static_cast<ptrdiff_t>(i)] = pattern[(sizeof pattern - i % sizeof pattern) % 4];
}

void skip_access(uintptr_t address, size_t n) {
  if (n > most_bytes) end_thread();
  std::array<char, most_bytes> poison;
  fill_with_poison(poison.data(), n);
  auto* const bytes = reinterpret_cast<void*>(address);
  if (!safe_copy().copy(replaced.content.data(), bytes, n)) end_thread();
  replaced.address = address;
  replaced.n = n;
  skipping = true;
  if (!safe_copy().copy(bytes, poison.data(), n)) end_thread();
}

void skip_next_access_of(uintptr_t begin, uintptr_t end) {
  awaited_begin = begin;
  awaited_end = end;
  skipping = true;
}

bool skips_next(uintptr_t address, size_t n) {
  put_back();
  const bool comes = n != 0 && address < awaited_end && awaited_begin < address + n;
  if (comes) {
    awaited_end = 0;
    skip_access(address, n);
  }
  skipping = comes || awaited_end != 0;
  return comes;
}

bool skips(uintptr_t address) {
  return replaced.n != 0 && replaced.address == address;
}

void end_skipping() {
  put_back();
  awaited_end = 0;
  skipping = false;
}

}  // namespace trifold::cpu
