// The device's memory of an ordinary CUDA program: what cudaMalloc gave, and which bytes of it somebody has written.
//
// Each allocation has pages of its own, far from the next one's, in a part of the address space that is the device's.
// It is not used again after cudaFree, so that an address tells whose it was.
#pragma once

#include <trifold/cpu/program.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trifold::host {

// Parts of [0, size), apart from each other.
class ByteSet {
 public:
  void add(size_t begin, size_t end);
  bool holds(size_t begin, size_t end) const;
  // The first byte from `begin` on that is not in the set; `end`: all are.
  size_t first_missing(size_t begin, size_t end) const;
  const std::map<size_t, size_t>& ranges() const { return ranges_; }  // begin, end

 private:
  std::map<size_t, size_t> ranges_;
};

struct Allocation {
  uintptr_t begin = 0;
  size_t bytes = 0;
  MemoryKind kind = MemoryKind::device;
  Line made{nullptr, 0}, freed{nullptr, 0};
  bool live = true;
  ByteSet written;  // as offsets

  uintptr_t end() const { return begin + bytes; }
  bool wholly_written() const { return written.holds(0, bytes); }
  // The variable that the program's line gave to cudaMalloc; empty where the line does not tell.
  std::string variable() const;
  // "d_x, 4096 bytes of the device made at main.cu:12"
  std::string description() const;
};

// All that were made, freed ones too, in the order of their addresses.
std::vector<Allocation*> allocations();
// The one with this address, or the nearest in front of it or behind it; null: the address is not the device's.
Allocation* allocation_near(uintptr_t address);

// While it lives, the program's host code may touch the device's memory, as the engine does on its behalf.
class OpenMemory {
 public:
  OpenMemory();
  ~OpenMemory();
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
};

// From here on host code that touches memory of cudaMalloc dies by a signal.
void protect_device_memory();

}  // namespace trifold::host
