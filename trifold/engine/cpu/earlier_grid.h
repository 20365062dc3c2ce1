// The accesses of a kernel that lets the next one begin before it has ended (griddepcontrol.launch_dependents). If the
// next one is launched so, its accesses are unordered with them until it has waited (griddepcontrol.wait).
//
// On the CPU the kernels still run one after the other. Each OS thread keeps its last checked launch.
#pragma once

#include <trifold/cpu.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../core/checker.h"

namespace trifold::cpu {

class EarlierGrid {
 public:
  EarlierGrid(const engine::Launch& launch, const engine::Checker& checker, const void* stream,
              std::vector<engine::Touched> memory);

  bool is_before(const Kernel& kernel) const { return kernel.dependent && kernel.stream == stream_; }
  // The buffer refers to memory that this launch also accessed.
  void hand_on_to(engine::Buffer& buffer) const;
  // The access of this byte by the earlier launch, which was made at this line.
  engine::Access access(uintptr_t address, engine::Site site, engine::AccessType type) const;

 private:
  engine::Launch launch_;
  const void* stream_;
  std::vector<engine::Touched> memory_;  // ordered by address; all by threads
};

// Called when a launch begins. Returns the launch before it, if this one may begin before that has ended; else null.
const EarlierGrid* begin_after_earlier(const Kernel& kernel);
// That of the running launch.
const EarlierGrid* earlier_of_running();
void end_grid(std::unique_ptr<EarlierGrid> grid);
// The last launch is about to be repeated under another schedule.
void repeat_launch();
// All launches so far end before the next one begins.
void forget_earlier_grid();

}  // namespace trifold::cpu
