// 32-bit addresses of shared memory, which CUDA has in addition to pointers. (The names are those of nvcc's
// sm_20_intrinsics.h and sm_70_rt.h; PTX ISA, "Generic Addressing".)
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/qualifiers.h>

#include <cstddef>
#include <cstdint>

inline size_t __cvta_generic_to_shared(const void* pointer, trifold::cpu::Line line = {}) {
  return trifold::cpu::shared_address(pointer, line);
}
inline void* __cvta_shared_to_generic(size_t address, trifold::cpu::Line line = {}) {
  return trifold::cpu::shared_memory(static_cast<uint32_t>(address), false, line);
}
inline size_t __cvta_generic_to_global(const void* pointer) {
  return reinterpret_cast<size_t>(pointer);
}
inline void* __cvta_global_to_generic(size_t address) {
  return reinterpret_cast<void*>(address);
}

inline unsigned __isShared(const void* pointer, trifold::cpu::Line line = {}) {
  return trifold::cpu::is_shared(pointer, false, line) ? 1 : 0;
}
inline unsigned __isClusterShared(const void* pointer, trifold::cpu::Line line = {}) {
  return trifold::cpu::is_shared(pointer, true, line) ? 1 : 0;
}
inline unsigned __isLocal(const void* pointer) {
  return trifold::cpu::is_local(pointer) ? 1 : 0;
}
inline unsigned __isGlobal(const void* pointer, trifold::cpu::Line line = {}) {
  return __isClusterShared(pointer, line) == 0 && __isLocal(pointer) == 0 ? 1 : 0;
}
