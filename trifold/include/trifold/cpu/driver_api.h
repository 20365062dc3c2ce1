// The part of CUDA's driver API that programs for the runtime need: tiled tensor maps without interleaving (CUDA Driver
// API, "Tensor Map Object Management").
#pragma once

#include <trifold/cpu/captures.h>
#include <trifold/cpu/program.h>
#include <trifold/cpu/runtime_types.h>
#include <trifold/cpu/tensor_map.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

using cuuint32_t = uint32_t;
using cuuint64_t = uint64_t;

enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_NOT_SUPPORTED = 801 };

namespace trifold::cpu {

// The arguments of cuTensorMapEncodeTiled.
struct TiledTensor {
  CUtensorMapDataType type;
  uint32_t rank;
  void* begin;
  const cuuint64_t* size;
  const cuuint64_t* stride;  // of the outer dimensions
  const cuuint32_t* box;
  const cuuint32_t* step;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapFloatOOBfill fill;
};

inline uint8_t element_bytes(CUtensorMapDataType type) {
  constexpr uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return bytes[type];
}

// The reason why a GPU, or this emulation, would refuse the map; null: it is valid.
inline const char* fault_of(const TiledTensor& tensor) {
  if (tensor.rank < 1 || tensor.rank > most_dimensions) return "a tensor map has 1 to 5 dimensions";
  if (reinterpret_cast<uintptr_t>(tensor.begin) % 16 != 0) return "the address is no multiple of 16 bytes";
  for (uint32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.size[i] < 1 || tensor.size[i] > uint64_t{1} << 32) return "a dimension is not 1 to 2^32";
    if (tensor.box[i] < 1 || tensor.box[i] > 256) return "a dimension of the box is not 1 to 256";
    if (tensor.step[i] != 1) return "an element stride other than 1 is not there on the CPU";
    if (i > 0 && (tensor.stride[i - 1] % 16 != 0 || tensor.stride[i - 1] >= uint64_t{1} << 40))
      return "a stride is no multiple of 16 bytes, or 2^40 and more";
  }
  const uint32_t row_bytes = tensor.box[0] * element_bytes(tensor.type);
  if (row_bytes % 16 != 0) return "the box's inner dimension is no multiple of 16 bytes";
  if (tensor.swizzle != CU_TENSOR_MAP_SWIZZLE_NONE && row_bytes > 16u << tensor.swizzle)
    return "the box's inner dimension has more bytes than the swizzle";
  if (tensor.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return "interleaving is not there on the CPU";
  if (tensor.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) return "NaNs outside the tensor are not there on the CPU";
  return nullptr;
}

inline CUresult encode(CUtensorMap* map, const TiledTensor& tensor, const void* return_address) {
  if (const char* const fault = fault_of(tensor)) {
    char what[128];
    std::snprintf(what, sizeof what, "cuTensorMapEncodeTiled: %s", fault);
    refuse_call(what, Error::invalid_value, return_address);
    return CUDA_ERROR_INVALID_VALUE;
  }
  TensorMap made{};
  made.made = TensorMap::mark;
  made.rank = static_cast<uint8_t>(tensor.rank);
  made.element_bytes = element_bytes(tensor.type);
  made.type = static_cast<uint8_t>(tensor.type);
  made.swizzle = static_cast<uint8_t>(tensor.swizzle);
  made.begin = static_cast<char*>(tensor.begin);
  for (uint32_t i = 0; i < tensor.rank; ++i) {
    made.last[i] = static_cast<uint32_t>(tensor.size[i] - 1);
    made.box[i] = static_cast<uint16_t>(tensor.box[i]);
    made.stride[i] = i == 0 ? made.element_bytes : static_cast<int64_t>(tensor.stride[i - 1]);
  }
  *map = {};
  std::memcpy(map, &made, sizeof made);
  return CUDA_SUCCESS;
}

}  // namespace trifold::cpu

// Programs also call it by a pointer, so it cannot have a default argument for the line: the return address identifies
// it.
__attribute__((__noinline__)) inline CUresult cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* begin, const cuuint64_t* size,
    const cuuint64_t* stride, const cuuint32_t* box, const cuuint32_t* step, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  return trifold::cpu::encode(map, {type, rank, begin, size, stride, box, step, interleave, swizzle, fill},
                              __builtin_return_address(0));
}

// ---------------------------------------------------------------------------------------------------- entry points

using PFN_cuTensorMapEncodeTiled_v12000 = decltype(&cuTensorMapEncodeTiled);
using PFN_cuTensorMapEncodeTiled = PFN_cuTensorMapEncodeTiled_v12000;

enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess = 0,
  cudaDriverEntryPointSymbolNotFound = 1,
  cudaDriverEntryPointVersionNotSufficent = 2,  // CUDA's spelling
};
inline constexpr unsigned long long cudaEnableDefault = 0;

// The driver's only function that a program can get.
inline cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                    unsigned long long = cudaEnableDefault,
                                                    cudaDriverEntryPointQueryResult* result = nullptr,
                                                    trifold::cpu::Line line = {}) {
  const bool found = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *function = found ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled) : nullptr;
  if (result != nullptr) *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return found
             ? cudaSuccess
             : trifold::cpu::to_cuda(trifold::cpu::refuse_call("a function of the driver that is not there on the CPU",
                                                               trifold::cpu::Error::not_supported, line));
}
inline cudaError_t cudaGetDriverEntryPoint(const char* name, void** function,
                                           unsigned long long flags = cudaEnableDefault,
                                           cudaDriverEntryPointQueryResult* result = nullptr,
                                           trifold::cpu::Line line = {}) {
  return cudaGetDriverEntryPointByVersion(name, function, 0, flags, result, line);
}
