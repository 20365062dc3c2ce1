#include "earlier_grid.h"

#include <algorithm>
#include <utility>

#include "sites.h"

namespace trifold::cpu {
namespace {

// The launch that ended last, and the one before the running launch.
thread_local std::unique_ptr<EarlierGrid> last, before;

}  // namespace

EarlierGrid::EarlierGrid(const engine::Launch& launch, const engine::Checker& checker, const void* stream,
                         std::vector<engine::Touched> memory)
    : launch_(launch), stream_(stream), memory_(std::move(memory)) {
  std::ranges::sort(memory_, {}, [](const engine::Touched& one) { return one.bytes.begin; });
  for (engine::Touched& each : memory_)
    for (engine::Record* const record : {&each.cell.write, &each.cell.other[0], &each.cell.other[1]})
      if (record->stamp != 0) record->thread = checker.thread_of(record->thread);
}

void EarlierGrid::hand_on_to(engine::Buffer& buffer) const {
  const auto end_of = [](const engine::Touched& one) { return one.bytes.end; };
  const uintptr_t end = buffer.begin() + buffer.size();
  auto each = std::ranges::upper_bound(memory_, buffer.begin(), {}, end_of);
  for (; each != memory_.end() && each->bytes.begin < end; ++each) buffer.continue_after(*each);
}

engine::Access EarlierGrid::access(uintptr_t address, engine::Site site, engine::AccessType type) const {
  engine::Access made;
  made.operation = name(type);
  made.kernel = launch_.kernel;
  made.location = location_of(site);
  const auto end_of = [](const engine::Touched& one) { return one.bytes.end; };
  const auto there = std::ranges::upper_bound(memory_, address, {}, end_of);
  if (there == memory_.end()) return made;
  for (int i = 0; i < 3; ++i) {
    const engine::Record record = there->cell.record(i);
    if (record.stamp == 0 || there->cell.site(i) != site) continue;
    made.thread = launch_.thread_index(record.thread);
    made.block = launch_.block_index(record.thread);
  }
  return made;
}

const EarlierGrid* begin_after_earlier(const Kernel& kernel) {
  before = std::move(last);
  if (before != nullptr && !before->is_before(kernel)) before.reset();
  return before.get();
}

const EarlierGrid* earlier_of_running() {
  return before.get();
}

void end_grid(std::unique_ptr<EarlierGrid> grid) {
  last = std::move(grid);
}

void repeat_launch() {
  last = std::move(before);
}

void forget_earlier_grid() {
  last.reset();
  before.reset();
}

}  // namespace trifold::cpu
