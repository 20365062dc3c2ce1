// Sums of many terms by the threads of a block, with an error that does not grow with their number.
#pragma once

#include <trifold/reduce.cuh>
#include <trifold/vector.cuh>

namespace trifold {

// A sum whose error does not grow with the number of terms (Kahan 1965); infinities and nan are as in a plain sum.
template <class C>
struct CompensatedSum {
  C sum, lost;

  __device__ __forceinline__ void add(C term) {
    const C corrected = term - lost;
    const C next = sum + corrected;
    const C error = (next - sum) - corrected;
    lost = error - error == C(0) ? error : C(0);
    sum = next;
  }

  __device__ __forceinline__ C value() const { return sum - lost; }
};

template <class V, int N>
__host__ __device__ __forceinline__ Pack<V, N> operator+(Pack<V, N> a, const Pack<V, N>& b) {
#pragma unroll
  for (int k = 0; k < N; ++k) a.value[k] += b.value[k];
  return a;
}

// The sums of terms(i), N numbers of type C, over 0 ≤ i < n. The block has `threads` threads in one dimension, and all
// call it; each gets the result, the same bit for bit. It ends with a barrier.
template <int threads, class C, int N, class Terms>
__device__ __forceinline__ Pack<C, N> block_sums(int64_t n, Terms terms) {
  CompensatedSum<C> sums[N]{};
  for (int64_t i = threadIdx.x; i < n; i += threads) {
    const Pack<C, N> values = terms(i);
#pragma unroll
    for (int k = 0; k < N; ++k) sums[k].add(values.value[k]);
  }
  Pack<C, N> own;
#pragma unroll
  for (int k = 0; k < N; ++k) own.value[k] = sums[k].value();
  return block_sum<threads>(own);
}

// The sum of term(i) over 0 ≤ i < n; as above.
template <int threads, class C, class Term>
__device__ __forceinline__ C block_sum_of(int64_t n, Term term) {
  return block_sums<threads, C, 1>(n, [&](int64_t i) { return Pack<C, 1>{term(i)}; }).value[0];
}

}  // namespace trifold
