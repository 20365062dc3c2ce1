// A guard allocator for GPU memory: libtrifold_device_guard.so, through which torch allocates
// (torch.cuda.memory.CUDAPluggableAllocator).
//
// Each block has its own memory, mapped between two ranges of addresses that are reserved and never mapped
// (device_slots.h computes its place there): a kernel's access to them is an illegal memory access. Memory is filled
// with 0xFF, a NaN in every floating type, so that an element that was never written shows, and so does a read of the
// rest of the mapped memory; writes there are found when the block is freed, and when trifold_device_guard_check is
// called.
//
// For compute-sanitizer, which itself knows the size of each driver allocation, a second pair of functions makes one
// driver allocation per block, without guards.
//
// Mapped memory is kept and reused. torch frees a block while kernels that use it may still run, so each allocation and
// each free waits for the GPU. The driver is loaded at run time, so that this compiles on machines without it.

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "device_slots.h"

namespace {

using namespace trifold::guard;

// ------------------------------------------------------------------------------------------- the driver's functions

// As in cuda.h of CUDA 11 and later.
using Status = int;
using Address = unsigned long long;  // CUdeviceptr
using Handle = unsigned long long;   // CUmemGenericAllocationHandle
using Context = struct CUctx_st*;

constexpr Status success = 0, out_of_memory = 2;
constexpr int has_virtual_memory = 102;  // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
constexpr int on_device = 1;             // CU_MEM_LOCATION_TYPE_DEVICE
constexpr int pinned = 1;                // CU_MEM_ALLOCATION_TYPE_PINNED
constexpr int smallest = 0;              // CU_MEM_ALLOC_GRANULARITY_MINIMUM
constexpr int read_and_write = 3;        // CU_MEM_ACCESS_FLAGS_PROT_READWRITE

struct Location {
  int type;
  int id;
};

struct Properties {  // CUmemAllocationProp
  int type;
  int handle_types;
  Location location;
  void* of_windows;
  unsigned char flags[8];
};
static_assert(sizeof(Properties) == 32);

struct Access {  // CUmemAccessDesc
  Location location;
  int flags;
};
static_assert(sizeof(Access) == 12);

struct Driver {
  Status (*cuInit)(unsigned flags);
  Status (*cuGetErrorName)(Status, const char** name);
  Status (*cuDeviceGet)(int* device, int ordinal);
  Status (*cuDeviceGetAttribute)(int* value, int attribute, int device);
  Status (*cuDevicePrimaryCtxRetain)(Context*, int device);
  Status (*cuCtxPushCurrent_v2)(Context);
  Status (*cuCtxPopCurrent_v2)(Context*);
  Status (*cuCtxSynchronize)();
  Status (*cuMemGetAllocationGranularity)(size_t* granule, const Properties*, int option);
  Status (*cuMemAddressReserve)(Address*, size_t size, size_t alignment, Address wanted, unsigned long long flags);
  Status (*cuMemAddressFree)(Address, size_t size);
  Status (*cuMemCreate)(Handle*, size_t size, const Properties*, unsigned long long flags);
  Status (*cuMemRelease)(Handle);
  Status (*cuMemMap)(Address, size_t size, size_t offset, Handle, unsigned long long flags);
  Status (*cuMemUnmap)(Address, size_t size);
  Status (*cuMemSetAccess)(Address, size_t size, const Access*, size_t count);
  Status (*cuMemRetainAllocationHandle)(Handle*, void* address);
  Status (*cuMemAlloc_v2)(Address*, size_t size);
  Status (*cuMemFree_v2)(Address);
  Status (*cuMemsetD8_v2)(Address, unsigned char value, size_t count);
  Status (*cuMemcpyDtoH_v2)(void* to, Address from, size_t count);
};

Driver driver;
bool opened = false;

void require(Status status, const char* what) {
  if (status == success) return;
  const char* name = nullptr;
  driver.cuGetErrorName(status, &name);
  throw std::runtime_error(std::string("trifold guard: ") + what + " failed: " + (name != nullptr ? name : "?") + " (" +
                           std::to_string(status) + ")");
}

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
}

void open(const char* path) {
  if (opened) return;
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  find(library, "cuGetErrorName", driver.cuGetErrorName);
  find(library, "cuInit", driver.cuInit);
  find(library, "cuDeviceGet", driver.cuDeviceGet);
  find(library, "cuDeviceGetAttribute", driver.cuDeviceGetAttribute);
  find(library, "cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain);
  find(library, "cuCtxPushCurrent_v2", driver.cuCtxPushCurrent_v2);
  find(library, "cuCtxPopCurrent_v2", driver.cuCtxPopCurrent_v2);
  find(library, "cuCtxSynchronize", driver.cuCtxSynchronize);
  find(library, "cuMemGetAllocationGranularity", driver.cuMemGetAllocationGranularity);
  find(library, "cuMemAddressReserve", driver.cuMemAddressReserve);
  find(library, "cuMemAddressFree", driver.cuMemAddressFree);
  find(library, "cuMemCreate", driver.cuMemCreate);
  find(library, "cuMemRelease", driver.cuMemRelease);
  find(library, "cuMemMap", driver.cuMemMap);
  find(library, "cuMemUnmap", driver.cuMemUnmap);
  find(library, "cuMemSetAccess", driver.cuMemSetAccess);
  find(library, "cuMemRetainAllocationHandle", driver.cuMemRetainAllocationHandle);
  find(library, "cuMemAlloc_v2", driver.cuMemAlloc_v2);
  find(library, "cuMemFree_v2", driver.cuMemFree_v2);
  find(library, "cuMemsetD8_v2", driver.cuMemsetD8_v2);
  find(library, "cuMemcpyDtoH_v2", driver.cuMemcpyDtoH_v2);
  require(driver.cuInit(0), "cuInit");
  opened = true;
}

// ------------------------------------------------------------------------------------------------- mapped memory

// A GPU. Its context, which torch and Numba use too, is current while this object lives.
class OnDevice {
 public:
  explicit OnDevice(int ordinal) {
    static auto& contexts = *new std::map<int, Context>;  // the caller holds the mutex
    auto [found, is_new] = contexts.try_emplace(ordinal, nullptr);
    if (is_new) {
      int device = 0, supported = 0;
      require(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
      require(driver.cuDeviceGetAttribute(&supported, has_virtual_memory, device), "cuDeviceGetAttribute");
      if (supported == 0) {
        contexts.erase(found);
        throw std::runtime_error("the GPU or its driver has no virtual memory management (cuMemMap)");
      }
      require(driver.cuDevicePrimaryCtxRetain(&found->second, device), "cuDevicePrimaryCtxRetain");
    }
    require(driver.cuCtxPushCurrent_v2(found->second), "cuCtxPushCurrent");
  }
  ~OnDevice() {
    Context popped;
    driver.cuCtxPopCurrent_v2(&popped);
  }
  OnDevice(const OnDevice&) = delete;
};

// Mapped memory between two granules of unmapped addresses.
struct Slot {
  int device;
  size_t size, granule;
  Address reserved;
  Handle handle;

  Address memory() const { return reserved + granule; }
  size_t reserved_size() const { return size + 2 * granule; }
};

Properties properties_of(int device) {
  return {.type = pinned, .handle_types = 0, .location = {on_device, device}, .of_windows = nullptr, .flags = {}};
}

void unmap(const Slot& slot) {
  driver.cuMemUnmap(slot.memory(), slot.size);
  driver.cuMemRelease(slot.handle);
  driver.cuMemAddressFree(slot.reserved, slot.reserved_size());
}

// Needs the slot's context. Returns null if `slot` is mapped; otherwise nothing is mapped.
Status map(Slot& slot, const char*& what) {
  const Properties properties = properties_of(slot.device);
  what = "cuMemAddressReserve";
  Status status = driver.cuMemAddressReserve(&slot.reserved, slot.reserved_size(), 0, 0, 0);
  if (status != success) return status;
  what = "cuMemCreate";
  status = driver.cuMemCreate(&slot.handle, slot.size, &properties, 0);
  if (status == success) {
    what = "cuMemMap";
    status = driver.cuMemMap(slot.memory(), slot.size, 0, slot.handle, 0);
    if (status == success) {
      what = "cuMemSetAccess";
      const Access access{properties.location, read_and_write};
      status = driver.cuMemSetAccess(slot.memory(), slot.size, &access, 1);
      if (status == success) return success;
      driver.cuMemUnmap(slot.memory(), slot.size);
    }
    driver.cuMemRelease(slot.handle);
  }
  driver.cuMemAddressFree(slot.reserved, slot.reserved_size());
  return status;
}

// Free slots, the oldest first.
class FreeSlots {
 public:
  bool take(int device, size_t size, Slot& slot) {
    const auto found = std::find_if(slots_.begin(), slots_.end(),
                                    [=](const Slot& one) { return one.device == device && one.size == size; });
    if (found == slots_.end()) return false;
    slot = *found;
    size_ -= slot.size;
    slots_.erase(found);
    return true;
  }

  void add(const Slot& slot) {
    slots_.push_back(slot);
    size_ += slot.size;
    shrink_to(most_kept);
  }

  void shrink_to(size_t most) {
    while (size_ > most) {
      const Slot slot = slots_.front();
      slots_.pop_front();
      size_ -= slot.size;
      const OnDevice here(slot.device);
      unmap(slot);
    }
  }

 private:
  static constexpr size_t most_kept = size_t{1} << 30;
  std::deque<Slot> slots_;
  size_t size_ = 0;
};

struct Block : Extent {
  Slot slot;
  size_t offset;  // of the block in its slot
};

// An allocation of whole vectors, with bytes past the block's end.
struct Padded : Extent {
  int device;
};

// Never destroyed: torch frees memory while the process ends.
std::mutex& mutex = *new std::mutex;  // guards all below
FreeSlots& free_slots = *new FreeSlots;
std::map<uintptr_t, Block>& blocks = *new std::map<uintptr_t, Block>;    // live ones, by their start
std::map<uintptr_t, Padded>& padded = *new std::map<uintptr_t, Padded>;  // likewise
uint64_t blocks_made = 0;
DamageLog damage;
Mode placement = end_mode;

size_t granule_of(int device) {
  size_t granule = 0;
  const Properties properties = properties_of(device);
  require(driver.cuMemGetAllocationGranularity(&granule, &properties, smallest), "cuMemGetAllocationGranularity");
  return granule;
}

// Needs the device's context.
Slot slot_for(size_t size, int device) {
  const size_t granule = granule_of(device);
  Slot slot{device, slot_size(size, granule), granule, 0, 0};
  if (free_slots.take(device, slot.size, slot)) return slot;
  const char* what = nullptr;
  Status status = map(slot, what);
  if (status == out_of_memory) {
    free_slots.shrink_to(0);
    status = map(slot, what);
  }
  require(status, what);
  return slot;
}

char* allocate(size_t size, int device) {
  const OnDevice here(device);
  const Slot slot = slot_for(size, device);
  try {
    require(driver.cuMemsetD8_v2(slot.memory(), poison_byte, slot.size), "cuMemsetD8");
    require(driver.cuCtxSynchronize(), "cuCtxSynchronize");
  } catch (...) {
    free_slots.add(slot);
    throw;
  }
  const size_t offset = block_offset(size, slot.size, placement);
  char* const start = reinterpret_cast<char*>(slot.memory() + offset);
  blocks.emplace(reinterpret_cast<uintptr_t>(start), Block{{start, size, ++blocks_made, true}, slot, offset});
  return start;
}

// Logs damage on one side of the block, in the bytes from `begin` on, and repairs it. Needs the block's context.
// Inspects nothing if the GPU's memory cannot be read any more because a kernel's fault has ended its use: the fault is
// the finding.
void inspect(Address begin, size_t size, const Extent& block) {
  if (size == 0) return;
  std::vector<unsigned char> bytes(size);
  if (driver.cuMemcpyDtoH_v2(bytes.data(), begin, size) != success) return;
  const auto is_damaged = [](unsigned char byte) { return byte != poison_byte; };
  // Report the damage nearest to the block; before the block that is the last byte.
  const bool before = begin < reinterpret_cast<Address>(block.start);
  size_t damaged = size;
  if (before) {
    const auto found = std::find_if(bytes.rbegin(), bytes.rend(), is_damaged);
    if (found != bytes.rend()) damaged = static_cast<size_t>(bytes.rend() - found) - 1;
  } else {
    damaged = static_cast<size_t>(std::find_if(bytes.begin(), bytes.end(), is_damaged) - bytes.begin());
  }
  if (damaged == size) return;
  damage.add_canary(reinterpret_cast<const char*>(begin + damaged), block);
  driver.cuMemsetD8_v2(begin, poison_byte, size);
}

void inspect(const Block& block) {
  for (const Part& part : {canary_before(block.offset), canary_after(block.offset, block.size, block.slot.size)})
    inspect(block.slot.memory() + part.begin, part.size(), block);
}

void inspect(const Padded& block) {
  const size_t whole = round_up(block.size, device_alignment);
  inspect(reinterpret_cast<Address>(block.start) + block.size, whole - block.size, block);
}

// Inspects the blocks until the GPU is lost to this process.
template <class Blocks, class DeviceOf>
void inspect_all(const Blocks& all, DeviceOf device_of) {
  for (const auto& [start, block] : all) {
    const OnDevice here(device_of(block));
    if (driver.cuCtxSynchronize() != success) return;
    inspect(block);
  }
}

void release(std::map<uintptr_t, Block>::iterator found) {
  const Block block = found->second;
  blocks.erase(found);
  const OnDevice here(block.slot.device);
  if (driver.cuCtxSynchronize() != success) return;  // the GPU is lost to this process, and its memory with it
  inspect(block);
  free_slots.add(block.slot);
}

bool is_mapped(Address address) {
  Handle handle;
  if (driver.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address)) != success) return false;
  driver.cuMemRelease(handle);
  return true;
}

// A block that ends, or begins, where the driver says that memory does.
void prove(int device, Mode mode) {
  const OnDevice here(device);
  const Mode before = placement;
  placement = mode;
  char* const start = allocate(3 * device_alignment, device);
  placement = before;
  const auto found = blocks.find(reinterpret_cast<uintptr_t>(start));
  const auto first = reinterpret_cast<Address>(start), end = reinterpret_cast<Address>(found->second.end());
  const Slot slot = found->second.slot;
  const char* wrong = nullptr;
  if (!is_mapped(first) || !is_mapped(end - 1)) wrong = "a block's own memory is not mapped";
  if (is_mapped(mode == end_mode ? end : first - 1)) wrong = "there is memory at a block's guarded side";
  if (is_mapped(slot.reserved) || is_mapped(slot.memory() + slot.size)) wrong = "there is memory around a block";
  release(found);
  if (wrong != nullptr) throw std::runtime_error(wrong);
}

void tell(const char* text, char* message, size_t size) {
  if (size != 0) snprintf(message, size, "%s", text);
}

}  // namespace

#define EXPORT extern "C" [[gnu::visibility("default")]]

// Loads the driver from `path` and allocates on `device` once, in each placement. Returns 0, or 1 with the reason in
// `message` if allocations there would not be guarded.
EXPORT int trifold_device_guard_open(const char* path, int device, char* message, size_t size) noexcept {
  try {
    const std::scoped_lock lock(mutex);
    open(path);
    prove(device, end_mode);
    prove(device, start_mode);
    return 0;
  } catch (const std::exception& error) {
    tell(error.what(), message, size);
    return 1;
  }
}

// Called by torch, which turns the exception into a RuntimeError.
EXPORT void* trifold_device_guard_malloc(ptrdiff_t size, int device, void*) {
  if (size <= 0) return nullptr;
  const std::scoped_lock lock(mutex);
  return allocate(static_cast<size_t>(size), device);
}

EXPORT void trifold_device_guard_free(void* pointer, size_t, int, void*) noexcept {
  const std::scoped_lock lock(mutex);
  const auto found = blocks.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == blocks.end()) return;
  try {
    release(found);
  } catch (const std::exception&) {  // at the process's end there may be no driver any more
  }
}

// 1: blocks end at inaccessible memory; 2: they begin there.
EXPORT void trifold_device_guard_place(int mode) noexcept {
  const std::scoped_lock lock(mutex);
  placement = static_cast<Mode>(mode);
}

// Whether this is the address of a live block.
EXPORT int trifold_device_guard_holds(const void* pointer) noexcept {
  const std::scoped_lock lock(mutex);
  const auto after = blocks.upper_bound(reinterpret_cast<uintptr_t>(pointer));
  return after != blocks.begin() && distance(static_cast<const char*>(pointer), std::prev(after)->second) == 0 ? 1 : 0;
}

// Returns the number of canaries damaged since the last call, with a line about each in `buffer` (cut at `size`, ends
// with 0).
EXPORT size_t trifold_device_guard_check(char* buffer, size_t size) noexcept {
  const std::scoped_lock lock(mutex);
  try {
    inspect_all(blocks, [](const Block& block) { return block.slot.device; });
    inspect_all(padded, [](const Padded& block) { return block.device; });
  } catch (const std::exception&) {  // the driver cannot be used any more
  }
  return damage.take(buffer, size);
}

// Loads the driver from `path`, for the two functions below. Returns 0, or 1 with the reason in `message`.
EXPORT int trifold_whole_vectors_open(const char* path, char* message, size_t size) noexcept {
  try {
    const std::scoped_lock lock(mutex);
    open(path);
    return 0;
  } catch (const std::exception& error) {
    tell(error.what(), message, size);
    return 1;
  }
}

// A separate driver allocation, of a multiple of 16 bytes. The bytes past the block are filled, and inspected by
// trifold_device_guard_check and when the block is freed.
EXPORT void* trifold_whole_vectors_malloc(ptrdiff_t size, int device, void*) {
  if (size <= 0) return nullptr;
  const auto bytes = static_cast<size_t>(size);
  const size_t whole = round_up(bytes, device_alignment);
  const std::scoped_lock lock(mutex);
  const OnDevice here(device);
  Address start = 0;
  require(driver.cuMemAlloc_v2(&start, whole), "cuMemAlloc");
  if (whole > bytes) {
    require(driver.cuMemsetD8_v2(start + bytes, poison_byte, whole - bytes), "cuMemsetD8");
    require(driver.cuCtxSynchronize(), "cuCtxSynchronize");
    const auto block = reinterpret_cast<char*>(start);
    padded.insert_or_assign(reinterpret_cast<uintptr_t>(block), Padded{{block, bytes, ++blocks_made, true}, device});
  }
  return reinterpret_cast<void*>(start);
}

EXPORT void trifold_whole_vectors_free(void* pointer, size_t, int device, void*) noexcept {
  const std::scoped_lock lock(mutex);
  try {
    const OnDevice here(device);
    const auto found = padded.find(reinterpret_cast<uintptr_t>(pointer));
    if (found != padded.end()) {
      if (driver.cuCtxSynchronize() == success) inspect(found->second);
      padded.erase(found);
    }
    // Waits for the GPU.
    driver.cuMemFree_v2(reinterpret_cast<Address>(pointer));
  } catch (const std::exception&) {  // at the process's end there may be no driver any more
  }
}
