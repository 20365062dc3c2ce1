#include "settings.h"

#include <trifold/cpu/program.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace trifold::cpu {
namespace {

// The number in an environment variable; the default if it is not a number. Python refuses such values with a message.
double number_in(const char* variable, double otherwise) {
  const char* const text = getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const double number = strtod(text, &end);
  return *end == '\0' && number >= 0 && number < 1e9 ? number : otherwise;
}

// Read once, when the library is loaded, since other threads may change the environment later.
std::atomic<double> seconds{number_in("TRIFOLD_KERNEL_SECONDS", 60)};
// A multiple of the page size on all machines. A kernel's frames are small; printf needs some KiB.
const size_t stack_kibibytes = std::clamp(
    (static_cast<size_t>(number_in("TRIFOLD_KERNEL_STACK_KIB", 64)) + 63) / 64 * 64, size_t{64}, size_t{1} << 20);
engine::Limits limits;
std::string capability = "9.0";

}  // namespace

double kernel_seconds() {
  return seconds.load(std::memory_order_relaxed);
}

size_t stack_bytes() {
  return stack_kibibytes << 10;
}

const engine::Limits& device_limits() {
  return limits;
}

const char* device_name() {
  return capability.c_str();
}

void set_device(const char* name, const uint32_t (&values)[6]) {
  capability = name;
  limits = {values[0], values[1], values[2], values[3], values[4], values[5]};
}

DeviceShape device_shape() {
  DeviceShape shape{};
  sscanf(capability.c_str(), "%d.%d", &shape.major, &shape.minor);
  shape.multiprocessors = static_cast<int>(limits.multiprocessors);
  shape.threads = static_cast<int>(limits.threads);
  shape.blocks = static_cast<int>(limits.blocks);
  shape.block_shared_bytes = limits.shared_bytes;
  shape.shared_bytes = limits.multiprocessor_shared_bytes;
  return shape;
}

}  // namespace trifold::cpu

#pragma GCC visibility push(default)
extern "C" {

void trifold_cpu_set_kernel_seconds(double seconds) {
  trifold::cpu::seconds.store(seconds, std::memory_order_relaxed);
}

double trifold_cpu_kernel_seconds() {
  return trifold::cpu::kernel_seconds();
}

void trifold_cpu_set_limits(const char* capability, const uint32_t (*values)[6]) {
  trifold::cpu::set_device(capability, *values);
}

}  // extern "C"
#pragma GCC visibility pop
