#include "undecided.h"

#include <string>

#include "../core/execution.h"
#include "faults.h"
#include "memory.h"

namespace trifold::cpu {
namespace {

using engine::Thread;
using engine::WrittenBits;

// The running thread's last write. There is at most one, since it is decided before another thread runs.
struct {
  uintptr_t address;
  engine::Site site;
  std::string before;  // the bytes before the write
} last_write;

void decide_write(Thread& thread) {
  if ((thread.undecided & engine::undecided_write) == 0) return;
  thread.undecided &= static_cast<uint8_t>(~engine::undecided_write);
  const auto& [address, site, before] = last_write;
  const Region& region = *checked_memory->find_any(address, before.size());
  engine::Checker& checker = *thread.block->launch->checker;
  const size_t n = before.size();
  const auto compare = [&] { return checker.compare_write(*region.buffer, address, n, before.data(), thread, site); };
  const WrittenBits written = compare();
  if (written != WrittenBits::other) return wrote_same_bits(region, n, site, written == WrittenBits::same_again);
  refused(region, n, site, [&] { return compare() != WrittenBits::other; });
}

// Lets `decide`, of the Checker, decide one read after the other. After a wrong read, what follows is wrong as well:
// the finding is the read's.
template <typename Decide>
void decide_reads(Thread& thread, Decide decide) {
  engine::Checker& checker = *thread.block->launch->checker;
  while ((thread.undecided & engine::undecided_reads) != 0 && !decide(checker)) {
    const engine::Violation violation = checker.violation;
    const Region& region = *checked_memory->find_any(violation.address, 1);
    const auto& [site, interval, width, earlier] = *violation.past;
    if (!AccessJudge(region, width, site).goes_on(violation)) violated(region, width, site);
  }
}

}  // namespace

void decide_after_write(uintptr_t address, size_t n, engine::Site site) {
  last_write = {address, site, std::string(reinterpret_cast<const char*>(address), n)};
  engine::current->undecided |= engine::undecided_write;
}

bool is_undecided_write(const void* address, size_t n) {
  const Thread* const thread = engine::current;
  return thread != nullptr && (thread->undecided & engine::undecided_write) != 0 &&
         last_write.address == reinterpret_cast<uintptr_t>(address) && last_write.before.size() == n;
}

void decide_before_access(Thread& thread, uintptr_t address, size_t n, std::optional<uint64_t> compare) {
  decide_write(thread);
  decide_reads(thread, [&](engine::Checker& checker) { return checker.decide_reads(thread, address, n, compare); });
}

void decide_before_race(Thread& thread, uint32_t other) {
  decide_reads(thread, [&](engine::Checker& checker) { return checker.decide_reads_of(thread, other); });
}

void decide_before_wait(Thread& thread) {
  const auto operation = static_cast<engine::Operation>(thread.request.operation);
  if (engine::is_barrier(operation)) return decide_before_end(thread);
  decide_write(thread);
}

void decide_before_end(Thread& thread) {
  decide_write(thread);
  decide_reads(thread, [&](engine::Checker& checker) { return checker.decide_reads(thread); });
}

}  // namespace trifold::cpu
