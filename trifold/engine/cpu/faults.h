// Accesses of memory that are wrong: each becomes a finding of the thread that runs. It ends the launch, unless the
// user accepts it or asks to keep going: then these functions return, and an access that must not happen is skipped.
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

namespace trifold::host {

// What an access of these bytes is of that is not of the running block's own memory, nor global: shared memory of
// another block of its cluster. Null: it is none's; or that block need not have begun or has ended, and the access is
// skipped.
// `awaited`: the owner sees when it has happened, so that it may exit then.
[[gnu::cold]] Region* peer_region(uintptr_t address, size_t n, engine::AccessType type, engine::Site site,
                                  bool awaited = false);
// The same of an asynchronous operation that the thread starts, but that nothing is skipped; and whose memory it is.
[[gnu::cold]] CheckedMemory::OfPeer peer_region_of(engine::Instruction instruction, uintptr_t address, size_t n,
                                                   engine::AccessType type, engine::Site site);
// Such an operation's address, its size, the ranks that it names, and Checker::late_fence.
[[gnu::cold]] void misaligned_operation(engine::Instruction instruction, const Region* region, uintptr_t address,
                                        size_t alignment, engine::AccessType type, engine::Site site);
[[gnu::cold]] void odd_size_of_operation(engine::Instruction instruction, size_t bytes, size_t unit, engine::Site site);
[[gnu::cold]] void ranks_outside_cluster(engine::Instruction instruction, uint32_t ranks, uint32_t blocks,
                                         engine::Site site);
[[gnu::cold]] void fenced_late(const Region& region, engine::Site site);
// So wide are the elements by which such an operation's place in an array is told, where they are not known.
inline constexpr size_t usual_element = 4;
// No region has these bytes: the access is skipped.
[[gnu::cold]] void out_of_bounds(uintptr_t address, size_t n, engine::AccessType type, engine::Site site);
[[gnu::cold]] void misaligned(const Region& region, uintptr_t address, size_t n, engine::AccessType type,
                              engine::Site site);
// Memory is loaded or stored as a type that may not begin at this address. Returns where the access itself, which
// follows, is found outside all regions.
void misaligned_type(std::string_view type, uintptr_t address, size_t alignment, engine::AccessType access,
                     engine::Site site);
// A kernel writes constant memory: the access is skipped.
[[gnu::cold]] void constant_written(const Region& region, uintptr_t address, size_t n, engine::AccessType type,
                                    engine::Site site);
// Each lane of a shuffle, of which this is the first, asks for a value of one that takes no part: a warning. (What a
// single lane gets so, it may not use.)
[[gnu::cold]] void shuffled_nothing(const engine::Thread& first);
// Checker::awaited() has left its violation: a warning, and the thread goes on.
[[gnu::cold]] void not_awaited(const Region& region, size_t n, engine::Site site);
// Checker::compare_write() has left its violation, of writes of the same bits: a warning, and the thread goes on.
// `before`: the same lines have written this memory so before, which is counted at most.
[[gnu::cold]] void wrote_same_bits(const Region& region, size_t n, engine::Site site, bool before);
// The checker has left its violation, with which the launch ends.
[[noreturn, gnu::cold]] void violated(const Region& region, size_t n, engine::Site site);

// Says whether the launch goes on after the violations of one access.
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

// The checker has refused an access, which `check` makes again: the launch goes on after each of its violations, or
// ends.
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

// These bytes are no memory for the operation that the running thread is about to do on them: "a barrier lies in shared
// memory".
[[gnu::cold]] void not_for_operation(uintptr_t address, size_t n, engine::Site site, std::string_view why);
// An address of shared memory that is none, or not for the running thread's instruction: `why` says which.
[[gnu::cold]] void wrong_shared_address(engine::Site site, const std::string& why);

// An index outside the extent that an array is declared with; what lies there may well be memory of the kernel's: the
// next row, the struct's next member, another variable on the stack.
struct DeclaredIndex {
  const char* file;
  int line, column;  // of a bracket around the index
  int64_t index, extent;
};
// Returns where the access itself, which follows, is found outside all regions.
void outside_declared_bounds(const DeclaredIndex& at, engine::Site site);

}  // namespace trifold::host
