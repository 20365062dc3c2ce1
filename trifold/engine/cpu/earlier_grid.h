// What a kernel has done that lets the next one begin before it has ended (griddepcontrol.launch_dependents): nothing
// orders it before that one's accesses, if that is launched so, until they have waited (griddepcontrol.wait).
//
// On the CPU the kernels run one after the other all the same. Each OS thread knows the last checked launch of its own.
#pragma once

#include <trifold/cpu.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../core/checker.h"

namespace trifold::host {

class EarlierGrid {
 public:
  EarlierGrid(const engine::Launch& launch, const engine::Checker& checker, const void* stream,
              std::vector<engine::Touched> memory);

  bool is_before(const Kernel& kernel) const { return kernel.dependent && kernel.stream == stream_; }
  // The buffer's memory has been its, too.
  void hand_on_to(engine::Buffer& buffer) const;
  // The access of this byte that was made at this line.
  engine::Access access(uintptr_t address, engine::Site site, engine::AccessType type) const;

 private:
  engine::Launch launch_;
  const void* stream_;
  std::vector<engine::Touched> memory_;  // in the order of the addresses; all by threads
};

// A launch begins: the one before it, where this one may begin before that has ended; else null.
const EarlierGrid* begin_after_earlier(const Kernel& kernel);
// That of the launch that runs.
const EarlierGrid* earlier_of_running();
void end_grid(std::unique_ptr<EarlierGrid> grid);
// The last launch is about to be repeated, in another schedule.
void repeat_launch();
// All launches so far have ended before the next one begins.
void forget_earlier_grid();

}  // namespace trifold::host
