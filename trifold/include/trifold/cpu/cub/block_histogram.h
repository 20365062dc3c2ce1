// CUB's BlockHistogram.
#pragma once

#include <trifold/cpu/cub/block_use.h>

namespace cub {

enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

// Both algorithms count with atomics here; the sorting one meets at a barrier and uses its storage, as CUB's does.
template <class T, int x, int items, int bins, BlockHistogramAlgorithm algorithm = BLOCK_HISTO_SORT, int y = 1,
          int z = 1>
class BlockHistogram : details::Block<x, y, z> {
  using Base = details::Block<x, y, z>;
  using Storage = details::Shared<NullType>;

 public:
  struct TempStorage : Uninitialized<Storage> {};

  __forceinline__ BlockHistogram() : storage_(private_storage()) {}
  __forceinline__ explicit BlockHistogram(TempStorage& storage) : storage_(storage.Alias()) {}

  template <class Counter>
  __forceinline__ void InitHistogram(Counter* histogram) {
    for (int bin = Base::rank(); bin < bins; bin += Base::threads) histogram[bin] = 0;
  }
  template <class Counter>
  __forceinline__ void Histogram(T (&values)[items], Counter* histogram, Line line = {}) {
    InitHistogram(histogram);
    __syncthreads(line);
    Composite(values, histogram, line);
  }
  // Adds to the counts that are there.
  template <class Counter>
  __forceinline__ void Composite(T (&values)[items], Counter* histogram, Line line = {}) {
    details::require_threads("BlockHistogram", Base::threads, Base::threads, line);
    if constexpr (algorithm == BLOCK_HISTO_SORT) {
      const details::Use use(storage_.use, Base::rank());
      __syncthreads(line);
      count(values, histogram);
    } else {
      count(values, histogram);
    }
  }

 private:
  static Storage& private_storage() {
    __shared__ TempStorage storage;
    return storage.Alias();
  }
  template <class Counter>
  static __forceinline__ void count(const T (&values)[items], Counter* histogram) {
    for (int i = 0; i < items; ++i) atomicAdd(histogram + values[i], Counter{1});
  }

  Storage& storage_;
};

}  // namespace cub
