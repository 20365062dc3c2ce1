// What the threads of the running block are doing while one of them is stopped, for a debugger.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "../core/per_thread.h"
#include "../core/thread_ranges.h"
#include "front.h"
#include "sites.h"

namespace trifold::cpu {

Whereabouts CpuFront::whereabouts(uint32_t index) const {
  const std::vector<engine::Thread>& threads = engine::current->block->threads;
  const uint32_t running = engine::current->index;
  if (!ring_.empty()) {
    if (index < running) return {Doing::waits, ring_operation_, site_of_line(ring_line_)};
    return {Doing::runs_later};
  }
  // From this one up to the running one, threads have run without the core, which does not know yet.
  uint32_t first = running;
  while (first > 0 && static_cast<const Fiber*>(threads[first].front)->ahead) --first;

  const engine::Thread& thread = threads[index];
  const auto* const fiber = static_cast<const Fiber*>(thread.front);
  const bool live = (thread.warp->live >> thread.lane & 1) != 0, ready = (thread.warp->ready >> thread.lane & 1) != 0;
  if (!live || (fiber != nullptr && fiber->ended)) return {Doing::has_ended};
  if (ready && (index < first || index > running)) return {Doing::runs_later};
  return {Doing::waits, static_cast<engine::Operation>(thread.request.operation), thread.waiting_at};
}

namespace {

thread_local engine::PerThread<std::string> told;

std::string words(const Whereabouts& all) {
  if (all.doing == Doing::has_ended) return "ended";
  if (all.doing == Doing::runs_later) return "still to run";
  // By a loop that polls memory, or by the watchdog.
  if (all.operation == engine::Operation::poll) return "paused for others to run";
  return "waiting in " + std::string(name(all.operation)) + "()";
}

// A line of source, or an instruction's return address, which the debugger looks up.
std::string words(Place place) {
  if (place.line == 0) return std::to_string(reinterpret_cast<uintptr_t>(place.pointer));
  return static_cast<const char*>(place.pointer) + (':' + std::to_string(place.line));
}

// One line for each group of threads: which, what they do, and where, separated by tabs.
std::string groups() {
  const Turn& now = *turn;
  const engine::Dim3 block{now.kernel.threads.x, now.kernel.threads.y, now.kernel.threads.z};
  const uint3& at = *now.registers.thread;
  const uint32_t running = at.x + block.x * (at.y + block.y * at.z);
  std::vector<std::pair<Whereabouts, std::vector<uint32_t>>> groups;
  for (uint32_t index = 0; index < block.size(); ++index) {
    if (index == running) continue;
    const Doing plainly = index < running ? Doing::has_ended : Doing::runs_later;
    const Whereabouts one = now.plain ? Whereabouts{plainly} : now.front->whereabouts(index);
    auto group = std::ranges::find(groups, one, &std::pair<Whereabouts, std::vector<uint32_t>>::first);
    if (group == groups.end()) group = groups.insert(group, {one, {}});
    group->second.push_back(index);
  }
  std::string text;
  for (const auto& [all, indices] : groups)
    text += engine::thread_ranges(indices, block) + '\t' + words(all) + '\t' + words(place_of(all.site)) + '\n';
  return text;
}

}  // namespace

}  // namespace trifold::cpu

// gdb calls it on the stack of the CUDA thread that it has stopped. The text is valid until the next call.
extern "C" [[gnu::visibility("default")]] const char* trifold_cpu_whereabouts() {
  *trifold::cpu::told = trifold::cpu::turn == nullptr ? "" : trifold::cpu::groups();
  return trifold::cpu::told->c_str();
}
