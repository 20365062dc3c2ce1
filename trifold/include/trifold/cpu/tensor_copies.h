// Copies by tensor maps (PTX ISA, "cp.async.bulk.tensor"). Each consists of one bulk copy per row of its box, or per 16
// bytes of a row if the box is swizzled. Elements outside the tensor are zeros in shared memory, and are not written to
// global memory.
#pragma once

#include <trifold/cpu/asynchronous.h>
#include <trifold/cpu/ptx/copies.h>
#include <trifold/cpu/tensor_map.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace trifold::cpu {

struct TensorCopy {
  const void* map;
  const int32_t* at;  // the first element of the box, in each dimension
  uint32_t dimensions;
  char* shared;
  bool to_shared;
  void* barrier = nullptr;  // for a copy to shared memory
  uint32_t ranks = 0;
  Instruction instruction = Instruction::cp_async_bulk_tensor;
  ptx::Combine combine = nullptr;
};

class TensorCopyStart {
 public:
  TensorCopyStart(const TensorCopy& copy, Line line) : copy_(copy), line_(line) {
    std::memcpy(&map_, copy.map, sizeof map_);
    // The box's alignment; rows need none: a row of a misaligned box is found to be.
    if (constexpr size_t box = 128; reinterpret_cast<uintptr_t>(copy.shared) % box != 0) shared_alignment_ = box;
    if (map_.made != TensorMap::mark)
      stop_launch("a copy by something that cuTensorMapEncodeTiled has not made a tensor map of,", line);
    if (map_.rank != copy.dimensions)
      stop_launch("a copy with another number of coordinates than its tensor map has dimensions,", line);
  }
  void start() {
    uint32_t rows = 1;
    for (uint32_t i = 1; i < map_.rank; ++i) rows *= map_.box[i];
    for (uint32_t row = 0; row < rows; ++row) start_row(row);
  }

 private:
  struct Bytes {
    int64_t begin, end;
  };

  // The bytes of a row that are inside the tensor, and the offset of the first one.
  Bytes inside(uint32_t row, int64_t& offset) const {
    bool is_inside = true;
    offset = copy_.at[0] * map_.stride[0];
    for (uint32_t i = 1, rest = row; i < map_.rank; rest /= map_.box[i], ++i) {
      const int64_t place = copy_.at[i] + int64_t{rest % map_.box[i]};
      is_inside = is_inside && place >= 0 && place <= map_.last[i];
      offset += place * map_.stride[i];
    }
    const int64_t box = map_.box[0], first = std::min(std::max(int64_t{0}, -int64_t{copy_.at[0]}), box);
    const int64_t last = std::min(std::max(first, int64_t{map_.last[0]} + 1 - copy_.at[0]), box);
    return is_inside ? Bytes{first * map_.element_bytes, last * map_.element_bytes} : Bytes{0, 0};
  }

  void start_row(uint32_t row) {
    int64_t offset = 0;
    const Bytes valid = inside(row, offset);
    const int64_t bytes = map_.box[0] * map_.element_bytes, piece = map_.swizzle == 0 ? bytes : 16;
    for (int64_t at = 0; at < bytes; at += piece) {
      const Bytes part{std::clamp(valid.begin, at, at + piece), std::clamp(valid.end, at, at + piece)};
      char* const shared = swizzled(copy_.shared + row * bytes + at);
      // Not computed if nothing is accessed: the address may be far outside of the tensor.
      char* const global = part.begin < part.end ? map_.begin + (offset + part.begin) : map_.begin;
      if (!copy_.to_shared) {
        if (part.begin < part.end) start_part(global, shared + (part.begin - at), part.end - part.begin, 0);
        continue;
      }
      const int64_t before = part.begin < part.end ? part.begin - at : 0;
      if (before > 0) start_part(shared, map_.begin, before, before);
      start_part(shared + before, global, piece - before, piece - before - (part.end - part.begin));
    }
  }

  void start_part(char* to, const char* from, int64_t bytes, int64_t zeros) {
    trifold::cpu::start({.instruction = copy_.instruction,
                         .to = to,
                         .from = from,
                         .bytes = static_cast<size_t>(bytes),
                         .alignment = 1,
                         .shared_alignment = shared_alignment_,
                         .zeros = static_cast<size_t>(zeros),
                         .combine = copy_.combine,
                         .barrier = copy_.barrier,
                         .ranks = copy_.ranks,
                         .to_shared = copy_.to_shared,
                         .from_shared = !copy_.to_shared},
                        line_);
  }

  // Pieces of 16 bytes are permuted within 32, 64 or 128 bytes, by the index of their 128 bytes.
  char* swizzled(char* place) const {
    const auto address = reinterpret_cast<uintptr_t>(place);
    const uintptr_t mask = (uintptr_t{1} << map_.swizzle) - 1;
    return place + static_cast<ptrdiff_t>((address ^ (address >> 7 & mask) << 4) - address);
  }

  const TensorCopy& copy_;
  TensorMap map_;
  Line line_;
  size_t shared_alignment_ = 1;
};

inline void start_tensor_copy(const TensorCopy& copy, Line line) {
  TensorCopyStart(copy, line).start();
}

// The combining function of a reduction for a map's element type; null: not supported.
template <class Word>
ptx::Combine combine_for(const void* map) {
  namespace words = ptx::modifier;
  TensorMap read;
  std::memcpy(&read, map, sizeof read);
  constexpr bool adds = same_as<Word, words::add_>;
  if constexpr (same_as<Word, words::and_> || same_as<Word, words::or_> || same_as<Word, words::xor_>) {
    return read.element_bytes == 8   ? ptx::combine<ptx::b64, Word>
           : read.element_bytes == 4 ? ptx::combine<ptx::b32, Word>
                                     : nullptr;
  } else {
    switch (read.type) {
      case CU_TENSOR_MAP_DATA_TYPE_UINT32: return ptx::combine<ptx::u32, Word>;
      case CU_TENSOR_MAP_DATA_TYPE_INT32: return ptx::combine<ptx::s32, Word>;
      case CU_TENSOR_MAP_DATA_TYPE_UINT64: return ptx::combine<ptx::u64, Word>;
      case CU_TENSOR_MAP_DATA_TYPE_INT64: return adds ? ptx::combine<ptx::u64, Word> : ptx::combine<ptx::s64, Word>;
      case CU_TENSOR_MAP_DATA_TYPE_FLOAT16: return ptx::combine<ptx::f16, Word>;
      case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return ptx::combine<ptx::bf16, Word>;
      case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
        if constexpr (adds) return ptx::combine<ptx::f32, Word>;
        return nullptr;
      default: return nullptr;
    }
  }
}
template <class Word>
void start_tensor_reduction(TensorCopy copy, Line line) {
  copy.instruction = Instruction::cp_reduce_async_bulk_tensor;
  copy.combine = combine_for<Word>(copy.map);
  if (copy.combine == nullptr) stop_launch("a reduction of a tensor whose type it has not,", line);
  start_tensor_copy(copy, line);
}

}  // namespace trifold::cpu
