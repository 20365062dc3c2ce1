// NVTX: marks and ranges for a profiler, which do nothing on the CPU.
#pragma once

#include <cstdint>

using nvtxRangeId_t = uint64_t;
using nvtxDomainHandle_t = struct nvtxDomainRegistration_st*;

inline constexpr int NVTX_VERSION = 3;
inline constexpr int NVTX_COLOR_UNKNOWN = 0, NVTX_COLOR_ARGB = 1;
inline constexpr int NVTX_MESSAGE_UNKNOWN = 0, NVTX_MESSAGE_TYPE_ASCII = 1, NVTX_MESSAGE_TYPE_UNICODE = 2;

struct nvtxEventAttributes_t {
  uint16_t version, size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType, reserved0;
  union {
    uint64_t ullValue;
    int64_t llValue;
    double dValue;
  } payload;
  int32_t messageType;
  union {
    const char* ascii;
    const wchar_t* unicode;
  } message;
};
inline constexpr uint16_t NVTX_EVENT_ATTRIB_STRUCT_SIZE = sizeof(nvtxEventAttributes_t);

inline void nvtxMarkA(const char*) {}
inline void nvtxMarkEx(const nvtxEventAttributes_t*) {}
inline int nvtxRangePushA(const char*) {
  return 0;
}
inline int nvtxRangePushEx(const nvtxEventAttributes_t*) {
  return 0;
}
inline int nvtxRangePop() {
  return 0;
}
inline nvtxRangeId_t nvtxRangeStartA(const char*) {
  return 0;
}
inline nvtxRangeId_t nvtxRangeStartEx(const nvtxEventAttributes_t*) {
  return 0;
}
inline void nvtxRangeEnd(nvtxRangeId_t) {}
inline void nvtxNameOsThreadA(uint32_t, const char*) {}
inline void nvtxMark(const char*) {}
inline int nvtxRangePush(const char*) {
  return 0;
}
inline nvtxRangeId_t nvtxRangeStart(const char*) {
  return 0;
}
inline nvtxDomainHandle_t nvtxDomainCreateA(const char*) {
  return nullptr;
}
inline void nvtxDomainDestroy(nvtxDomainHandle_t) {}
inline int nvtxDomainRangePushEx(nvtxDomainHandle_t, const nvtxEventAttributes_t*) {
  return 0;
}
inline int nvtxDomainRangePop(nvtxDomainHandle_t) {
  return 0;
}
