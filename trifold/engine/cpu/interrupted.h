// Where a signal interrupted a thread.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace trifold::cpu {

// Addresses of the instruction and of the stack's end; 0 on a machine whose registers are unknown here.
struct Interrupted {
  uintptr_t instruction, stack;
};

inline Interrupted interrupted(const void* context) {
#if defined(__x86_64__)
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  return {static_cast<uintptr_t>(registers[REG_RIP]), static_cast<uintptr_t>(registers[REG_RSP])};
#elif defined(__aarch64__)
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
  return {registers.pc, registers.sp};
#else
  static_cast<void>(context);
  return {0, 0};
#endif
}

}  // namespace trifold::cpu
