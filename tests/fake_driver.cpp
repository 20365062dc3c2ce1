// The functions of CUDA's driver that the guard allocator calls, with the host's memory as the GPU's, to test it where
// no GPU is. FAKE_DRIVER names what is wrong with it: "none", "neighbours" (all addresses are mapped), "old" (no
// virtual memory), "small" (4 granules of memory).
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <map>
#include <string>

namespace {

constexpr size_t granule = size_t{2} << 20;
std::map<size_t, size_t> mapped;     // begin -> size
std::map<size_t, size_t> allocated;  // the same
size_t created = 0;
size_t next_handle = 1;
std::map<size_t, size_t> handles;

bool is(const char* fault) {
  const char* named = getenv("FAKE_DRIVER");
  return named != nullptr && strcmp(named, fault) == 0;
}

}  // namespace

extern "C" {

int fake_is_lost = 0;

int cuInit(unsigned) {
  return 0;
}
int cuGetErrorName(int status, const char** name) {
  *name = status == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  return *device = ordinal, 0;
}
int cuDeviceGetAttribute(int* value, int, int) {
  return *value = is("old") ? 0 : 1, 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  return *context = &mapped, 0;
}
int cuCtxPushCurrent_v2(void*) {
  return 0;
}
int cuCtxPopCurrent_v2(void**) {
  return 0;
}
int cuCtxSynchronize() {
  return fake_is_lost ? 700 : 0;
}
int cuMemGetAllocationGranularity(size_t* size, const void*, int) {
  return *size = granule, 0;
}

int cuMemAddressReserve(size_t* address, size_t size, size_t, size_t, unsigned long long) {
  void* memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 2;
  *address = reinterpret_cast<size_t>(memory);
  return 0;
}
int cuMemAddressFree(size_t address, size_t size) {
  return munmap(reinterpret_cast<void*>(address), size);
}

int cuMemCreate(size_t* handle, size_t size, const void*, unsigned long long) {
  if (is("small") && created + size > 4 * granule) return 2;
  created += size;
  handles[*handle = next_handle++] = size;
  return 0;
}
int cuMemRelease(size_t handle) {
  created -= handles[handle];
  handles.erase(handle);
  return 0;
}
int cuMemMap(size_t address, size_t size, size_t, size_t, unsigned long long) {
  return mapped[address] = size, 0;
}
int cuMemUnmap(size_t address, size_t size) {
  mapped.erase(address);
  return mprotect(reinterpret_cast<void*>(address), size, PROT_NONE);
}
int cuMemSetAccess(size_t address, size_t size, const void*, size_t) {
  return mprotect(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE);
}
int cuMemRetainAllocationHandle(size_t* handle, void* address) {
  const auto at = reinterpret_cast<size_t>(address);
  *handle = next_handle++;
  for (const auto& [begin, size] : mapped)
    if (at >= begin && at < begin + size) return 0;
  return is("neighbours") ? 0 : 1;
}
int cuMemAlloc_v2(size_t* address, size_t size) {
  *address = reinterpret_cast<size_t>(aligned_alloc(512, (size + 511) / 512 * 512));
  allocated[*address] = size;
  return 0;
}
int cuMemFree_v2(size_t address) {
  allocated.erase(address);
  free(reinterpret_cast<void*>(address));
  return 0;
}
int cuMemsetD8_v2(size_t address, unsigned char value, size_t count) {
  memset(reinterpret_cast<void*>(address), value, count);
  return 0;
}
int cuMemcpyDtoH_v2(void* to, size_t from, size_t count) {
  memcpy(to, reinterpret_cast<void*>(from), count);
  return 0;
}

size_t fake_bytes_allocated(size_t address) {
  return allocated.count(address) != 0 ? allocated[address] : 0;
}
size_t fake_bytes_created() {
  return created;
}
}
