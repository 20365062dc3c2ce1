// A guard allocator that makes out-of-bounds accesses of CPU tensors visible: libtrifold_guard.so, for LD_PRELOAD.
//
// It replaces the aligned allocation functions of the GNU C library (torch's CPU allocator calls posix_memalign) and
// does nothing until it is armed. From then on each block has its own pages in one reserved address range:
//
//     end mode      no access | canary · block | no access      an access past the block's end faults
//     start mode    no access | block · canary | no access      an access before the block's start faults
//
// A block is filled with 0xFF, a NaN in every floating type, so that an element that was never written shows. A freed
// block becomes inaccessible, and its addresses are not used again before the range is used up. A fault in the range is
// reported in one line on standard error and ends the process by SIGSEGV; trifold_guard_check reports canaries that
// were overwritten.

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "guard_blocks.h"

// The GNU C library's own functions, under names that nothing interposes.
extern "C" void* __libc_memalign(size_t alignment, size_t size);
extern "C" void* __libc_realloc(void* pointer, size_t size);
extern "C" void __libc_free(void* pointer);

namespace {

using namespace trifold::guard;
using trifold::Line;

// ------------------------------------------------------------------------------------------------- faults

struct sigaction previous_action;
std::atomic<pid_t> reporting_thread{0};

const char* access_of(const void* context) {
#ifdef __x86_64__
  // Bit 1 of a page fault's error code: caused by a write (Intel SDM volume 3, "Page-Fault Exception").
  const auto error = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR];
  return (error & 2) != 0 ? "write" : "read";
#else
  static_cast<void>(context);
  return "access";
#endif
}

// A fault lies in its block's slots or in those of the block in front of it.
void report_fault(const char* access, const char* address) {
  const uint32_t slot = slot_of(address);
  const Block* block = block_at(slot);
  const Block* next = block_at(block != nullptr ? slot_after(*block) : slot + 1);
  if (block == nullptr || (next != nullptr && distance(address, *next) < distance(address, *block))) block = next;
  Line line;
  if (block != nullptr) {
    describe(line, access, address, *block);
  } else {
    line << "trifold guard: " << access << " far from any block";
  }
  (line << "\n").write_to(STDERR_FILENO);
}

// Passes a signal for an address outside of the range to the handler that was installed before.
void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    sigaction(signal, &previous_action, nullptr);
    if (info->si_code <= 0) raise(signal);  // sent by a process; a fault happens again by itself on return
  }
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  if (info->si_code <= 0 || !in_range(info->si_addr)) {
    pass_on(signal, info, context);
    errno = saved_errno;
    return;
  }
  // The access is repeated on return, so the previous action sees the fault too (Python's faulthandler, the default).
  // If the previous action leads back here, the default action ends the process. Other threads that fault wait for
  // that.
  const auto thread = static_cast<pid_t>(syscall(SYS_gettid));
  pid_t reporter = 0;
  if (reporting_thread.compare_exchange_strong(reporter, thread)) {
    report_fault(access_of(context), static_cast<const char*>(info->si_addr));
    sigaction(signal, &previous_action, nullptr);
  } else if (reporter == thread) {
    struct sigaction default_action{};
    default_action.sa_handler = SIG_DFL;
    sigaction(signal, &default_action, nullptr);
  } else {
    for (;;) pause();
  }
  errno = saved_errno;
}

// ------------------------------------------------------------------------------------------------- arming

void* reserve(size_t bytes, int protection) {
  void* memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Reserves the range and its tables and installs the SIGSEGV handler. Returns 0 or an errno.
int prepare() {
  const Lock locked;
  if (range.load(std::memory_order_relaxed) != nullptr) return 0;
  void* const block_table = reserve(slot_count * sizeof(Block), PROT_READ | PROT_WRITE);
  void* const slot_table = reserve(slot_count * sizeof(uint32_t), PROT_READ | PROT_WRITE);
  void* const memory = reserve(range_bytes + slot_bytes, PROT_NONE);
  if (block_table == nullptr || slot_table == nullptr || memory == nullptr) return ENOMEM;
  blocks = static_cast<Block*>(block_table);
  first_slot = static_cast<uint32_t*>(slot_table);

  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  if (sigaction(SIGSEGV, &action, &previous_action) != 0) return errno;
  // A child must not inherit a lock held by a thread that does not exist in it.
  pthread_atfork([] { pthread_mutex_lock(&mutex); }, [] { pthread_mutex_unlock(&mutex); },
                 [] { pthread_mutex_unlock(&mutex); });
  const auto aligned = round_up(reinterpret_cast<uintptr_t>(memory), slot_bytes);
  range.store(reinterpret_cast<char*>(aligned), std::memory_order_release);
  return 0;
}

// Gives the calling thread a signal stack if it has none.
void ensure_signal_stack() {
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
  stack = {};
  stack.ss_size = size_t{64} << 10;
  stack.ss_sp = reserve(stack.ss_size, PROT_READ | PROT_WRITE);
  if (stack.ss_sp != nullptr) sigaltstack(&stack, nullptr);
}

void* allocate_or_pass_on(size_t alignment, size_t size) {
  void* const guarded = allocate(alignment, size);
  return guarded != nullptr ? guarded : __libc_memalign(alignment, size);
}

// torch's blocks begin at a multiple of this many bytes, or of the alignment that torch asks for if that is larger.
std::atomic<size_t> least_alignment{1};

// Calls by this thread of the three functions that matter; for trifold_guard_is_active.
[[gnu::tls_model("initial-exec")]] thread_local unsigned calls_seen = 0;

}  // namespace

#define EXPORT extern "C" [[gnu::visibility("default")]]

// ------------------------------------------------------------------------ in place of the GNU C library's

EXPORT int posix_memalign(void** pointer, size_t alignment, size_t size) noexcept {
  ++calls_seen;
  if (alignment % sizeof(void*) != 0 || !std::has_single_bit(alignment)) return EINVAL;
  void* const memory = allocate_or_pass_on(std::max(alignment, least_alignment.load()), size);
  if (memory == nullptr) return ENOMEM;
  *pointer = memory;
  return 0;
}

EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return allocate_or_pass_on(alignment, size);
}

EXPORT void* memalign(size_t alignment, size_t size) noexcept {
  return allocate_or_pass_on(alignment, size);
}

EXPORT void free(void* pointer) noexcept {
  ++calls_seen;
  if (!in_range(pointer)) return __libc_free(pointer);
  const int saved_errno = errno;
  release(pointer);
  errno = saved_errno;
}

EXPORT void* realloc(void* pointer, size_t size) noexcept {
  ++calls_seen;
  if (!in_range(pointer)) return __libc_realloc(pointer, size);
  const size_t old_size = size_of("realloc", pointer);
  void* const moved = size != 0 ? allocate_or_pass_on(alignof(max_align_t), size) : nullptr;
  if (moved == nullptr && size != 0) return nullptr;
  if (moved != nullptr) memcpy(moved, pointer, std::min(old_size, size));
  release(pointer);
  return moved;
}

EXPORT size_t malloc_usable_size(void* pointer) noexcept {
  if (in_range(pointer)) return size_of("malloc_usable_size", pointer);
  return reinterpret_cast<size_t (*)(void*)>(dlsym(RTLD_NEXT, "malloc_usable_size"))(pointer);
}

// ------------------------------------------------------------------------------ for trifold/isolation/guard.py

// Guards all later allocations; `placement` is 1 (end mode) or 2 (start mode). Returns 0 or an errno.
EXPORT int trifold_guard_arm(int placement) {
  if (placement != end_mode && placement != start_mode) return EINVAL;
  if (const int error = prepare(); error != 0) return error;
  ensure_signal_stack();
  mode.store(placement, std::memory_order_release);
  return 0;
}

// Guards no later allocations; live blocks stay guarded.
EXPORT void trifold_guard_disarm() {
  mode.store(off, std::memory_order_release);
}

// From now on posix_memalign returns multiples of `least` bytes, a power of two.
EXPORT void trifold_guard_align(size_t least) {
  least_alignment.store(least);
}

// Returns the number of canaries damaged since the last call, with a line about each in `buffer` (cut at `size`, ends
// with 0).
EXPORT size_t trifold_guard_check(char* buffer, size_t size) {
  const Lock locked;
  for (uint32_t slot = 1; slot < slots_used; ++slot)
    if (first_slot[slot] == slot && blocks[slot].live) inspect(blocks[slot]);
  return damage.take(buffer, size);
}

// Whether `pointer` is guarded memory.
EXPORT int trifold_guard_holds(const void* pointer) {
  return in_range(pointer) ? 1 : 0;
}

// Whether this process's allocations go through this library, rather than only the library being loaded. This calls the
// functions through the names as the rest of the process resolves them; comparing addresses would not do, since in a
// program that is linked at a fixed address the name is the address of the program's own jump to the function.
EXPORT int trifold_guard_is_active() {
  const auto allocate = reinterpret_cast<int (*)(void**, size_t, size_t)>(dlsym(RTLD_DEFAULT, "posix_memalign"));
  const auto resize = reinterpret_cast<void* (*)(void*, size_t)>(dlsym(RTLD_DEFAULT, "realloc"));
  const auto give_back = reinterpret_cast<void (*)(void*)>(dlsym(RTLD_DEFAULT, "free"));
  const unsigned before = calls_seen;
  void* memory = nullptr;
  if (allocate(&memory, 64, 64) != 0) return 0;
  if (void* const moved = resize(memory, 128); moved != nullptr) memory = moved;
  give_back(memory);
  return calls_seen - before == 3 ? 1 : 0;
}
