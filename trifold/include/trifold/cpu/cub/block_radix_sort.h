// CUB's BlockRadixSort: a stable sort of a block's items by some bits of their keys.
#pragma once

#include <trifold/cpu/cub/block_exchange.h>
#include <trifold/cpu/cub/block_scan.h>
#include <trifold/cpu/cub/radix_keys.h>
#include <trifold/cpu/runtime_types.h>

#include <algorithm>

namespace cub {

template <class Key, int x, int items, class Value = NullType, int radix_bits = 4, bool memoize = true,
          BlockScanAlgorithm scan_algorithm = BLOCK_SCAN_WARP_SCANS,
          cudaSharedMemConfig banks = cudaSharedMemBankSizeFourByte, int y = 1, int z = 1>
class BlockRadixSort : details::Block<x, y, z> {
  using Base = details::Block<x, y, z>;
  using At = details::Arrangement<Base::threads, items>;
  using Scan = details::ScanOfBlock<int, Base::threads, BLOCK_SCAN_WARP_SCANS>;
  static constexpr int digits = 1 << radix_bits;

  struct Data {
    int counts[digits * Base::threads];  // of each thread's items with a digit; all threads' of one digit in succession
    typename Scan::Data scan;
    Uninitialized<Key> keys[Base::threads * items];
    Uninitialized<Value> values[std::is_same_v<Value, NullType> ? 1 : Base::threads * items];
  };
  using Storage = details::Shared<Data>;
  using Keys = Key (&)[items];
  using Values = Value (&)[items];
  static constexpr int all_bits = sizeof(Key) * 8;

 public:
  struct TempStorage : Uninitialized<Storage> {};

  __forceinline__ BlockRadixSort() : storage_(private_storage()) {}
  __forceinline__ explicit BlockRadixSort(TempStorage& storage) : storage_(storage.Alias()) {}

  __forceinline__ void Sort(Keys keys, int begin_bit = 0, int end_bit = all_bits, Line line = {}) {
    sort<false>(keys, nullptr, begin_bit, end_bit, At::blocked, line);
  }
  __forceinline__ void Sort(Keys keys, Values values, int begin_bit = 0, int end_bit = all_bits, Line line = {}) {
    sort<false>(keys, values, begin_bit, end_bit, At::blocked, line);
  }
  __forceinline__ void SortDescending(Keys keys, int begin_bit = 0, int end_bit = all_bits, Line line = {}) {
    sort<true>(keys, nullptr, begin_bit, end_bit, At::blocked, line);
  }
  __forceinline__ void SortDescending(Keys keys, Values values, int begin_bit = 0, int end_bit = all_bits,
                                      Line line = {}) {
    sort<true>(keys, values, begin_bit, end_bit, At::blocked, line);
  }
  // The sorted items are striped over the threads.
  __forceinline__ void SortBlockedToStriped(Keys keys, int begin_bit = 0, int end_bit = all_bits, Line line = {}) {
    sort<false>(keys, nullptr, begin_bit, end_bit, At::striped, line);
  }
  __forceinline__ void SortBlockedToStriped(Keys keys, Values values, int begin_bit = 0, int end_bit = all_bits,
                                            Line line = {}) {
    sort<false>(keys, values, begin_bit, end_bit, At::striped, line);
  }
  __forceinline__ void SortDescendingBlockedToStriped(Keys keys, int begin_bit = 0, int end_bit = all_bits,
                                                      Line line = {}) {
    sort<true>(keys, nullptr, begin_bit, end_bit, At::striped, line);
  }
  __forceinline__ void SortDescendingBlockedToStriped(Keys keys, Values values, int begin_bit = 0,
                                                      int end_bit = all_bits, Line line = {}) {
    sort<true>(keys, values, begin_bit, end_bit, At::striped, line);
  }

 private:
  static Storage& private_storage() {
    __shared__ TempStorage storage;
    return storage.Alias();
  }

  template <bool descending, class Place>
  __forceinline__ void sort(Keys keys, Value* values, int begin_bit, int end_bit, const Place& last, Line line) {
    details::require_threads("BlockRadixSort", Base::threads, Base::threads, line);
    const details::Use use(storage_.use, Base::rank());
    if (begin_bit >= end_bit) scatter(keys, values, nullptr, last, line);  // in their present order
    for (int bit = begin_bit; bit < end_bit; bit += radix_bits) {
      const int bits = std::min(radix_bits, end_bit - bit);
      int places[items];
      rank_items<descending>(keys, bit, bits, places, line);
      if (bit + bits >= end_bit)
        scatter(keys, values, places, last, line);
      else
        scatter(keys, values, places, At::blocked, line);
      __syncthreads(line);
    }
  }

  // The places of the thread's items in the order of one digit.
  template <bool descending>
  __forceinline__ void rank_items(const Key (&keys)[items], int bit, int bits, int (&places)[items], Line line) {
    auto& counts = storage_.data.counts;
    const int rank = Base::rank();
    for (int digit = 0; digit < digits; ++digit) counts[digit * Base::threads + rank] = 0;
    for (int i = 0; i < items; ++i) {
      int& count =
          counts[static_cast<int>(details::radix_digit(keys[i], bit, bits, descending)) * Base::threads + rank];
      places[i] = count++;
    }
    __syncthreads(line);
    int own[digits], sum = 0;  // each thread scans a part of the counts
    for (int i = 0; i < digits; ++i) sum += own[i] = counts[rank * digits + i];
    const details::Initial<int> zero{0};
    int before = Scan::scan(storage_.data.scan, rank, sum, ::std::plus<>(), zero, line).exclusive;
    for (int i = 0; i < digits; ++i) {
      counts[rank * digits + i] = before;
      before += own[i];
    }
    __syncthreads(line);
    for (int i = 0; i < items; ++i)
      places[i] +=
          counts[static_cast<int>(details::radix_digit(keys[i], bit, bits, descending)) * Base::threads + rank];
  }

  template <class Place>
  __forceinline__ void scatter(Keys keys, Value* values, const int* places, const Place& to, Line line) {
    const int rank = Base::rank();
    for (int i = 0; i < items; ++i) {
      const int at = places == nullptr ? At::blocked(rank, i) : places[i];
      storage_.data.keys[at].Alias() = keys[i];
      if (values != nullptr) storage_.data.values[at].Alias() = values[i];
    }
    __syncthreads(line);
    for (int i = 0; i < items; ++i) {
      const int at = to(rank, i);
      keys[i] = storage_.data.keys[at].Alias();
      if (values != nullptr) values[i] = storage_.data.values[at].Alias();
    }
  }

  Storage& storage_;
};

}  // namespace cub
