#include "memory.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "module.h"
#include "sites.h"

namespace trifold::host {

CheckedMemory* checked_memory = nullptr;

namespace {

struct NotedTensor {
  uintptr_t begin, end;

  bool operator==(const NotedTensor&) const = default;
};

thread_local std::vector<NotedTensor> tensors;  // the newest last
thread_local std::set<uintptr_t> fresh_memory;  // where tensors begin that nobody has written

// Dynamic shared memory has as much in front of it and behind it that belongs to nobody.
constexpr size_t red_zone = 1024;

const NotedTensor* tensor_at(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const auto holds = [&](const NotedTensor& tensor) { return tensor.begin <= address && address < tensor.end; };
  const auto found = std::find_if(tensors.rbegin(), tensors.rend(), holds);
  return found == tensors.rend() ? nullptr : &*found;
}

}  // namespace

void forget_tensors() {
  tensors.clear();
  fresh_memory.clear();
}

void note_tensor(const void* begin, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const NotedTensor noted{address, address + bytes};
  std::erase(tensors, noted);
  tensors.push_back(noted);
}

void note_fresh(const void* begin) {
  fresh_memory.insert(reinterpret_cast<uintptr_t>(begin));
}

void note_written(const void* begin) {
  fresh_memory.erase(reinterpret_cast<uintptr_t>(begin));
}

CheckedMemory::CheckedMemory(const Kernel& kernel, Registers registers) {
  add_tensors(kernel);
  add_shared_arrays(kernel, registers);
  const auto closure = reinterpret_cast<uintptr_t>(kernel.closure);
  add(closure, kernel.closure_bytes, "", nullptr);
  add_globals(module_of(kernel.code));
  std::ranges::sort(regions_, {}, &Region::begin);
  checked_memory = this;
}

CheckedMemory::~CheckedMemory() {
  checked_memory = nullptr;
}

void CheckedMemory::add(uintptr_t begin, size_t bytes, std::string array, std::unique_ptr<engine::Buffer> buffer,
                        size_t element_bytes) {
  if (bytes > 0) regions_.push_back({begin, begin + bytes, std::move(array), element_bytes, std::move(buffer)});
}

// The tensors that the arguments point into. Those that overlap are one region, so that an alias hides no race.
void CheckedMemory::add_tensors(const Kernel& kernel) {
  const std::vector<std::string> names = parameter_names(kernel.code, kernel.name);
  struct Used {
    NotedTensor tensor;
    bool fresh;
    std::string name;
    size_t element_bytes;
  };
  std::vector<Used> used;
  for (int i = 0; i < kernel.argument_count; ++i) {
    const Argument& argument = kernel.arguments[i];
    const NotedTensor* const tensor = argument.pointer == nullptr ? nullptr : tensor_at(argument.pointer);
    if (tensor == nullptr) continue;
    const std::string name = static_cast<size_t>(i) < names.size() ? names[static_cast<size_t>(i)] : "";
    used.push_back({*tensor, fresh_memory.contains(tensor->begin), name, argument.element_bytes});
  }
  std::ranges::stable_sort(used, {}, [](const Used& one) { return one.tensor.begin; });
  for (size_t i = 0; i < used.size();) {
    Used all = used[i];
    for (++i; i < used.size() && used[i].tensor.begin < all.tensor.end; ++i) {
      all.tensor.end = std::max(all.tensor.end, used[i].tensor.end);
      all.fresh = all.fresh && used[i].fresh;
    }
    const size_t bytes = all.tensor.end - all.tensor.begin;
    add(all.tensor.begin, bytes, all.name,
        std::make_unique<engine::Buffer>(engine::Space::global, all.tensor.begin, bytes,
                                         std::bit_floor(all.element_bytes), !all.fresh),
        all.element_bytes);
  }
}

// The port's own memory. Its variables are watched like tensors that have values.
void CheckedMemory::add_globals(const Module& module) {
  for (const Range& other : module.others) add(other.begin, other.end - other.begin, "", nullptr);
  for (const auto& [name, place] : module.globals) {
    const size_t bytes = place.end - place.begin;
    add(place.begin, bytes, name, std::make_unique<engine::Buffer>(engine::Space::global, place.begin, bytes, 4, true));
  }
}

void CheckedMemory::add_shared_arrays(const Kernel& kernel, Registers registers) {
  const auto shared = [&](uintptr_t begin, size_t bytes, const std::string& name) {
    add(begin, bytes, name, std::make_unique<engine::Buffer>(engine::Space::shared, begin, bytes, 4, false));
  };
  const std::vector<ThreadVariable>& variables = module_of(kernel.code).thread_variables;
  const auto anchor = std::ranges::find(variables, "threadIdx", &ThreadVariable::name);
  if (anchor != variables.end()) {
    const uintptr_t base = reinterpret_cast<uintptr_t>(registers.thread) - anchor->offset;
    for (const ThreadVariable& variable : variables) {
      if (base + variable.offset == reinterpret_cast<uintptr_t>(registers.extern_shared)) continue;
      if (variable.shared) {
        shared(base + variable.offset, variable.bytes, variable.name);
      } else {
        add(base + variable.offset, variable.bytes, "", nullptr);
      }
    }
  }
  if (kernel.shared_bytes == 0) return;
  if (registers.extern_shared != nullptr) {
    dynamic_shared_ = registers.extern_shared;
    shared(reinterpret_cast<uintptr_t>(dynamic_shared_), kernel.shared_bytes, "dynamic shared memory");
    return;
  }
  constexpr size_t alignment = 1024;
  storage_ = std::make_unique<char[]>(kernel.shared_bytes + 2 * red_zone + alignment);
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(storage_.get()) + red_zone + alignment - 1) & ~(alignment - 1);
  dynamic_shared_ = reinterpret_cast<char*>(begin);
  shared(begin, kernel.shared_bytes, "dynamic shared memory");
}

void CheckedMemory::begin_block(engine::Launch& launch) {
  for (Region& region : regions_)
    if (region.buffer != nullptr && region.buffer->space() == engine::Space::shared) region.buffer->restart(launch.now);
}

void CheckedMemory::kernel_has_written() {
  for (const Region& region : regions_) fresh_memory.erase(region.begin);
}

Region* CheckedMemory::look_up(uintptr_t address, size_t n) {
  const auto after = std::ranges::upper_bound(regions_, address, {}, &Region::begin);
  if (after == regions_.begin()) return nullptr;
  Region& region = *std::prev(after);
  if (!region.holds(address, n)) return nullptr;
  return last_ = &region;
}

const Region* CheckedMemory::nearest(uintptr_t address) const {
  const Region* best = nullptr;
  uintptr_t best_distance = uintptr_t{1} << 30;
  for (const Region& region : regions_) {
    if (region.buffer == nullptr) continue;
    const uintptr_t distance = address < region.begin ? region.begin - address : address + 1 - region.end;
    if (address >= region.begin && address < region.end) return &region;
    if (distance < best_distance) {
      best = &region;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace trifold::host
