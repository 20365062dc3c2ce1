// The device's memory of an ordinary CUDA program: what cudaMalloc allocated, and which of its bytes have been written.
//
// Each allocation has its own pages, far from the next one, in a part of the address space that is reserved for the
// device. Addresses are not reused after cudaFree, so that an address identifies its allocation.
#pragma once

#include <trifold/cpu/program.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace trifold::cpu {

// Disjoint ranges within [0, size).
class ByteSet {
 public:
  void add(size_t begin, size_t end);
  bool holds(size_t begin, size_t end) const;
  // The first byte from `begin` on that is not in the set; `end`: all are in it.
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
  ByteSet written;              // as offsets
  bool stream_ordered = false;  // by cudaMallocAsync
  // Of managed and pinned memory: the pages, as offsets, that operations may still read or write, for which the host
  // has not waited.
  ByteSet pages_read, pages_written;

  uintptr_t end() const { return begin + bytes; }
  bool is_accessible_to_host() const { return kind == MemoryKind::managed || kind == MemoryKind::pinned; }
  bool is_in_flight() const { return !pages_read.ranges().empty() || !pages_written.ranges().empty(); }
  bool wholly_written() const { return written.holds(0, bytes); }
  // The variable that the program's line passes to cudaMalloc; empty where the line does not show it.
  std::string variable() const;
  // "d_x, 4096 bytes of the device made at main.cu:12"
  std::string description() const;
};

// Memory of the kernels' heap, uninitialised; null: it is full.
Allocation* allocate_heap(size_t bytes, Line line);
void free_heap(Allocation& allocation, Line line);
// The live allocations of the heap. keep_heap: frees all but these, and none of these is freed.
std::set<Allocation*> live_heap();
void keep_heap(const std::set<Allocation*>& kept);

// All allocations, freed ones included, ordered by address.
std::vector<Allocation*> allocations();
// The allocation that contains this address, or else the nearest one; null: the address is not in the device's memory.
Allocation* allocation_near(uintptr_t address);

// While it exists, the program's host code may access the device's memory, as the engine does on its behalf.
class OpenMemory {
 public:
  OpenMemory();
  ~OpenMemory();
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
};

// Protects from the host the pages that operations may still access (stream_accesses.h), and no others.
void renew_flights();
// Lets the host access the page of this address, until the memory is protected again: by this, or by the next
// operation.
void open_page(uintptr_t address);
void close_page(uintptr_t address);

// From here on, host code that accesses memory of cudaMalloc ends by a signal.
void protect_device_memory();

}  // namespace trifold::cpu
