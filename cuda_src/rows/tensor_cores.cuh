// Sums of a warp's packed half types by tensor cores (sm_80 on): five instructions for eight numbers of a thread,
// instead of five for each number, which is unpacked twice and added twice.
//
//     TensorSums<T> all;
//     for (…) all.add(piece);                                // all lanes of the warp
//     … warp_sum(all.sum()) … warp_sum(all.squares());
//
// In mma.m16n8k8 (PTX ISA) lane 4·g + t holds of A, in a0, row g, columns 2·t and 2·t + 1, and in a1 the same columns
// of row g + 8; of B, in b, rows 2·t and 2·t + 1 of column g; and of the result, in d0 to d3, the positions that it
// holds of A. m16n8k16 has eight more columns of A, in a2 and a3, and eight more rows of B.
#pragma once

#include <trifold/packed.cuh>

#ifdef TRIFOLD_CPU
#include <trifold/cpu/ptx/matrices.h>
#endif

#if !defined(TRIFOLD_GPU_ARCH) || TRIFOLD_GPU_ARCH >= 800

namespace trifold {

// Adds A·B to d, with 8 columns of A.
template <class T>
__device__ __forceinline__ void multiply_add(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b) {
#ifdef TRIFOLD_CPU
  using namespace ptx;
  const auto sums = [&] { return pack(d[0], d[1], d[2], d[3]); };
  mma_<f32, T, T, f32, modifier::m16n8k8_>(sums(), pack(a0, a1), pack(b), sums());
#else
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(b));
  else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(b));
#endif
}
// With 16 columns.
template <class T>
__device__ __forceinline__ void multiply_add(float (&d)[4], const Packed<T>& a, uint32_t b0, uint32_t b1) {
#ifdef TRIFOLD_CPU
  using namespace ptx;
  const auto sums = [&] { return pack(d[0], d[1], d[2], d[3]); };
  const auto& [a0, a1, a2, a3] = a.words;
  mma_<f32, T, T, f32, modifier::m16n8k16_>(sums(), pack(a0, a1, a2, a3), pack(b0, b1), sums());
#else
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b0), "r"(b1));
#endif
}

// Σ x and Σ x² over a warp's pieces; all lanes call add() together. Products are exact; a sum of floats is truncated,
// not rounded, so that each piece costs about half a unit in the last place.
template <class T>
class TensorSums {
 public:
  __device__ __forceinline__ void add(const Packed<T>& x) {
    // A column of ones: one lane of four gets the sum of the numbers of all four.
    const uint32_t ones = lane() < 4 ? Packed<T>::all(T(1.0f)).words[0] : 0;
    multiply_add(sums_, x, ones, ones);
    // The columns of B are rows of A, its upper or its lower ones: their squares are on the diagonal of the product.
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      multiply_add<T>(upper_, x.words[i], x.words[i + 1], x.words[i]);
      multiply_add<T>(lower_, x.words[i], x.words[i + 1], x.words[i + 1]);
    }
  }
  // To be added over the warp's lanes.
  __device__ __forceinline__ float sum() const { return sums_[0] + sums_[2]; }
  __device__ __forceinline__ float squares() const {
    const int distance = lane() / 4 - lane() % 4 * 2;  // the diagonal's distance from the lane's first column
    const float own = distance == 0 ? upper_[0] + lower_[2] : upper_[1] + lower_[3];
    return distance == 0 || distance == 1 ? own : 0.0f;
  }

 private:
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % warp_threads; }

  float sums_[4]{}, upper_[4]{}, lower_[4]{};
};

}  // namespace trifold

#endif
