#include "memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "../core/fresh_memory.h"
#include "../core/per_thread.h"
#include "earlier_grid.h"
#include "module.h"
#include "sites.h"

namespace trifold::cpu {

CheckedMemory* checked_memory = nullptr;

namespace {

thread_local std::vector<Range> tensors;  // the newest last

thread_local engine::PerThread<engine::FreshMemory> fresh_memory;

const Range* tensor_at(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const auto newest = [](auto&& condition) {
    const auto found = std::find_if(tensors.rbegin(), tensors.rend(), condition);
    return found == tensors.rend() ? nullptr : &*found;
  };
  // Of two that overlap, the pointer belongs to the one that begins at it.
  if (const auto* const own = newest([&](const Range& tensor) { return tensor.begin == address; })) return own;
  return newest([&](const Range& tensor) { return tensor.begin <= address && address < tensor.end; });
}

}  // namespace

void forget_tensors() {
  tensors.clear();
}

void forget_fresh() {
  fresh_memory->forget_all();
}

void note_tensor(const void* begin, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const Range noted{address, address + bytes};
  std::erase(tensors, noted);
  tensors.push_back(noted);
}

void note_fresh(const void* begin, size_t bytes, size_t element_bytes) {
  fresh_memory->add(reinterpret_cast<uintptr_t>(begin), bytes, element_bytes);
}

CheckedMemory::CheckedMemory(const Kernel& kernel, const EarlierGrid* earlier)
    : module_(module_of(kernel.code)), earlier_(earlier), dynamic_shared_bytes_(kernel.shared_bytes) {
  add_tensors(kernel);
  const auto closure = reinterpret_cast<uintptr_t>(kernel.closure);
  add(closure, kernel.closure_bytes, "", nullptr);
  for (const Range& segment : module_.segments) {
    add(segment.begin, segment.end - segment.begin, "", nullptr);
    regions_.back().of_module = true;
  }
  std::erase_if(regions_, [](const Region& region) { return region.begin == region.end; });
  std::ranges::sort(regions_, {}, &Region::begin);
  checked_memory = this;
}

CheckedMemory::~CheckedMemory() {
  checked_memory = nullptr;
}

Region& CheckedMemory::add(uintptr_t begin, size_t bytes, std::string array, std::unique_ptr<engine::Buffer> buffer) {
  return regions_.emplace_back(begin, begin + bytes, std::move(array), 0, std::move(buffer));
}

namespace {

std::vector<std::string> names_of_parameters(const Kernel& kernel) {
  if (kernel.parameters == nullptr) return parameter_names(kernel.code, kernel.name, kernel.argument_count);
  std::vector<std::string> names(1);
  for (const char* c = kernel.parameters; *c != 0; ++c) {
    if (*c == ',') {
      names.emplace_back();
    } else {
      names.back() += *c;
    }
  }
  return names;
}

// Memory that a kernel may access, and how it got the address.
struct Used {
  Range memory;
  std::string name;
  size_t element_bytes = 0;
  Allocation* allocation = nullptr;
  bool from_begin = true;  // the argument of this name points to its first byte
};

// An allocation has the name of a parameter that points to its first byte, if there is one, else of any.
void name_allocation(Used& used, uintptr_t argument, const std::string& parameter, size_t element_bytes) {
  const bool from_begin = argument == used.memory.begin;
  if (used.element_bytes != 0 && (used.from_begin || !from_begin)) return;
  used.name = parameter;
  used.element_bytes = element_bytes;
  used.from_begin = from_begin;
}

// The words of the arguments that may be pointers in a struct, such as an accessor of a tensor.
std::vector<const void*> words_of_arguments(const Kernel& kernel) {
  std::vector<const void*> words(kernel.closure_bytes / sizeof(void*));
  if (!words.empty()) std::memcpy(words.data(), kernel.closure, words.size() * sizeof(void*));
  return words;
}

// Bytes that it wrote are initialised for the next launch.
void note_written_bytes(const Region& region) {
  if (region.allocation == nullptr || region.allocation->wholly_written()) return;
  uintptr_t written = region.begin;
  const auto add_until = [&](uintptr_t end) {
    region.allocation->written.add(written - region.begin, end - region.begin);
  };
  for (const Range& part : region.buffer->unwritten({region.begin, region.end})) {
    add_until(part.begin);
    written = part.end;
  }
  add_until(region.end);
}

}  // namespace

// Adds the tensors that the arguments point into, and the device's memory of an ordinary program. Overlapping ones are
// one region, so that aliases cannot hide a race.
void CheckedMemory::add_tensors(const Kernel& kernel) {
  const std::vector<std::string> names = names_of_parameters(kernel);
  std::vector<Used> used;
  for (Allocation* const allocation : allocations())
    if (allocation->live) used.push_back({{allocation->begin, allocation->end()}, "", 0, allocation});
  for (int i = 0; i < kernel.argument_count; ++i) {
    const auto& [pointer, element_bytes] = kernel.arguments[i];
    if (element_bytes == 0) continue;
    const std::string name = static_cast<size_t>(i) < names.size() ? names[static_cast<size_t>(i)] : "";
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const auto known = std::ranges::find_if(used, [&](const Used& one) {
      return one.allocation != nullptr && address - one.memory.begin < one.allocation->bytes;
    });
    const Range* const tensor = tensor_at(pointer);
    if (known != used.end()) {
      name_allocation(*known, address, name, element_bytes);
    } else if (tensor != nullptr) {
      used.push_back({*tensor, name, element_bytes});
    } else {
      host_arguments_.emplace(address, name);
    }
  }
  for (const void* const word : words_of_arguments(kernel)) {
    const Range* const tensor = tensor_at(word);
    const auto same = [&](const Used& one) { return one.memory == *tensor; };
    if (tensor == nullptr || std::ranges::any_of(used, same)) continue;
    used.push_back({*tensor, "tensor"});
  }
  std::ranges::stable_sort(used, {}, [](const Used& one) { return one.memory.begin; });
  for (size_t i = 0; i < used.size();) {
    Used all = used[i];
    for (++i; i < used.size() && used[i].memory.begin < all.memory.end; ++i)
      all.memory.end = std::max(all.memory.end, used[i].memory.end);
    const size_t bytes = all.memory.end - all.memory.begin;
    if (bytes == 0) continue;
    // In an ordinary program, elements are assumed to be at least 4 bytes; a tensor reached through a struct may have
    // any type.
    const size_t unknown = all.allocation == nullptr ? 1 : 4;
    const size_t width = all.element_bytes == 0 ? unknown : std::bit_floor(all.element_bytes);
    const bool of_program = all.allocation != nullptr;
    const auto unwritten =
        of_program ? std::vector<Range>() : fresh_memory->unwritten(all.memory.begin, all.memory.end);
    const bool initialised = of_program ? all.allocation->wholly_written() : unwritten.empty();
    Region& region =
        add(all.memory.begin, bytes, all.name,
            std::make_unique<engine::Buffer>(engine::Space::global, all.memory.begin, bytes, width, initialised));
    region.element_bytes = all.element_bytes;
    region.allocation = all.allocation;
    region.named_from_begin = all.from_begin;
    if (!of_program && !initialised) region.buffer->note_written_beside(unwritten);
    if (of_program && !initialised)
      for (const auto& [begin, end] : all.allocation->written.ranges())
        region.buffer->note_written(all.memory.begin + begin, end - begin);
    if (earlier_ != nullptr) earlier_->hand_on_to(*region.buffer);
  }
}

CheckedMemory::OfSlot CheckedMemory::memory_of(const Slot& slot) const {
  OfSlot memory{&slot, {}, {0, 0}, {0, 0}};
  Regions& regions = memory.regions;
  const auto add = [&](uintptr_t begin, size_t bytes, const ThreadVariable* shared) {
    if (bytes == 0) return;
    regions.push_back({.begin = begin, .end = begin + bytes, .array = "", .buffer = nullptr});
    if (shared == nullptr) return;
    regions.back().array = shared->name;
    regions.back().function = shared->function;
    regions.back().shared = true;
  };
  const auto dynamic = reinterpret_cast<uintptr_t>(slot.shared);
  const std::vector<ThreadVariable>& variables = module_.thread_variables;
  const auto anchor = std::ranges::find(variables, "threadIdx", &ThreadVariable::name);
  if (anchor != variables.end()) {
    const uintptr_t base = reinterpret_cast<uintptr_t>(slot.registers.thread) - anchor->offset;
    for (const ThreadVariable& variable : variables) {
      const uintptr_t begin = base + variable.offset;
      if (begin == reinterpret_cast<uintptr_t>(slot.registers.extern_shared)) continue;
      add(begin, variable.bytes, variable.shared ? &variable : nullptr);
    }
  }
  std::ranges::sort(regions, {}, &Region::begin);
  if (!regions.empty()) memory.storage = {regions.front().begin, regions.back().end};
  static const ThreadVariable of_the_launch{"", "dynamic shared memory", "", true, 0, 0};
  add(dynamic, dynamic_shared_bytes_, &of_the_launch);
  if (dynamic_shared_bytes_ > 0) memory.dynamic = {dynamic, dynamic + dynamic_shared_bytes_};
  std::ranges::sort(regions, {}, &Region::begin);
  return memory;
}

void CheckedMemory::begin_block(const Slot& slot, engine::Launch& launch) {
  if (slot.number == slots_.size()) {
    Regions& made = slots_.emplace_back(memory_of(slot)).regions;
    for (size_t i = 0; i < made.size(); ++i) made[i].told = slots_.front().regions[i].told;
    return;
  }
  for (const Region& region : slots_[slot.number].regions)
    if (region.buffer != nullptr) region.buffer->restart(launch.now);
}

void CheckedMemory::enter(const Slot& slot) {
  running_ = &slots_[slot.number];
  recent_.fill(nullptr);
}

void CheckedMemory::note_told(const Region& region) {
  const auto index = static_cast<size_t>(&region - running_->regions.data());
  for (OfSlot& each : slots_) each.regions[index].told = true;
}

void CheckedMemory::kernel_has_written() {
  for (const Region& region : regions_) {
    note_written_bytes(region);
    if (region.buffer != nullptr && region.buffer->space() == engine::Space::global)
      fresh_memory->note_launch(*region.buffer);
  }
}

std::vector<engine::Touched> CheckedMemory::touched() const {
  std::vector<engine::Touched> all;
  for (const Region& region : regions_)
    if (region.buffer != nullptr && region.buffer->space() == engine::Space::global)
      region.buffer->for_touched([&](const engine::Touched& touched) { all.push_back(touched); });
  return all;
}

Accesses CheckedMemory::accesses(bool all) const {
  Accesses accesses;
  for (const Region& region : regions_) {
    const bool of_host = region.allocation != nullptr && region.allocation->is_accessible_to_host();
    if (region.buffer == nullptr || (!all && !of_host)) continue;
    const size_t before = accesses.size();
    region.buffer->for_touched([&](const engine::Touched& touched) { accesses.add(touched.bytes, touched.cell); });
    if (accesses.size() == before) continue;
    if (of_host) current_operation()->reaches_host = true;
    if (region.allocation == nullptr) note_variable(region.begin, region.end, region.array);
  }
  return accesses;
}

void CheckedMemory::add_to(engine::WriteLog& writes, bool counts) const {
  for (const Region& region : regions_)
    if (region.buffer != nullptr && region.buffer->space() == engine::Space::global) writes.add(*region.buffer, counts);
}

Region* CheckedMemory::holding(Regions& regions, uintptr_t address, size_t n) {
  const auto after = std::ranges::upper_bound(regions, address, {}, &Region::begin);
  return after != regions.begin() && std::prev(after)->holds(address, n) ? &*std::prev(after) : nullptr;
}

Region* CheckedMemory::look_up(uintptr_t address, size_t n) {
  Region* const region = holding(running_->has(address) ? running_->regions : regions_, address, n);
  if (region == nullptr) return nullptr;
  if (region->of_module) return watch_global(static_cast<size_t>(region - regions_.data()), address, n);
  watch_shared(*region);
  return recent_of(address) = region;
}

void CheckedMemory::watch_shared(Region& region) {
  if (!region.shared || region.buffer != nullptr) return;
  const size_t bytes = region.end - region.begin;
  region.buffer = std::make_unique<engine::Buffer>(engine::Space::shared, region.begin, bytes, size_t{4}, false);
}

bool CheckedMemory::is_peer(const OfSlot& other) const {
  return &other != running_ && other.slot->of->cluster == running_->slot->of->cluster;
}

CheckedMemory::OfPeer CheckedMemory::find_of_peer(uintptr_t address, size_t n) {
  for (engine::Block* const block : running_->slot->of->cluster->blocks) {
    OfSlot& other = slots_[static_cast<const Slot*>(block->front)->number];
    if (!is_peer(other) || !other.has(address)) continue;
    Region* const region = holding(other.regions, address, n);
    if (region == nullptr || !region->shared) break;
    watch_shared(*region);
    return {region, block};
  }
  return {nullptr, nullptr};
}

const Region* CheckedMemory::shared_at(const Slot& slot, uintptr_t address) {
  const Region* const region = holding(slots_[slot.number].regions, address, 1);
  return region != nullptr && region->shared ? region : nullptr;
}

// Visits the regions that the running block may access.
template <class Visit>
void CheckedMemory::for_running(Visit visit) const {
  for (const Regions* const regions : {static_cast<const Regions*>(&running_->regions), &regions_})
    for (const Region& region : *regions) visit(region);
  if (running_->slot->of->cluster->blocks.size() == 1) return;
  for (const OfSlot& other : slots_)
    for (const Region& region : other.regions)
      if (region.shared && is_peer(other)) visit(region);
}

CheckedMemory::OfBlock CheckedMemory::of_another_block(uintptr_t address) const {
  for (const OfSlot& each : slots_)
    for (const Region& region : each.regions)
      if (&each != running_ && !is_peer(each) && region.shared && region.holds(address, 1))
        return {&region, each.slot->of};
  return {nullptr, nullptr};
}

std::string CheckedMemory::foreign(uintptr_t address) const {
  if (const Allocation* const allocation = allocation_near(address); allocation != nullptr)
    return allocation->live ? "" : allocation->description();
  constexpr uintptr_t never_mapped = 1 << 16;
  const auto after = host_arguments_.upper_bound(address);
  if (address < never_mapped) {
    const auto null = host_arguments_.find(0);
    return null == host_arguments_.end() || null->second.empty() ? "a null pointer"
                                                                 : null->second + ", which is a null pointer";
  }
  if (after == host_arguments_.begin() || std::prev(after)->first == 0) return "";
  const auto& [begin, name] = *std::prev(after);
  const Region* const region = nearest(address);
  if (region != nullptr && region->distance(address) < address - begin) return "";
  const std::string array = name.empty() ? "a pointer argument" : name;
  return array + ", which points to memory of the host: allocate with cudaMalloc and copy with cudaMemcpy";
}

// A kernel accesses a variable of the library, which becomes a separate region from now on.
Region* CheckedMemory::watch_global(size_t segment, uintptr_t address, size_t n) {
  const auto begins = [](const GlobalVariable& variable) { return variable.place.begin; };
  const auto after = std::ranges::upper_bound(module_.globals, address, {}, begins);
  if (after == module_.globals.begin()) return &regions_[segment];
  const auto& [name, place, constant] = *std::prev(after);
  const uintptr_t end = regions_[segment].end;
  if (address + n > place.end || place.begin < regions_[segment].begin || place.end > end) return &regions_[segment];
  const auto insert = [&](size_t at, Region region) {
    regions_.insert(regions_.begin() + static_cast<ptrdiff_t>(at), std::move(region));
  };
  recent_.fill(nullptr);
  regions_[segment].end = place.begin;
  const size_t bytes = place.end - place.begin;
  const engine::Space space = constant ? engine::Space::constant : engine::Space::global;
  insert(segment + 1,
         {place.begin, place.end, name, 0, std::make_unique<engine::Buffer>(space, place.begin, bytes, 4, true)});
  insert(segment + 2, {place.end, end, "", 0, nullptr, "", true});
  if (earlier_ != nullptr) earlier_->hand_on_to(*regions_[segment + 1].buffer);
  return &regions_[segment + 1];
}

void CheckedMemory::add_heap(Allocation& allocation) {
  recent_.fill(nullptr);
  Region region{
      allocation.begin, allocation.end(), "", 0,
      std::make_unique<engine::Buffer>(engine::Space::global, allocation.begin, allocation.bytes, size_t{4}, false)};
  region.allocation = &allocation;
  regions_.insert(std::ranges::upper_bound(regions_, allocation.begin, {}, &Region::begin), std::move(region));
}

void CheckedMemory::remove_heap(const Allocation& allocation) {
  recent_.fill(nullptr);
  const auto found = std::ranges::find(regions_, &allocation, &Region::allocation);
  if (found == regions_.end()) return;
  freed_.push_back(std::move(*found));
  regions_.erase(found);
}

const Region* CheckedMemory::named(std::string_view array, std::string_view function) const {
  std::vector<const Region*> found;
  const Region* exact = nullptr;
  for_running([&](const Region& region) {
    if (!region.watched() || region.array.empty() || region.array != array) return;
    if (exact == nullptr && region.function == function) exact = &region;
    found.push_back(&region);
  });
  if (exact != nullptr) return exact;
  return found.size() == 1 ? found[0] : nullptr;
}

const Region* CheckedMemory::nearest(uintptr_t address) const {
  const Region* best = nullptr;
  uintptr_t best_distance = uintptr_t{1} << 30;
  for_running([&](const Region& region) {
    if (!region.watched()) return;
    const uintptr_t distance = region.distance(address);
    if (distance < best_distance) {
      best = &region;
      best_distance = distance;
    }
  });
  return best;
}

}  // namespace trifold::cpu
