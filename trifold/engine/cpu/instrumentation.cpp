// The functions that g++ calls for a port compiled with -fsanitize=thread, for each access of memory, and with
// -fsanitize=bounds-strict,alignment, for an index outside a declared extent and for a misaligned type. They replace
// those of libtsan and libubsan, which are not linked.
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "faults.h"
#include "front.h"
#include "memory.h"
#include "sites.h"
#include "skip.h"
#include "stream_accesses.h"
#include "undecided.h"
#include "watchdog.h"

namespace trifold::cpu {
namespace {

using engine::AccessType;
using engine::AtomicForm;
using engine::Thread;

// Whether memory is certainly the running thread's own, by one comparison: most accesses are of its variables. False
// negatives are possible: for memory deeper on the stack than this frame, and while something else must be done at the
// next access. If no thread runs, either answer is right, since nothing is checked.
[[gnu::always_inline]] inline bool is_surely_own(const void* pointer) {
  const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return reinterpret_cast<uintptr_t>(pointer) - frame < end_of_stack - frame && !skipping && overdue == 0;
}

// The region of a kernel's access; null: those bytes are not watched, or the access is skipped.
inline Region* watched(uintptr_t address, size_t n, AccessType type, bool aligned, const void* caller) {
  if (turn->front->running->holds(address)) return nullptr;
  Region* region = checked_memory->find(address, n);
  if (region == nullptr) [[unlikely]] {
    region = peer_region(address, n, type, site_of_address(caller));
    if (region == nullptr) return nullptr;
  }
  if (region->buffer == nullptr) return nullptr;
  if (aligned && (address & (n - 1)) != 0) [[unlikely]]
    misaligned(*region, address, n, type, site_of_address(caller));
  return region;
}

// The thread whose code makes this access; null: the access is not a kernel's, or is skipped. (The linker may make this
// library use the port's copy of a template of the standard library.)
inline Thread* accessing_thread(const void* caller, uintptr_t address = 0, size_t n = 0) {
  if (turn == nullptr || turn->front == nullptr || turn->front->running == nullptr) return nullptr;
  if (overdue != 0) [[unlikely]]
    turn->stop_thread(Stop::time, caller);
  if (skipping && skips_next(address, n)) [[unlikely]]
    return nullptr;
  return engine::current;
}

// A thread that repeatedly reads one address at one place may be waiting for another thread to write it. Such a loop is
// correct only with volatile or an atomic, so the limit is high.
struct Repeated {
  uintptr_t address = 0;
  const void* caller = nullptr;
  uint32_t count = 0;
} repeated;
constexpr uint32_t reads_in_a_row = 1024;

inline void note_read(uintptr_t address, const void* caller) {
  if (address != repeated.address || caller != repeated.caller) {
    repeated = {address, caller, 0};
  } else if (++repeated.count == reads_in_a_row) {
    repeated.count = 0;
    poll(site_of_address(caller), reads_in_a_row);
  }
}

inline void checked_access(const void* pointer, size_t n, AccessType type, bool aligned, const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  Thread* const thread = accessing_thread(caller, address, n);
  if (thread == nullptr) return;
  Region* const region = watched(address, n, type, aligned, caller);
  if (region == nullptr) return;
  if (type == AccessType::read) {
    note_read(address, caller);
  } else {
    ++engine::changes;
  }
  engine::Checker& checker = *thread->block->launch->checker;
  engine::Buffer& buffer = *region->buffer;
  if (type == AccessType::read ? checker.reads_again(buffer, address, n, *thread)
                               : checker.writes_again(buffer, address, n, *thread))
    return;
  if (thread->undecided != 0) [[unlikely]]
    decide_before_access(*thread, address, n);
  const engine::Site site = site_of_address(caller);
  if (type == AccessType::write && buffer.space() == engine::Space::constant) [[unlikely]]
    return constant_written(*region, address, n, type, site);
  const auto check = [&, site] {
    return type == AccessType::read ? checker.read(buffer, address, n, *thread, site)
                                    : checker.write(buffer, address, n, *thread, site);
  };
  if (check()) [[likely]]
    return;
  if (checker.violation.among_writes) return decide_after_write(address, n, site);
  refused(*region, n, site, check);
}

// The checks treat volatile accesses as atomics, so that polling a volatile flag is accepted. Lanes that exchange
// elements of a shared array by volatile accesses without a __syncwarp are reported once for each array, as a warning,
// since occasional looks at such a variable are correct.
void watch_readers(Region& region, uintptr_t address, size_t n, const Thread& thread, engine::Site site) {
  const bool of_an_array = region.end - region.begin > n;
  if (region.buffer->space() != engine::Space::shared || !of_an_array || region.told) return;
  if (thread.block->launch->checker->awaited(*region.buffer, address, n, thread)) return;
  checked_memory->note_told(region);
  not_awaited(region, n, site);
}

// Kind and owner of an atomic.
struct Atomic {
  bool reads = true, writes = true;
  AtomicForm form = AtomicForm::device;
  std::optional<uint64_t> compare = {};  // of a compare-and-swap
};
constexpr Atomic load{.writes = false}, store{.reads = false}, exchange{};
constexpr Atomic compare(uint64_t expected) {
  return {.compare = expected};
}

// Does an atomic, checked if it is a kernel's. `operate` returns whether it wrote. If it changed nothing, its thread
// may be waiting for another one.
template <typename T, typename Operate>
void checked_atomic(const volatile T* pointer, Atomic atomic, const void* caller, Operate operate) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  Thread* const thread = accessing_thread(caller, address, sizeof(T));
  Region* const region = thread == nullptr ? nullptr : watched(address, sizeof(T), AccessType::atomic, true, caller);
  if (region == nullptr) {
    host_atomic = thread == nullptr ? address : 0;
    operate();
    if (atomic.form != AtomicForm::by_volatile) host_atomic = 0;  // a volatile access comes after this call
    return;
  }
  // The kernel itself reads a volatile after this call: let others run before the value is noted, not between.
  const bool reads_volatile = atomic.form == AtomicForm::by_volatile && !atomic.writes;
  if (reads_volatile) look(caller);
  if (thread->undecided != 0) [[unlikely]]
    decide_before_access(*thread, address, sizeof(T), atomic.compare);
  engine::Checker& checker = *thread->block->launch->checker;
  const engine::Site site = site_of_address(caller);
  engine::Buffer& buffer = *region->buffer;
  if (atomic.writes && buffer.space() == engine::Space::constant) [[unlikely]] {
    constant_written(*region, address, sizeof(T), AccessType::atomic, site);
    operate();
    return;
  }
  const engine::AtomicAccess access{site, atomic.reads, atomic.form, atomic.compare.has_value()};
  const auto check = [&] { return checker.check_atomic(buffer, address, sizeof(T), *thread, access); };
  if (!check()) [[unlikely]]
    refused(*region, sizeof(T), site, check);
  if (atomic.form == AtomicForm::by_volatile && atomic.writes)
    watch_readers(*region, address, sizeof(T), *thread, site);
  const T before = *pointer;
  const bool wrote = operate();
  const bool changed = *pointer != before;
  checker.note_atomic(buffer, address, sizeof(T), *thread, access, wrote);
  if (changed) {
    ++engine::changes;
  } else if (!reads_volatile) {
    look(caller);
  }
}

// memcpy or memmove. If its access is skipped, the source is poison, even while the target is checked.
template <void* (*copy)(void*, const void*, size_t)>
void* checked_copy(void* to, const void* from, size_t n, const void* caller) {
  if (n == 0) return to;
  if (is_surely_own(to) && is_surely_own(from)) return copy(to, from, n);
  if (is_undecided_write(to, n)) return copy(to, from, n);
  checked_access(from, n, AccessType::read, false, caller);
  const bool poisoned = skips(reinterpret_cast<uintptr_t>(from));
  checked_access(to, n, AccessType::write, false, caller);
  if (!poisoned) return copy(to, from, n);
  fill_with_poison(to, n);
  return to;
}

template <size_t bytes>
using uint_of =
    std::conditional_t<bytes == 1, uint8_t,
                       std::conditional_t<bytes == 2, uint16_t, std::conditional_t<bytes == 4, uint32_t, uint64_t>>>;

// PTX's ld.volatile and st.volatile are relaxed atomics (PTX ISA, "Memory Consistency Model: volatile operation").
template <typename T>
void checked_volatile(const void* pointer, bool writes, const void* caller) {
  const Atomic access{.reads = !writes, .writes = writes, .form = AtomicForm::by_volatile};
  checked_atomic(static_cast<const volatile T*>(pointer), access, caller, [writes] { return writes; });
  if (writes) ++engine::changes;
}

// The data that g++ passes with an index, laid out as in compiler-rt's ubsan_handlers.h and ubsan_value.h.
struct TypeOfUbsan {
  uint16_t kind;  // 0: an integer
  uint16_t info;  // of an integer: bit 0 is set if it is signed, the others are the logarithm of its number of bits
  char name[];    // "'float [4]'"
};
struct OutOfBoundsOfUbsan {
  const char* file;
  uint32_t line, column;
  const TypeOfUbsan *array, *index;
};
struct TypeMismatchOfUbsan {
  const char* file;
  uint32_t line, column;
  const TypeOfUbsan* type;
  uint8_t log_alignment;
  uint8_t what;  // 0: a load, 1: a store; without an access of memory: 2: a reference, 3: a member, …
};

// "Quad" of "'const struct Quad'".
std::string_view name_of(const TypeOfUbsan& type) {
  std::string_view name = type.name;
  name = name.substr(name.find_last_of(' ') == name.npos ? 1 : name.find_last_of(' ') + 1);
  return name.substr(0, name.find('\''));
}

int64_t index_of(const TypeOfUbsan& type, uintptr_t value) {
  const int unused = 64 - (1 << (type.info >> 1));
  const bool extends = type.kind == 0 && (type.info & 1) != 0 && unused > 0;
  return extends ? static_cast<int64_t>(value << unused) >> unused : static_cast<int64_t>(value);
}

// The first extent in "'float [8][9]'"; 0: there is none.
int64_t extent_of(const TypeOfUbsan& type) {
  const char* const bracket = strchr(type.name, '[');
  return bracket == nullptr ? 0 : atoll(bracket + 1);
}

// Calls f with a pointer to an unsigned integer of so many bytes.
template <typename F>
auto with_word(void* p, size_t bytes, F f) {
  switch (bytes) {
    case 1: return f(static_cast<uint8_t*>(p));
    case 2: return f(static_cast<uint16_t*>(p));
    case 4: return f(static_cast<uint32_t*>(p));
    default: return f(static_cast<uint64_t*>(p));
  }
}

AtomicForm form_of(Scope scope) {
  return scope == Scope::block ? AtomicForm::block : AtomicForm::device;
}

}  // namespace

uint64_t checked_update(void* p, size_t bytes, Scope scope, Made (*made)(const void* context, uint64_t old),
                        const void* context, const uint64_t* compare) {
  const Atomic atomic{.form = form_of(scope), .compare = compare != nullptr ? std::optional(*compare) : std::nullopt};
  const void* const caller = __builtin_return_address(0);
  return with_word(p, bytes, [&]<typename T>(T* word) {
    T old = 0;
    checked_atomic(word, atomic, caller, [&] {
      old = *word;
      const auto [value, writes] = made(context, old);
      if (writes) *word = static_cast<T>(value);
      return writes;
    });
    return uint64_t{old};
  });
}

uint64_t checked_load(const void* p, size_t bytes, Scope scope) {
  const Atomic atomic{.writes = false, .form = form_of(scope)};
  const void* const caller = __builtin_return_address(0);
  return with_word(const_cast<void*>(p), bytes, [&]<typename T>(T* word) {
    T value = 0;
    checked_atomic(word, atomic, caller, [&] {
      value = *word;
      return false;
    });
    return uint64_t{value};
  });
}

void checked_store(void* p, size_t bytes, Scope scope, uint64_t value) {
  const Atomic atomic{.reads = false, .form = form_of(scope)};
  const void* const caller = __builtin_return_address(0);
  with_word(p, bytes, [&]<typename T>(T* word) {
    checked_atomic(word, atomic, caller, [&] {
      *word = static_cast<T>(value);
      return true;
    });
  });
}

void checked_discard(void* p, size_t bytes) {
  const void* const caller = __builtin_return_address(0);
  checked_access(p, bytes, AccessType::write, true, caller);
  if (skips(reinterpret_cast<uintptr_t>(p))) return;
  const Region* const region = checked_memory->find(reinterpret_cast<uintptr_t>(p), bytes);
  if (region != nullptr && region->buffer != nullptr)
    region->buffer->note_discarded(reinterpret_cast<uintptr_t>(p), bytes);
}

}  // namespace trifold::cpu

using trifold::cpu::checked_access;
using trifold::cpu::checked_atomic;
using trifold::cpu::checked_copy;
using trifold::cpu::checked_volatile;
using trifold::cpu::is_surely_own;
using trifold::cpu::uint_of;
using trifold::engine::AccessType;

#pragma GCC visibility push(default)
extern "C" {

void __ubsan_handle_out_of_bounds(void* data, uintptr_t value) {
  using namespace trifold::cpu;
  if (accessing_thread(__builtin_return_address(0)) == nullptr) return;
  const auto& [file, line, column, array, index] = *static_cast<const OutOfBoundsOfUbsan*>(data);
  outside_declared_bounds(
      {file, static_cast<int>(line), static_cast<int>(column), index_of(*index, value), extent_of(*array)},
      site_of_address(__builtin_return_address(0)));
}

void __ubsan_handle_type_mismatch_v1(void* data, uintptr_t address) {
  using namespace trifold::cpu;
  const auto& mismatch = *static_cast<const TypeMismatchOfUbsan*>(data);
  if (accessing_thread(__builtin_return_address(0)) == nullptr || mismatch.what > 1) return;
  misaligned_type(name_of(*mismatch.type), address, size_t{1} << mismatch.log_alignment,
                  mismatch.what == 0 ? AccessType::read : AccessType::write,
                  site_of_address(__builtin_return_address(0)));
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_atomic_signal_fence(int) {}
void __tsan_atomic_thread_fence(int) {
  trifold::cpu::fence(trifold::cpu::Scope::device);
}

// The compiler derives the names from the width: only a macro can define them.
#define TRIFOLD_ACCESS(prefix, width, aligned)                                         \
  void __tsan_##prefix##read##width(void* p) {                                         \
    if (is_surely_own(p)) return;                                                      \
    checked_access(p, width, AccessType::read, aligned, __builtin_return_address(0));  \
  }                                                                                    \
  void __tsan_##prefix##write##width(void* p) {                                        \
    if (is_surely_own(p)) return;                                                      \
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
// A constructor or destructor writes the pointer to the virtual functions; a call reads it like any member.
void __tsan_vptr_update(void** p, void*) {
  if (is_surely_own(p)) return;
  checked_access(p, sizeof *p, AccessType::write, true, __builtin_return_address(0));
}
void __tsan_vptr_read(void**) {}

#define TRIFOLD_VOLATILE(width)                                              \
  void __tsan_volatile_read##width(void* p) {                                \
    checked_volatile<uint_of<width>>(p, false, __builtin_return_address(0)); \
  }                                                                          \
  void __tsan_volatile_write##width(void* p) {                               \
    checked_volatile<uint_of<width>>(p, true, __builtin_return_address(0));  \
  }
TRIFOLD_VOLATILE(1)
TRIFOLD_VOLATILE(2)
TRIFOLD_VOLATILE(4)
TRIFOLD_VOLATILE(8)
#undef TRIFOLD_VOLATILE
// Wider than any atomic: CUDA accesses the halves separately.
void __tsan_volatile_read16(void* p) {
  checked_access(p, 16, AccessType::read, true, __builtin_return_address(0));
}
void __tsan_volatile_write16(void* p) {
  checked_access(p, 16, AccessType::write, true, __builtin_return_address(0));
}

void __tsan_read_range(void* p, size_t n) {
  if (n > 0 && !is_surely_own(p)) checked_access(p, n, AccessType::read, false, __builtin_return_address(0));
}
void __tsan_write_range(void* p, size_t n) {
  if (n > 0 && !is_surely_own(p)) checked_access(p, n, AccessType::write, false, __builtin_return_address(0));
}

// Ports are linked so that their calls of memcpy, memmove and memset reach these functions (trifold/build/recipe.py).
// g++ checks an assignment of a struct, and may call one of them for it.
void* __wrap_memcpy(void* to, const void* from, size_t n) {
  return checked_copy<memcpy>(to, from, n, __builtin_return_address(0));
}
void* __wrap_memmove(void* to, const void* from, size_t n) {
  return checked_copy<memmove>(to, from, n, __builtin_return_address(0));
}
void* __wrap_memset(void* to, int value, size_t n) {
  if (is_surely_own(to) || trifold::cpu::is_undecided_write(to, n)) return memset(to, value, n);
  if (n > 0) checked_access(to, n, AccessType::write, false, __builtin_return_address(0));
  return memset(to, value, n);
}

#define TRIFOLD_UPDATE(bits, operation)                                                                 \
  uint##bits##_t __tsan_atomic##bits##_##operation(volatile uint##bits##_t* p, uint##bits##_t v, int) { \
    uint##bits##_t old = 0;                                                                             \
    checked_atomic(p, trifold::cpu::exchange, __builtin_return_address(0), [&] {                        \
      old = __atomic_##operation(p, v, __ATOMIC_SEQ_CST);                                               \
      return true;                                                                                      \
    });                                                                                                 \
    return old;                                                                                         \
  }
#define TRIFOLD_COMPARE(bits, strength)                                                                        \
  bool __tsan_atomic##bits##_compare_exchange_##strength(volatile uint##bits##_t* p, uint##bits##_t* expected, \
                                                         uint##bits##_t v, int, int) {                         \
    bool done = false;                                                                                         \
    checked_atomic(p, trifold::cpu::compare(*expected), __builtin_return_address(0), [&] {                     \
      return done = __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);    \
    });                                                                                                        \
    return done;                                                                                               \
  }
#define TRIFOLD_ATOMICS(bits)                                                                        \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* p, int) {                 \
    uint##bits##_t value = 0;                                                                        \
    checked_atomic(p, trifold::cpu::load, __builtin_return_address(0), [&] {                         \
      value = __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                  \
      return false;                                                                                  \
    });                                                                                              \
    return value;                                                                                    \
  }                                                                                                  \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* p, uint##bits##_t v, int) {              \
    checked_atomic(p, trifold::cpu::store, __builtin_return_address(0), [&] {                        \
      __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                      \
      return true;                                                                                   \
    });                                                                                              \
  }                                                                                                  \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* p, uint##bits##_t v, int) { \
    uint##bits##_t old = 0;                                                                          \
    checked_atomic(p, trifold::cpu::exchange, __builtin_return_address(0), [&] {                     \
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
