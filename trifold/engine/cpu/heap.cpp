// malloc and free of kernels. What is freed counts as written, so that a thread that still uses it is in a race with
// the thread that frees it.
#include <cstdint>

#include "../core/checker.h"
#include "device_memory.h"
#include "faults.h"
#include "front.h"
#include "memory.h"
#include "sites.h"
#include "undecided.h"

namespace trifold::cpu {
namespace {

bool is_checked() {
  return checked_memory != nullptr && turn->front != nullptr && turn->front->running != nullptr;
}

Allocation* live_heap_at(uintptr_t address) {
  Allocation* const found = allocation_near(address);
  const bool there = found != nullptr && found->begin == address && found->live;
  return there && found->kind == MemoryKind::heap ? found : nullptr;
}

void check_no_user(const Allocation& allocation, engine::Site site) {
  engine::Thread& thread = *engine::current;
  Region* const region = checked_memory->find(allocation.begin, 1);
  if (region == nullptr) return;
  if (thread.undecided != 0) decide_before_access(thread, allocation.begin, allocation.bytes);
  engine::Checker& checker = *thread.block->launch->checker;
  const auto check = [&] { return checker.write(*region->buffer, allocation.begin, allocation.bytes, thread, site); };
  if (!check()) refused(*region, usual_element, site, check);
}

}  // namespace

void* allocate_on_heap(size_t bytes, Line line) {
  Allocation* const made = allocate_heap(bytes, line);
  if (made == nullptr) return nullptr;
  if (is_checked()) checked_memory->add_heap(*made);
  return reinterpret_cast<void*>(made->begin);
}

void free_on_heap(void* memory, Line line) {
  if (memory == nullptr) return;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  Allocation* const allocation = live_heap_at(address);
  if (!is_checked()) {
    if (allocation == nullptr) stop_launch("a free of memory that is not of the kernels' heap", line);
    return free_heap(*allocation, line);
  }
  const engine::Site site = site_of_line(line);
  if (allocation == nullptr) return wrong_free(address, site);
  check_no_user(*allocation, site);
  checked_memory->remove_heap(*allocation);
  free_heap(*allocation, line);
}

}  // namespace trifold::cpu
