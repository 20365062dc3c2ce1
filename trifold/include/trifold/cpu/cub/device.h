// CUB's algorithms of a whole device, for programs: each is a kernel of one thread, or of one for each segment.
#pragma once

#include <trifold/cpu/configuration.h>
#include <trifold/cpu/cub/radix_keys.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>

namespace cub {
namespace details {

template <class Iterator>
using ValueOf = std::remove_cv_t<typename ::std::iterator_traits<Iterator>::value_type>;

// The first call of an algorithm asks for the bytes of temporary storage that it needs; the second one runs `work`,
// with its arguments, in so many threads of a kernel of this name.
template <class Work, class... Args>
cudaError_t run(const char* name, void* temp, size_t& bytes, size_t needed, unsigned threads, cudaStream_t stream,
                Line line, Work work, Args... args) {
  needed = std::max<size_t>(needed, 1);
  if (temp == nullptr) {
    bytes = needed;
    return cudaSuccess;
  }
  if (bytes < needed) return cudaErrorInvalidValue;
  if (threads == 0) return cudaSuccess;
  const unsigned block = std::min(threads, 256u);
  trifold::cpu::Configuration(name, "", (threads + block - 1) / block, block, 0, stream, line)
      .launch(
          [=](auto... given) {
            if (const unsigned t = blockIdx.x * block + threadIdx.x; t < threads) work(t, given...);
          },
          args...);
  return cudaPeekAtLastError();
}

template <class In, class Op, class T>
T reduced(In in, int64_t begin, int64_t end, Op op, T result) {
  for (int64_t i = begin; i < end; ++i) {
    const ValueOf<In> item = in[i];  // read here, and not by the operator
    result = op(result, item);
  }
  return result;
}

}  // namespace details

struct DeviceReduce {
  template <class In, class Out, class N, class Op, class T>
  static cudaError_t Reduce(void* temp, size_t& bytes, In in, Out out, N n, Op op, T init,
                            cudaStream_t stream = nullptr, Line line = {}) {
    return details::run(
        "cub::DeviceReduce", temp, bytes, 0, 1, stream, line,
        [=](unsigned, In in, Out out) { *out = details::reduced(in, 0, n, op, init); }, in, out);
  }
  template <class In, class Out, class N>
  static cudaError_t Sum(void* temp, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr,
                         Line line = {}) {
    return Reduce(temp, bytes, in, out, n, ::std::plus<>(), details::ValueOf<In>{}, stream, line);
  }
  // The first extreme item: its KeyValuePair of index and value, or both for themselves.
  template <class In, class Out, class N, class = ::std::enable_if_t<::std::is_integral_v<N>>>
  static cudaError_t ArgMin(void* temp, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr,
                            Line line = {}) {
    return extreme_pair(temp, bytes, in, out, n, ::std::less<>(), stream, line);
  }
  template <class In, class Out, class N, class = ::std::enable_if_t<::std::is_integral_v<N>>>
  static cudaError_t ArgMax(void* temp, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr,
                            Line line = {}) {
    return extreme_pair(temp, bytes, in, out, n, ::std::greater<>(), stream, line);
  }
  template <class In, class Out, class Index, class N, class = ::std::enable_if_t<!::std::is_integral_v<Index>>>
  static cudaError_t ArgMin(void* temp, size_t& bytes, In in, Out out, Index index, N n, cudaStream_t stream = nullptr,
                            Line line = {}) {
    return extreme(temp, bytes, in, out, index, n, ::std::less<>(), stream, line);
  }
  template <class In, class Out, class Index, class N, class = ::std::enable_if_t<!::std::is_integral_v<Index>>>
  static cudaError_t ArgMax(void* temp, size_t& bytes, In in, Out out, Index index, N n, cudaStream_t stream = nullptr,
                            Line line = {}) {
    return extreme(temp, bytes, in, out, index, n, ::std::greater<>(), stream, line);
  }
  // One result for each run of equal keys.
  template <class Keys, class Unique, class In, class Out, class Count, class Op, class N>
  static cudaError_t ReduceByKey(void* temp, size_t& bytes, Keys keys, Unique unique, In in, Out out, Count runs, Op op,
                                 N n, cudaStream_t stream = nullptr, Line line = {}) {
    return details::run(
        "cub::DeviceReduce", temp, bytes, 0, 1, stream, line,
        [=](unsigned, Keys keys, Unique unique, In in, Out out, Count runs) {
          const auto end = static_cast<int64_t>(n);
          int64_t found = 0;
          for (int64_t i = 0; i < end; ++found) {
            const details::ValueOf<Keys> key = keys[i];
            details::ValueOf<In> sum = in[i];
            for (++i; i < end && key == keys[i]; ++i) {
              const details::ValueOf<In> item = in[i];
              sum = op(sum, item);
            }
            unique[found] = key;
            out[found] = sum;
          }
          *runs = static_cast<details::ValueOf<Count>>(found);
        },
        keys, unique, in, out, runs);
  }
  template <class In, class Out, class N>
  static cudaError_t Min(void* temp, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr,
                         Line line = {}) {
    using T = details::ValueOf<In>;
    return Reduce(temp, bytes, in, out, n, cuda::minimum<>(), ::std::numeric_limits<T>::max(), stream, line);
  }
  template <class In, class Out, class N>
  static cudaError_t Max(void* temp, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr,
                         Line line = {}) {
    using T = details::ValueOf<In>;
    return Reduce(temp, bytes, in, out, n, cuda::maximum<>(), ::std::numeric_limits<T>::lowest(), stream, line);
  }

 private:
  // The index of the first item that none is before.
  template <class In, class Before>
  static int64_t first_of(In in, int64_t n, Before before) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i) {
      const details::ValueOf<In> item = in[i], known = in[best];
      if (before(item, known)) best = i;
    }
    return best;
  }
  template <class In, class Out, class N, class Before>
  static cudaError_t extreme_pair(void* temp, size_t& bytes, In in, Out out, N n, Before before, cudaStream_t stream,
                                  Line line) {
    return details::run(
        "cub::DeviceReduce", temp, bytes, 0, 1, stream, line,
        [=](unsigned, In in, Out out) {
          const int64_t best = first_of(in, n, before);
          out->key = static_cast<decltype(out->key)>(best);
          out->value = in[best];
        },
        in, out);
  }
  template <class In, class Out, class Index, class N, class Before>
  static cudaError_t extreme(void* temp, size_t& bytes, In in, Out out, Index index, N n, Before before,
                             cudaStream_t stream, Line line) {
    return details::run(
        "cub::DeviceReduce", temp, bytes, 0, 1, stream, line,
        [=](unsigned, In in, Out out, Index index) {
          const int64_t best = first_of(in, n, before);
          *out = in[best];
          *index = static_cast<details::ValueOf<Index>>(best);
        },
        in, out, index);
  }
};

struct DeviceSegmentedReduce {
  template <class In, class Out, class Begins, class Ends, class Op, class T>
  static cudaError_t Reduce(void* temp, size_t& bytes, In in, Out out, int64_t segments, Begins begins, Ends ends,
                            Op op, T init, cudaStream_t stream = nullptr, Line line = {}) {
    return details::run(
        "cub::DeviceSegmentedReduce", temp, bytes, 0, static_cast<unsigned>(segments), stream, line,
        [=](unsigned t, In in, Out out, Begins begins, Ends ends) {
          out[t] = details::reduced(in, begins[t], ends[t], op, init);
        },
        in, out, begins, ends);
  }
  template <class In, class Out, class Begins, class Ends>
  static cudaError_t Sum(void* temp, size_t& bytes, In in, Out out, int64_t segments, Begins begins, Ends ends,
                         cudaStream_t stream = nullptr, Line line = {}) {
    return Reduce(temp, bytes, in, out, segments, begins, ends, ::std::plus<>(), details::ValueOf<In>{}, stream, line);
  }
  template <class In, class Out, class Begins, class Ends>
  static cudaError_t Min(void* temp, size_t& bytes, In in, Out out, int64_t segments, Begins begins, Ends ends,
                         cudaStream_t stream = nullptr, Line line = {}) {
    using T = details::ValueOf<In>;
    return Reduce(temp, bytes, in, out, segments, begins, ends, cuda::minimum<>(), ::std::numeric_limits<T>::max(),
                  stream, line);
  }
  template <class In, class Out, class Begins, class Ends>
  static cudaError_t Max(void* temp, size_t& bytes, In in, Out out, int64_t segments, Begins begins, Ends ends,
                         cudaStream_t stream = nullptr, Line line = {}) {
    using T = details::ValueOf<In>;
    return Reduce(temp, bytes, in, out, segments, begins, ends, cuda::maximum<>(), ::std::numeric_limits<T>::lowest(),
                  stream, line);
  }
};

struct DeviceScan {
  template <class In, class Out, class Op, class T, class N>
  static cudaError_t ExclusiveScan(void* temp, size_t& bytes, In in, Out out, Op op, T init, N n,
                                   cudaStream_t stream = nullptr, Line line = {}) {
    return details::run(
        "cub::DeviceScan", temp, bytes, 0, 1, stream, line,
        [=](unsigned, In in, Out out) {
          T sum = init;
          for (int64_t i = 0; i < static_cast<int64_t>(n); ++i) {
            const T before = sum;
            const details::ValueOf<In> item = in[i];
            sum = op(sum, item);
            out[i] = before;
          }
        },
        in, out);
  }
  template <class In, class Out, class Op, class N>
  static cudaError_t InclusiveScan(void* temp, size_t& bytes, In in, Out out, Op op, N n, cudaStream_t stream = nullptr,
                                   Line line = {}) {
    return details::run(
        "cub::DeviceScan", temp, bytes, 0, 1, stream, line,
        [=](unsigned, In in, Out out) {
          details::ValueOf<In> sum{};
          for (int64_t i = 0; i < static_cast<int64_t>(n); ++i) {
            const details::ValueOf<In> item = in[i];
            sum = i == 0 ? item : static_cast<details::ValueOf<In>>(op(sum, item));
            out[i] = sum;
          }
        },
        in, out);
  }
  template <class In, class Out, class N>
  static cudaError_t ExclusiveSum(void* temp, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr,
                                  Line line = {}) {
    return ExclusiveScan(temp, bytes, in, out, ::std::plus<>(), details::ValueOf<In>{}, n, stream, line);
  }
  template <class In, class Out, class N>
  static cudaError_t InclusiveSum(void* temp, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr,
                                  Line line = {}) {
    return InclusiveScan(temp, bytes, in, out, ::std::plus<>(), n, stream, line);
  }
};

struct DeviceSelect {
  // Those that op is true of; those that have a flag; the first of each run of equal ones. In their order.
  template <class In, class Out, class Count, class N, class Op>
  static cudaError_t If(void* temp, size_t& bytes, In in, Out out, Count count, N n, Op op,
                        cudaStream_t stream = nullptr, Line line = {}) {
    const auto keeps = [=](In in, int64_t i) { return static_cast<bool>(op(in[i])); };
    return select(temp, bytes, in, out, count, n, keeps, stream, line, in);
  }
  template <class In, class Flags, class Out, class Count, class N>
  static cudaError_t Flagged(void* temp, size_t& bytes, In in, Flags flags, Out out, Count count, N n,
                             cudaStream_t stream = nullptr, Line line = {}) {
    const auto keeps = [](Flags flags, int64_t i) { return static_cast<bool>(flags[i]); };
    return select(temp, bytes, in, out, count, n, keeps, stream, line, flags);
  }
  template <class In, class Out, class Count, class N>
  static cudaError_t Unique(void* temp, size_t& bytes, In in, Out out, Count count, N n, cudaStream_t stream = nullptr,
                            Line line = {}) {
    const auto keeps = [](In in, int64_t i) { return i == 0 || !(in[i] == in[i - 1]); };
    return select(temp, bytes, in, out, count, n, keeps, stream, line, in);
  }

 private:
  template <class In, class Out, class Count, class N, class Keeps, class Asked>
  static cudaError_t select(void* temp, size_t& bytes, In in, Out out, Count count, N n, Keeps keeps,
                            cudaStream_t stream, Line line, Asked asked) {
    return details::run(
        "cub::DeviceSelect", temp, bytes, 0, 1, stream, line,
        [=](unsigned, In in, Out out, Count count, Asked asked) {
          int64_t kept = 0;
          for (int64_t i = 0; i < static_cast<int64_t>(n); ++i)
            if (keeps(asked, i)) out[kept++] = in[i];
          *count = static_cast<details::ValueOf<Count>>(kept);
        },
        in, out, count, asked);
  }
};

struct DeviceRunLengthEncode {
  // Each run of equal items, and its length.
  template <class In, class Unique, class Lengths, class Count, class N>
  static cudaError_t Encode(void* temp, size_t& bytes, In in, Unique unique, Lengths lengths, Count runs, N n,
                            cudaStream_t stream = nullptr, Line line = {}) {
    return details::run(
        "cub::DeviceRunLengthEncode", temp, bytes, 0, 1, stream, line,
        [=](unsigned, In in, Unique unique, Lengths lengths, Count runs) {
          const auto end = static_cast<int64_t>(n);
          int64_t found = 0;
          for (int64_t i = 0; i < end; ++found) {
            const int64_t begin = i;
            const details::ValueOf<In> item = in[begin];
            for (++i; i < end && item == in[i];) ++i;
            unique[found] = item;
            lengths[found] = static_cast<details::ValueOf<Lengths>>(i - begin);
          }
          *runs = static_cast<details::ValueOf<Count>>(found);
        },
        in, unique, lengths, runs);
  }
};

// Samples outside of all bins count nowhere. There is one level more than bins.
struct DeviceHistogram {
  template <class In, class Counter, class Level, class N>
  static cudaError_t HistogramEven(void* temp, size_t& bytes, In in, Counter* counts, int levels, Level lower,
                                   Level upper, N n, cudaStream_t stream = nullptr, Line line = {}) {
    return details::run(
        "cub::DeviceHistogram", temp, bytes, 0, 1, stream, line,
        [=](unsigned, In in, Counter* counts) {
          const auto bin = [=](double sample) {
            const double width = (static_cast<double>(upper) - lower) / (levels - 1);
            return sample < lower || sample >= upper
                       ? -1
                       : ::std::min(static_cast<int>((sample - lower) / width), levels - 2);
          };
          count(in, counts, levels - 1, n, bin);
        },
        in, counts);
  }
  template <class In, class Counter, class Level, class N>
  static cudaError_t HistogramRange(void* temp, size_t& bytes, In in, Counter* counts, int levels, const Level* bounds,
                                    N n, cudaStream_t stream = nullptr, Line line = {}) {
    return details::run(
        "cub::DeviceHistogram", temp, bytes, 0, 1, stream, line,
        [=](unsigned, In in, Counter* counts, const Level* bounds) {
          const auto bin = [=](details::ValueOf<In> sample) {
            for (int i = levels - 1; i >= 0; --i)
              if (!(sample < bounds[i])) return i == levels - 1 ? -1 : i;
            return -1;
          };
          count(in, counts, levels - 1, n, bin);
        },
        in, counts, bounds);
  }

 private:
  template <class In, class Counter, class N, class Bin>
  static void count(In in, Counter* counts, int bins, N n, Bin bin) {
    for (int i = 0; i < bins; ++i) counts[i] = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(n); ++i) {
      const details::ValueOf<In> sample = in[i];
      if (const int at = bin(sample); at >= 0) ++counts[at];
    }
  }
};

class DeviceRadixSort {
 public:
  template <class K, class V, class N>
  static cudaError_t SortPairs(void* temp, size_t& bytes, const K* keys, K* sorted, const V* values, V* moved, N n,
                               int begin_bit = 0, int end_bit = sizeof(K) * 8, cudaStream_t stream = nullptr,
                               Line line = {}) {
    return sort<false>(temp, bytes, keys, sorted, values, moved, n, begin_bit, end_bit, stream, line);
  }
  template <class K, class V, class N>
  static cudaError_t SortPairsDescending(void* temp, size_t& bytes, const K* keys, K* sorted, const V* values, V* moved,
                                         N n, int begin_bit = 0, int end_bit = sizeof(K) * 8,
                                         cudaStream_t stream = nullptr, Line line = {}) {
    return sort<true>(temp, bytes, keys, sorted, values, moved, n, begin_bit, end_bit, stream, line);
  }
  template <class K, class N>
  static cudaError_t SortKeys(void* temp, size_t& bytes, const K* keys, K* sorted, N n, int begin_bit = 0,
                              int end_bit = sizeof(K) * 8, cudaStream_t stream = nullptr, Line line = {}) {
    return sort<false>(temp, bytes, keys, sorted, none, none, n, begin_bit, end_bit, stream, line);
  }
  template <class K, class N>
  static cudaError_t SortKeysDescending(void* temp, size_t& bytes, const K* keys, K* sorted, N n, int begin_bit = 0,
                                        int end_bit = sizeof(K) * 8, cudaStream_t stream = nullptr, Line line = {}) {
    return sort<true>(temp, bytes, keys, sorted, none, none, n, begin_bit, end_bit, stream, line);
  }
  // The alternate buffers become the current ones.
  template <class K, class V, class N>
  static cudaError_t SortPairs(void* temp, size_t& bytes, DoubleBuffer<K>& keys, DoubleBuffer<V>& values, N n,
                               int begin_bit = 0, int end_bit = sizeof(K) * 8, cudaStream_t stream = nullptr,
                               Line line = {}) {
    return swap<false>(temp, bytes, keys, values, n, begin_bit, end_bit, stream, line);
  }
  template <class K, class V, class N>
  static cudaError_t SortPairsDescending(void* temp, size_t& bytes, DoubleBuffer<K>& keys, DoubleBuffer<V>& values, N n,
                                         int begin_bit = 0, int end_bit = sizeof(K) * 8, cudaStream_t stream = nullptr,
                                         Line line = {}) {
    return swap<true>(temp, bytes, keys, values, n, begin_bit, end_bit, stream, line);
  }
  template <class K, class N>
  static cudaError_t SortKeys(void* temp, size_t& bytes, DoubleBuffer<K>& keys, N n, int begin_bit = 0,
                              int end_bit = sizeof(K) * 8, cudaStream_t stream = nullptr, Line line = {}) {
    DoubleBuffer<NullType> nothing;
    return swap<false>(temp, bytes, keys, nothing, n, begin_bit, end_bit, stream, line);
  }
  template <class K, class N>
  static cudaError_t SortKeysDescending(void* temp, size_t& bytes, DoubleBuffer<K>& keys, N n, int begin_bit = 0,
                                        int end_bit = sizeof(K) * 8, cudaStream_t stream = nullptr, Line line = {}) {
    DoubleBuffer<NullType> nothing;
    return swap<true>(temp, bytes, keys, nothing, n, begin_bit, end_bit, stream, line);
  }

 private:
  static constexpr NullType* none = nullptr;

  struct Item {
    uint64_t key;
    uint32_t number;
  };

  template <bool descending, class K, class V, class N>
  static cudaError_t sort(void* temp, size_t& bytes, const K* keys, K* sorted, const V* values, V* moved, N n,
                          int begin_bit, int end_bit, cudaStream_t stream, Line line) {
    const auto count = static_cast<uint32_t>(n);
    const uint64_t mask = end_bit - begin_bit >= 64 ? ~uint64_t{0} : (uint64_t{1} << (end_bit - begin_bit)) - 1;
    return details::run(
        "cub::DeviceRadixSort", temp, bytes, count * sizeof(Item), 1, stream, line,
        [=](unsigned, Item* order, const K* keys, K* sorted, const V* values, V* moved) {
          for (uint32_t i = 0; i < count; ++i) {
            const uint64_t key = details::radix_bits(keys[i]) >> begin_bit & mask;
            order[i] = {descending ? mask - key : key, i};
          }
          ::std::sort(order, order + count, [](const Item& a, const Item& b) {
            return a.key != b.key ? a.key < b.key : a.number < b.number;  // stable
          });
          for (uint32_t i = 0; i < count; ++i) {
            sorted[i] = keys[order[i].number];
            if constexpr (!std::is_same_v<V, NullType>) moved[i] = values[order[i].number];
          }
        },
        static_cast<Item*>(temp), keys, sorted, values, moved);
  }
  template <bool descending, class K, class V, class N>
  static cudaError_t swap(void* temp, size_t& bytes, DoubleBuffer<K>& keys, DoubleBuffer<V>& values, N n, int begin_bit,
                          int end_bit, cudaStream_t stream, Line line) {
    const cudaError_t error = sort<descending, K, V>(temp, bytes, keys.Current(), keys.Alternate(), values.Current(),
                                                     values.Alternate(), n, begin_bit, end_bit, stream, line);
    if (temp != nullptr && error == cudaSuccess) keys.selector ^= 1, values.selector ^= 1;
    return error;
  }
};

}  // namespace cub
