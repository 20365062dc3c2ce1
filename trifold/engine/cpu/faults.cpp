#include "faults.h"

#include <string>
#include <utility>

#include "earlier_grid.h"
#include "front.h"
#include "module.h"
#include "sites.h"
#include "skip.h"

namespace trifold::cpu {

using engine::AccessType;
using engine::Finding;
using engine::Kind;
using engine::Thread;

namespace {

Finding start_finding(Kind kind, std::string memory, std::string array, AccessType type, engine::Site site) {
  turn->front->interrupt();
  const Thread& thread = *engine::current;
  const engine::Launch& launch = *thread.block->launch;
  Finding finding;
  finding.kind = kind;
  finding.kernel = launch.kernel;
  finding.memory = std::move(memory);
  finding.array = std::move(array);
  finding.seed = launch.seed;
  finding.accesses.push_back({launch.block.at(thread.index), thread.block->index, thread.block->interval,
                              std::string(engine::name(type)), location_or_launch(site)});
  return finding;
}

Finding start_finding(Kind kind, const Region& region, AccessType type, engine::Site site) {
  return start_finding(kind, std::string(engine::name(region.space())), region.name(), type, site);
}

int64_t index_in(const Region& region, uintptr_t address, size_t width) {
  return static_cast<int64_t>(address - region.begin) / static_cast<int64_t>(width);
}

size_t width_of(const Region& region, size_t n) {
  return region.element_bytes != 0 ? region.element_bytes : n;
}

// "pairs" of "pairs[i].values".
std::string root_of(const std::string& array) {
  return array.substr(0, array.find_first_of(".-["));
}

engine::Tally& tally() {
  return *engine::current->block->launch->tally;
}

// Ends the launch, unless it continues after the finding; then the thread's own code runs again.
void end_or_go_on(Finding finding, engine::Site site) {
  if (!tally().goes_on({.kind = finding.kind, .site = site, .array = finding.array}, finding))
    turn->front->abandon(std::move(finding));
  turn->front->proceed();
}

// An access by a pointer that another block stored in global memory.
void access_of_another_block(const CheckedMemory::OfBlock& target, uintptr_t address, size_t n, AccessType type,
                             engine::Site site) {
  const auto& [region, block] = target;
  Finding finding = start_finding(Kind::out_of_bounds, *region, type, site);
  finding.index = {index_in(*region, address, width_of(*region, n))};
  engine::describe_memory_of_another_block(finding, block->index);
  end_or_go_on(std::move(finding), site);
}

void foreign_access(const std::string& memory, AccessType type, engine::Site site) {
  Finding finding =
      start_finding(Kind::out_of_bounds, std::string(engine::name(engine::Space::global)), "", type, site);
  const engine::Access& access = finding.accesses[0];
  finding.message = "out-of-bounds " + access.operation + " in kernel " + finding.kernel + ": " +
                    engine::who(access, false) + " accesses, at " + engine::where(access.location) + ", " + memory +
                    ". The access did not happen.";
  end_or_go_on(std::move(finding), site);
}

}  // namespace

namespace {

// Whether a block's shared memory certainly exists: it has begun and not ended.
bool is_alive(const engine::Block& owner) {
  const Thread& thread = *engine::current;
  return owner.live != 0 && thread.block->launch->checker->knows_begin(owner, thread);
}

void dead_memory(const CheckedMemory::OfPeer& target, uintptr_t address, size_t n, AccessType type, engine::Site site,
                 std::string_view instruction) {
  Finding finding = start_finding(Kind::lifetime, *target.region, type, site);
  finding.accesses[0].instruction = instruction;
  finding.index = {index_in(*target.region, address, width_of(*target.region, n))};
  engine::describe_lifetime(finding, target.block->index, target.block->live == 0);
  end_or_go_on(std::move(finding), site);
}

}  // namespace

Region* peer_region(uintptr_t address, size_t n, AccessType type, engine::Site site, bool awaited) {
  const CheckedMemory::OfPeer target = checked_memory->find_of_peer(address, n);
  if (target.region == nullptr) {
    out_of_bounds(address, n, type, site);
    return nullptr;
  }
  const Thread& thread = *engine::current;
  if (is_alive(*target.block)) {
    if (!awaited) thread.block->launch->checker->note_visit(*target.block, thread, type, site);
    return target.region;
  }
  dead_memory(target, address, n, type, site, {});
  skip_access(address, n);
  return nullptr;
}

CheckedMemory::OfPeer peer_region_of(engine::Instruction instruction, uintptr_t address, size_t n, AccessType type,
                                     engine::Site site) {
  const CheckedMemory::OfPeer target = checked_memory->find_of_peer(address, n);
  if (target.region == nullptr) {
    const Region* const begins_in = checked_memory->find_any(address, 1);
    out_of_bounds(begins_in != nullptr ? begins_in->end : address, usual_element, type, site);
    end_skipping();
    return target;
  }
  if (is_alive(*target.block)) return target;
  dead_memory(target, address, usual_element, type, site, engine::name(instruction));
  return {nullptr, nullptr};
}

void misaligned_operation(engine::Instruction instruction, const Region* region, uintptr_t address, size_t alignment,
                          AccessType type, engine::Site site) {
  Finding finding = region != nullptr && region->watched() ? start_finding(Kind::misaligned, *region, type, site)
                                                           : start_finding(Kind::misaligned, "", "", type, site);
  finding.accesses[0].instruction = engine::name(instruction);
  const uintptr_t begin = region != nullptr ? region->begin : address & ~(alignment - 1);
  engine::describe_misaligned_operation(finding, static_cast<int64_t>(alignment),
                                        static_cast<int64_t>(address - begin));
  end_or_go_on(std::move(finding), site);
}

void odd_size_of_operation(engine::Instruction instruction, size_t bytes, size_t unit, engine::Site site) {
  Finding finding = start_finding(Kind::misaligned, "", "", AccessType::write, site);
  finding.accesses[0].instruction = engine::name(instruction);
  engine::describe_size_of_operation(finding, static_cast<int64_t>(unit), static_cast<int64_t>(bytes));
  end_or_go_on(std::move(finding), site);
}

void ranks_outside_cluster(engine::Instruction instruction, uint32_t ranks, uint32_t blocks, engine::Site site) {
  Finding finding =
      start_finding(Kind::out_of_bounds, std::string(name(engine::Space::shared)), "", AccessType::write, site);
  finding.accesses[0].instruction = engine::name(instruction);
  engine::describe_ranks_outside(finding, ranks, blocks);
  end_or_go_on(std::move(finding), site);
}

void not_for_operation(uintptr_t address, size_t n, engine::Site site, std::string_view why) {
  const Region* const region = checked_memory->find(address, n);
  Finding finding = region != nullptr && region->watched()
                        ? start_finding(Kind::barrier_misuse, *region, AccessType::atomic, site)
                        : start_finding(Kind::barrier_misuse, "", "", AccessType::atomic, site);
  finding.accesses[0].operation = engine::name(static_cast<engine::Operation>(engine::current->request.operation));
  const engine::Access& access = finding.accesses[0];
  finding.message = "barrier misuse in kernel " + finding.kernel + ": " + engine::who(access, false) + " calls " +
                    access.operation + " at " + engine::where(access.location) +
                    " on memory that is not for it: " + std::string(why);
  end_or_go_on(std::move(finding), site);
}

void wrong_free(uintptr_t address, engine::Site site) {
  Finding finding =
      start_finding(Kind::out_of_bounds, std::string(engine::name(engine::Space::global)), "", AccessType::write, site);
  finding.accesses[0].operation = "free";
  const engine::Access& access = finding.accesses[0];
  const Allocation* const near = allocation_near(address);
  std::string what = "memory that is not of the kernels' heap: a kernel frees what kernels allocated by malloc or new";
  if (near != nullptr) what = near->description();
  if (near != nullptr && near->live && near->kind == MemoryKind::heap)
    what = "an address within " + what + ": free the address that malloc or new returned";
  finding.message = "out-of-bounds free in kernel " + finding.kernel + ": " + engine::who(access, false) +
                    " frees, at " + engine::where(access.location) + ", " + what + ". Nothing was freed.";
  end_or_go_on(std::move(finding), site);
}

void wrong_shared_address(engine::Site site, const std::string& why) {
  Finding finding =
      start_finding(Kind::out_of_bounds, std::string(engine::name(engine::Space::shared)), "", AccessType::read, site);
  finding.accesses[0].operation = "address";
  const engine::Access& access = finding.accesses[0];
  finding.message = "out-of-bounds address of shared memory in kernel " + finding.kernel + ": " +
                    engine::who(access, false) + " has, at " + engine::where(access.location) + ", " + why;
  end_or_go_on(std::move(finding), site);
}

void out_of_bounds(uintptr_t address, size_t n, AccessType type, engine::Site site) {
  if (const auto target = checked_memory->of_another_block(address); target.region != nullptr) {
    access_of_another_block(target, address, n, type, site);
    return skip_access(address, n);
  }
  if (const std::string memory = checked_memory->foreign(address); !memory.empty()) {
    foreign_access(memory, type, site);
    return skip_access(address, n);
  }
  const Region* region = checked_memory->nearest(address);
  // An index that was negative before its conversion to unsigned is too large by this much.
  if (region == nullptr) region = checked_memory->nearest(address - (uintptr_t{n} << 32));
  if (region == nullptr) {
    Finding finding = start_finding(Kind::out_of_bounds, "", "", type, site);
    engine::describe_unknown_address(finding, address);
    end_or_go_on(std::move(finding), site);
    return skip_access(address, n);
  }
  Finding finding = start_finding(Kind::out_of_bounds, *region, type, site);
  const size_t width = width_of(*region, n);
  const auto size = static_cast<int64_t>((region->end - region->begin) / width);
  const bool inside = address >= region->begin && address < region->end;
  // For an access that begins inside, the part after the end is outside.
  auto distance = static_cast<int64_t>((inside ? region->end : address) - region->begin);
  if (distance < 0) distance -= static_cast<int64_t>(width) - 1;
  const int64_t index = distance / static_cast<int64_t>(width);
  finding.index = {index};
  engine::describe_out_of_bounds(finding, 0, index, {size});
  if (region->allocation != nullptr) finding.message += " The array is " + region->allocation->description() + ".";
  end_or_go_on(std::move(finding), site);
  skip_access(address, n);
}

void misaligned(const Region& region, uintptr_t address, size_t n, AccessType type, engine::Site site) {
  Finding finding = start_finding(Kind::misaligned, region, type, site);
  finding.index = {index_in(region, address, width_of(region, n))};
  engine::describe_misaligned(finding, std::to_string(n) + "-byte access", static_cast<int64_t>(n),
                              static_cast<int64_t>(address - region.begin));
  end_or_go_on(std::move(finding), site);
}

void misaligned_type(std::string_view type, uintptr_t address, size_t alignment, AccessType access, engine::Site site) {
  const bool on_stack = turn->front->running->holds(address);
  const Region* const region = on_stack ? nullptr : checked_memory->find_any(address, 1);
  if (region == nullptr && !on_stack) return;
  const bool watched = region != nullptr && region->watched();
  Finding finding = watched ? start_finding(Kind::misaligned, *region, access, site)
                            : start_finding(Kind::misaligned, on_stack ? "local" : "", "", access, site);
  if (watched) finding.index = {index_in(*region, address, width_of(*region, alignment))};
  const uintptr_t begin = region != nullptr ? region->begin : address & ~(alignment - 1);
  engine::describe_misaligned(finding, type, static_cast<int64_t>(alignment), static_cast<int64_t>(address - begin));
  end_or_go_on(std::move(finding), site);
}

void constant_written(const Region& region, uintptr_t address, size_t n, AccessType type, engine::Site site) {
  Finding finding = start_finding(Kind::out_of_bounds, region, type, site);
  finding.index = {index_in(region, address, width_of(region, n))};
  engine::describe_constant_write(finding);
  end_or_go_on(std::move(finding), site);
  skip_access(address, n);
}

namespace {

// Adds which thread initialised the barrier at this address.
void add_barrier(Finding& finding, uintptr_t address) {
  const CpuFront& front = *turn->front;
  const auto* const memory = reinterpret_cast<const void*>(address);
  const engine::Block& owner = *front.owner_of_shared(memory);
  const uint32_t offset = front.offset_in(owner, memory) / engine::mbarrier_bytes * engine::mbarrier_bytes;
  const engine::Actor& by = owner.mbarriers.at(offset).initialised;
  finding.accesses.push_back(
      {by.thread->place, by.thread->block->index, -1, std::string(engine::name(by.operation)), location_of(by.site)});
}

// A finding from the checker's violation, without a message.
Finding start_finding_of_violation(const Region& region, size_t n, engine::Site site) {
  const engine::Launch& launch = *engine::current->block->launch;
  const engine::Violation& violation = launch.checker->violation;
  const auto& past = violation.past;
  Finding finding = start_finding(violation.kind, region, violation.type, past ? past->site : site);
  if (past) finding.accesses[0].interval = past->interval;
  finding.index = {index_in(region, violation.address, width_of(region, past ? past->n : n))};
  finding.accesses[0].instruction = violation.by;
  if (violation.kind == Kind::race && violation.other_thread == engine::earlier_grid)
    finding.accesses.push_back(
        earlier_of_running()->access(violation.address, violation.other_site, violation.other_type));
  else if (violation.kind == Kind::race)
    finding.accesses.push_back({launch.thread_index(violation.other_thread), launch.block_index(violation.other_thread),
                                violation.other_interval, std::string(engine::name(violation.other_type)),
                                location_or_launch(violation.other_site), std::string(violation.other_by)});
  if (violation.kind == Kind::barrier_misuse) add_barrier(finding, violation.address);
  if (past && past->earlier) std::swap(finding.accesses[0], finding.accesses[1]);
  return finding;
}

}  // namespace

void shuffled_nothing(const engine::Thread& first) {
  const engine::Launch& launch = *first.block->launch;
  Finding finding;
  finding.kind = Kind::warp_divergence;
  finding.severity = engine::Severity::warning;
  finding.kernel = launch.kernel;
  finding.seed = launch.seed;
  const auto operation = static_cast<engine::Operation>(first.request.operation);
  finding.accesses.push_back({launch.block.at(first.index), first.block->index, first.block->interval,
                              std::string(engine::name(operation)), location_of(first.waiting_at)});
  const engine::Access& at = finding.accesses[0];
  finding.message = "warp divergence in kernel " + finding.kernel + ": no lane gets a value by " + at.operation +
                    " at " + engine::where(at.location) + ", for each asks a lane that takes no part in the call, as " +
                    engine::who(at, false) +
                    " does.\nCUDA leaves such a value undefined: let the lanes that are asked take part, or begin with "
                    "a distance that is less than the number of lanes in the mask.";
  turn->front->warn(finding);
}

void not_awaited(const Region& region, size_t n, engine::Site site) {
  Finding finding = start_finding_of_violation(region, n, site);
  finding.severity = engine::Severity::warning;
  engine::describe_race(finding);
  turn->front->warn(finding);
  turn->front->proceed();
}

void wrote_same_bits(const Region& region, size_t n, engine::Site site, bool before) {
  const engine::Violation& violation = engine::current->block->launch->checker->violation;
  if (before && !tally().tolerates_any()) return;
  const engine::Tally::Place place{violation.kind, site, violation.other_site, region.name(),
                                   engine::Severity::warning};
  if (before) {
    tally().count_again(place);
    return;
  }
  Finding finding = start_finding_of_violation(region, n, site);
  engine::describe_same_bits(finding);
  if (!tally().goes_on(place, finding)) turn->front->warn(finding);
  turn->front->proceed();
}

namespace {

Finding finding_of_violation(const Region& region, size_t n, engine::Site site) {
  Finding finding = start_finding_of_violation(region, n, site);
  if (finding.kind == Kind::race && engine::current->block->launch->checker->violation.unfenced) {
    engine::describe_missing_proxy_fence(finding);
  } else if (finding.kind == Kind::race) {
    engine::describe_race(finding);
  } else if (finding.kind == Kind::barrier_misuse) {
    engine::describe_access_of_barrier(finding);
  } else {
    engine::describe_uninitialised(finding);
  }
  return finding;
}

}  // namespace

void violated(const Region& region, size_t n, engine::Site site) {
  turn->front->abandon(finding_of_violation(region, n, site));
}

void fenced_late(const Region& region, engine::Site site) {
  engine::Checker& checker = *engine::current->block->launch->checker;
  checker.violation = *checker.late_fence;
  Finding finding = start_finding_of_violation(region, usual_element, site);
  finding.severity = engine::Severity::warning;
  engine::describe_missing_proxy_fence(finding);
  turn->front->warn(finding);
  turn->front->proceed();
}

AccessJudge::AccessJudge(const Region& region, size_t n, engine::Site site) : region_(region), n_(n), site_(site) {}

bool AccessJudge::goes_on(const engine::Violation& violation) {
  const engine::Tally::Place place{violation.kind, site_, violation.other_site, region_.name()};
  if (place == last_) return true;  // several bytes of one access
  const bool known = tally().count_again(place);
  const bool on = known || tally().goes_on(place, finding_of_violation(region_, n_, site_));
  if (!known) turn->front->proceed();
  last_ = place;
  return on;
}

void outside_declared_bounds(const DeclaredIndex& at, engine::Site site) {
  turn->front->interrupt();
  const IndexedArray source = array_indexed_at(at.file, at.line, at.column);
  const std::string root = root_of(source.name);
  const GlobalVariable* const global = module_of(turn->kernel.code).global(root);
  const Region* const region = global != nullptr ? nullptr : checked_memory->named(root, location_of(site).function);
  // A pointer may point anywhere.
  std::string memory = !root.empty() && root == source.name ? "local" : "";
  if (global != nullptr) memory = global->constant ? "constant" : "global";
  if (region != nullptr) memory = engine::name(region->space());
  Range element{0, 0};
  if (region != nullptr && region->array == source.name && at.extent > 0) {
    const auto width = static_cast<int64_t>(region->end - region->begin) / at.extent;
    const uintptr_t address = region->begin + static_cast<uintptr_t>(at.index * width);
    if (checked_memory->find(address, 1) == nullptr) return turn->front->proceed();
    element = {address, address + static_cast<uintptr_t>(width)};
  }
  const AccessType type = source.assigned ? AccessType::write : AccessType::read;
  Finding finding = start_finding(Kind::out_of_bounds, memory, source.name, type, site);
  finding.index = {at.index};
  engine::describe_out_of_bounds(finding, 0, at.index, {at.extent});
  end_or_go_on(std::move(finding), site);
  if (element.begin == element.end) end_thread();  // the address of the access is unknown
  skip_next_access_of(element.begin, element.end);
}

}  // namespace trifold::cpu
