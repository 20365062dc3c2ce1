// What g++ calls for each access of memory when it compiles a port with -fsanitize=thread: the checks. libtsan, which
// usually has these functions, is not used.
#include <utility>

#include "front.h"
#include "memory.h"
#include "report.h"
#include "sites.h"

namespace trifold::host {
namespace {

using engine::AccessType;
using engine::Finding;
using engine::Kind;
using engine::Space;
using engine::Thread;

Finding start_finding(Kind kind, const Region* region, AccessType type, engine::Site site) {
  turn->front->interrupt();
  const Thread& thread = *engine::current;
  const engine::Launch& launch = *thread.block->launch;
  Finding finding;
  finding.kind = kind;
  finding.kernel = launch.kernel;
  finding.memory = engine::name(region == nullptr ? Space::global : region->buffer->space());
  finding.array = region == nullptr ? "" : region->array;
  finding.seed = launch.seed;
  finding.accesses.push_back({launch.block.at(thread.index), thread.block->index, thread.block->interval,
                              std::string(engine::name(type)), location_of(site)});
  return finding;
}

int64_t index_in(const Region& region, uintptr_t address, size_t width) {
  return static_cast<int64_t>(address - region.begin) / static_cast<int64_t>(width);
}

size_t width_of(const Region& region, size_t n) {
  return region.element_bytes != 0 ? region.element_bytes : n;
}

[[noreturn, gnu::cold]] void out_of_bounds(uintptr_t address, size_t n, AccessType type, engine::Site site) {
  const Region* const region = checked_memory->nearest(address);
  Finding finding = start_finding(Kind::out_of_bounds, region, type, site);
  if (region != nullptr) {
    const size_t width = width_of(*region, n);
    const auto size = static_cast<int64_t>((region->end - region->begin) / width);
    const bool inside = address >= region->begin && address < region->end;
    // Of an access that begins inside, its end is what lies outside.
    const uintptr_t wrong = inside ? address + n - 1 : address;
    auto distance = static_cast<int64_t>(wrong - region->begin);
    if (distance < 0) distance -= static_cast<int64_t>(width) - 1;
    const int64_t index = distance / static_cast<int64_t>(width);
    finding.index = {index};
    engine::describe_out_of_bounds(finding, 0, index, {size});
  } else {
    engine::describe_out_of_bounds(finding, -1, 0, {});
  }
  turn->front->abandon(std::move(finding));
}

[[noreturn, gnu::cold]] void misaligned(const Region& region, uintptr_t address, size_t n, AccessType type,
                                        engine::Site site) {
  Finding finding = start_finding(Kind::misaligned, &region, type, site);
  finding.index = {index_in(region, address, width_of(region, n))};
  engine::describe_misaligned(finding, std::to_string(n) + "-byte access", static_cast<int64_t>(n),
                              static_cast<int64_t>(address - region.begin));
  turn->front->abandon(std::move(finding));
}

[[noreturn, gnu::cold]] void violated(const Region& region, size_t n, engine::Site site) {
  const engine::Launch& launch = *engine::current->block->launch;
  const engine::Violation& violation = launch.checker->violation;
  Finding finding = start_finding(violation.kind, &region, violation.type, site);
  finding.index = {index_in(region, violation.address, width_of(region, n))};
  if (violation.kind == Kind::race) {
    finding.accesses.push_back({launch.thread_index(violation.other_thread), launch.block_index(violation.other_thread),
                                violation.other_interval, std::string(engine::name(violation.other_type)),
                                location_of(violation.other_site)});
    engine::describe_race(finding);
  } else {
    engine::describe_uninitialised(finding);
  }
  turn->front->abandon(std::move(finding));
}

// The region of a kernel's access; null: nothing watches those bytes.
inline Region* watched(uintptr_t address, size_t n, AccessType type, bool aligned, const void* caller) {
  if (turn->front->running->holds(address)) return nullptr;
  Region* const region = checked_memory->find(address, n);
  if (region == nullptr) [[unlikely]]
    out_of_bounds(address, n, type, site_of_address(caller));
  if (region->buffer == nullptr) return nullptr;
  if (aligned && (address & (n - 1)) != 0) [[unlikely]]
    misaligned(*region, address, n, type, site_of_address(caller));
  return region;
}

// The thread whose code makes this access; null: no kernel does. (The linker may well give this library the port's copy
// of a template of the standard library's.)
inline Thread* accessing_thread() {
  return turn != nullptr && turn->front != nullptr && turn->front->running != nullptr ? engine::current : nullptr;
}

inline void checked_access(const void* pointer, size_t n, AccessType type, bool aligned, const void* caller) {
  const Thread* const thread = accessing_thread();
  if (thread == nullptr) return;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  Region* const region = watched(address, n, type, aligned, caller);
  if (region == nullptr) return;
  engine::Checker& checker = *thread->block->launch->checker;
  engine::Buffer& buffer = *region->buffer;
  if (type == AccessType::read ? checker.reads_again(buffer, address, n, *thread)
                               : checker.writes_again(buffer, address, n, *thread))
    return;
  const engine::Site site = site_of_address(caller);
  const bool right = type == AccessType::read ? checker.read(buffer, address, n, *thread, site)
                                              : checker.write(buffer, address, n, *thread, site);
  if (!right) [[unlikely]]
    violated(*region, n, site);
}

// Does an atomic, checked where a kernel does it. `operate` says whether it wrote.
template <typename T, typename Operate>
void checked_atomic(const volatile T* pointer, bool reads, const void* caller, Operate operate) {
  Thread* const thread = accessing_thread();
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  Region* const region = thread == nullptr ? nullptr : watched(address, sizeof(T), AccessType::atomic, true, caller);
  if (region == nullptr) {
    operate();
    return;
  }
  engine::Checker& checker = *thread->block->launch->checker;
  const engine::Site site = site_of_address(caller);
  if (!checker.check_atomic(*region->buffer, address, sizeof(T), *thread, reads)) violated(*region, sizeof(T), site);
  const bool wrote = operate();
  checker.note_atomic(*region->buffer, address, sizeof(T), *thread, site, wrote);
}

}  // namespace

uint64_t checked_update(void* p, size_t bytes, uint64_t (*made)(const void* context, uint64_t old),
                        const void* context) {
  const void* const caller = __builtin_return_address(0);
  const auto replace = [&]<typename T>(T* word) {
    T old = 0;
    checked_atomic(word, true, caller, [&] {
      old = *word;
      *word = static_cast<T>(made(context, old));
      return true;
    });
    return uint64_t{old};
  };
  switch (bytes) {
    case 1: return replace(static_cast<uint8_t*>(p));
    case 2: return replace(static_cast<uint16_t*>(p));
    case 4: return replace(static_cast<uint32_t*>(p));
    default: return replace(static_cast<uint64_t*>(p));
  }
}

}  // namespace trifold::host

using trifold::engine::AccessType;
using trifold::host::checked_access;
using trifold::host::checked_atomic;

#pragma GCC visibility push(default)
extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_atomic_signal_fence(int) {}
void __tsan_atomic_thread_fence(int) {
  trifold::host::fence(trifold::host::Fence::device);
}

// The names are the compiler's, made of the width: only a macro can make them.
#define TRIFOLD_ACCESS(prefix, width, aligned)                                         \
  void __tsan_##prefix##read##width(void* p) {                                         \
    checked_access(p, width, AccessType::read, aligned, __builtin_return_address(0));  \
  }                                                                                    \
  void __tsan_##prefix##write##width(void* p) {                                        \
    checked_access(p, width, AccessType::write, aligned, __builtin_return_address(0)); \
  }
TRIFOLD_ACCESS(, 1, true)
TRIFOLD_ACCESS(, 2, true)
TRIFOLD_ACCESS(, 4, true)
TRIFOLD_ACCESS(, 8, true)
TRIFOLD_ACCESS(, 16, true)
TRIFOLD_ACCESS(unaligned_, 2, false)
TRIFOLD_ACCESS(unaligned_, 4, false)
TRIFOLD_ACCESS(unaligned_, 8, false)
TRIFOLD_ACCESS(unaligned_, 16, false)
#undef TRIFOLD_ACCESS

void __tsan_read_range(void* p, size_t n) {
  if (n > 0) checked_access(p, n, AccessType::read, false, __builtin_return_address(0));
}
void __tsan_write_range(void* p, size_t n) {
  if (n > 0) checked_access(p, n, AccessType::write, false, __builtin_return_address(0));
}

#define TRIFOLD_UPDATE(bits, operation)                                                                 \
  uint##bits##_t __tsan_atomic##bits##_##operation(volatile uint##bits##_t* p, uint##bits##_t v, int) { \
    uint##bits##_t old = 0;                                                                             \
    checked_atomic(p, true, __builtin_return_address(0), [&] {                                          \
      old = __atomic_##operation(p, v, __ATOMIC_SEQ_CST);                                               \
      return true;                                                                                      \
    });                                                                                                 \
    return old;                                                                                         \
  }
#define TRIFOLD_COMPARE(bits, strength)                                                                        \
  bool __tsan_atomic##bits##_compare_exchange_##strength(volatile uint##bits##_t* p, uint##bits##_t* expected, \
                                                         uint##bits##_t v, int, int) {                         \
    bool done = false;                                                                                         \
    checked_atomic(p, true, __builtin_return_address(0), [&] {                                                 \
      return done = __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);    \
    });                                                                                                        \
    return done;                                                                                               \
  }
#define TRIFOLD_ATOMICS(bits)                                                                        \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* p, int) {                 \
    uint##bits##_t value = 0;                                                                        \
    checked_atomic(p, true, __builtin_return_address(0), [&] {                                       \
      value = __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                  \
      return false;                                                                                  \
    });                                                                                              \
    return value;                                                                                    \
  }                                                                                                  \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* p, uint##bits##_t v, int) {              \
    checked_atomic(p, false, __builtin_return_address(0), [&] {                                      \
      __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                      \
      return true;                                                                                   \
    });                                                                                              \
  }                                                                                                  \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* p, uint##bits##_t v, int) { \
    uint##bits##_t old = 0;                                                                          \
    checked_atomic(p, true, __builtin_return_address(0), [&] {                                       \
      old = __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                             \
      return true;                                                                                   \
    });                                                                                              \
    return old;                                                                                      \
  }                                                                                                  \
  TRIFOLD_UPDATE(bits, fetch_add)                                                                    \
  TRIFOLD_UPDATE(bits, fetch_sub)                                                                    \
  TRIFOLD_UPDATE(bits, fetch_and)                                                                    \
  TRIFOLD_UPDATE(bits, fetch_or)                                                                     \
  TRIFOLD_UPDATE(bits, fetch_xor)                                                                    \
  TRIFOLD_UPDATE(bits, fetch_nand)                                                                   \
  TRIFOLD_COMPARE(bits, strong)                                                                      \
  TRIFOLD_COMPARE(bits, weak)
TRIFOLD_ATOMICS(8)
TRIFOLD_ATOMICS(16)
TRIFOLD_ATOMICS(32)
TRIFOLD_ATOMICS(64)

}  // extern "C"
#pragma GCC visibility pop
