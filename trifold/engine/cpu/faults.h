// Wrong accesses of memory: each becomes a finding of the running thread. It ends the launch, unless the user accepts
// it or the launch continues after findings: then these functions return, and an access that must not happen is
// skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "../core/checker.h"
#include "../core/tolerance.h"
#include "memory.h"
#include "undecided.h"

namespace trifold::cpu {

// The region of an access to shared memory of another block of the running block's cluster. Null: there is none; or
// that block need not have begun or may have ended, and the access is skipped. `awaited`: the owner waits for the
// access before it exits.
[[gnu::cold]] Region* peer_region(uintptr_t address, size_t n, engine::AccessType type, engine::Site site,
                                  bool awaited = false);
// The same for an asynchronous operation that the thread starts, except that nothing is skipped; and the memory's
// owner.
[[gnu::cold]] CheckedMemory::OfPeer peer_region_of(engine::Instruction instruction, uintptr_t address, size_t n,
                                                   engine::AccessType type, engine::Site site);
// Mistakes of such an operation: its address, its size, the ranks that it names, and a missing fence
// (Checker::late_fence).
[[gnu::cold]] void misaligned_operation(engine::Instruction instruction, const Region* region, uintptr_t address,
                                        size_t alignment, engine::AccessType type, engine::Site site);
[[gnu::cold]] void odd_size_of_operation(engine::Instruction instruction, size_t bytes, size_t unit, engine::Site site);
[[gnu::cold]] void ranks_outside_cluster(engine::Instruction instruction, uint32_t ranks, uint32_t blocks,
                                         engine::Site site);
[[gnu::cold]] void fenced_late(const Region& region, engine::Site site);
// The element size that is assumed to describe such an operation's place in an array, where it is unknown.
inline constexpr size_t usual_element = 4;
// No region contains these bytes: the access is skipped.
[[gnu::cold]] void out_of_bounds(uintptr_t address, size_t n, engine::AccessType type, engine::Site site);
[[gnu::cold]] void misaligned(const Region& region, uintptr_t address, size_t n, engine::AccessType type,
                              engine::Site site);
// Memory is loaded or stored as a type that requires a higher alignment than this address has. Returns if the access
// itself, which follows, will be found outside all regions.
void misaligned_type(std::string_view type, uintptr_t address, size_t alignment, engine::AccessType access,
                     engine::Site site);
// A kernel writes constant memory: the access is skipped.
[[gnu::cold]] void constant_written(const Region& region, uintptr_t address, size_t n, engine::AccessType type,
                                    engine::Site site);
// Every lane of a shuffle, of which `first` is the first, reads a lane that does not take part: a warning. (If only
// some lanes do, they may not use the value.)
[[gnu::cold]] void shuffled_nothing(const engine::Thread& first);
// Checker::awaited() recorded a violation: a warning, and the thread continues.
[[gnu::cold]] void not_awaited(const Region& region, size_t n, engine::Site site);
// Checker::compare_write() recorded a violation by writes of the same bits: a warning, and the thread continues.
// `before`: the same lines have done so before at this memory, and the finding is only counted.
[[gnu::cold]] void wrote_same_bits(const Region& region, size_t n, engine::Site site, bool before);
// The checker recorded a violation that ends the launch.
[[noreturn, gnu::cold]] void violated(const Region& region, size_t n, engine::Site site);

// Decides whether the launch continues after the violations of one access.
class AccessJudge final : public engine::Judge {
 public:
  AccessJudge(const Region& region, size_t n, engine::Site site);
  bool goes_on(const engine::Violation& violation) override;

 private:
  const Region& region_;
  size_t n_;
  engine::Site site_;
  std::optional<engine::Tally::Place> last_;
};

// The checker refused an access. `check` repeats it: after each violation, the launch continues or ends.
template <typename Check>
[[gnu::cold, gnu::noinline]] void refused(const Region& region, size_t n, engine::Site site, Check check) {
  engine::Checker& checker = *engine::current->block->launch->checker;
  if (engine::current->undecided != 0 && checker.violation.kind == engine::Kind::race)
    decide_before_race(*engine::current, checker.violation.other_thread);
  AccessJudge judge(region, n, site);
  checker.judge = &judge;
  const bool right = check();
  checker.judge = nullptr;
  if (!right) violated(region, n, site);
}

// These bytes are not valid memory for the operation that the running thread is about to do: "a barrier lies in shared
// memory".
[[gnu::cold]] void not_for_operation(uintptr_t address, size_t n, engine::Site site, std::string_view why);
// The running thread frees an address at which its heap has no memory.
[[gnu::cold]] void wrong_free(uintptr_t address, engine::Site site);
// An address in shared memory that is invalid, or invalid for the running thread's instruction; `why` says which.
[[gnu::cold]] void wrong_shared_address(engine::Site site, const std::string& why);

// An index outside of an array's declared extent. The address may well be memory of the kernel: the next row, the
// struct's next member, another variable on the stack.
struct DeclaredIndex {
  const char* file;
  int line, column;  // of a bracket around the index
  int64_t index, extent;
};
// Returns if the access itself, which follows, will be found outside all regions.
void outside_declared_bounds(const DeclaredIndex& at, engine::Site site);

}  // namespace trifold::cpu
