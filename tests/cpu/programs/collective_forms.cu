// Each form of CUB's collectives, with asserted results: threads and items are numbered, so that sums are formulas.
#undef NDEBUG
#include <cub/block/block_shuffle.cuh>
#include <cub/cub.cuh>

#include <cassert>
#include <cstdio>

#include <cuda/functional>
#include <cuda/std/functional>

#include "check.h"

constexpr int threads = 96, items = 3, tile = threads * items;
using Plus = cuda::std::plus<>;
using Most = cuda::maximum<>;

__device__ int sum_to(int n) {
  return n * (n + 1) / 2;
}

struct Start {
  __device__ int operator()(int aggregate) const { return aggregate; }
};

template <cub::BlockScanAlgorithm algorithm>
__global__ void scans() {
  using Scan = cub::BlockScan<int, threads, algorithm>;
  __shared__ typename Scan::TempStorage temp;
  const int t = threadIdx.x, all = sum_to(tile - 1);
  int out, total, own[items], outs[items];
  Start start;
  for (int i = 0; i < items; ++i) own[i] = t * items + i;
  const auto next = [&] { __syncthreads(); };
  const auto is = [&](int first, int others) {  // of each item: what its exclusive, or inclusive, sum is more than
    for (int i = 0; i < items; ++i) assert(outs[i] == first + sum_to(own[i] + others));
  };
  Scan scan(temp);
  scan.ExclusiveSum(1, out), assert(out == t), next();
  scan.ExclusiveSum(1, out, total), assert(out == t && total == threads), next();
  scan.ExclusiveSum(1, out, start), assert(out == threads + t), next();
  scan.ExclusiveSum(own, outs), is(0, -1), next();
  scan.ExclusiveSum(own, outs, total), is(0, -1), assert(total == all), next();
  scan.ExclusiveSum(own, outs, start), is(all, -1), next();
  scan.ExclusiveScan(t, out, 7, Most()), assert(out == max(7, t - 1)), next();
  scan.ExclusiveScan(t, out, 7, Most(), total), assert(out == max(7, t - 1) && total == threads - 1), next();
  scan.ExclusiveScan(t, out, Most()), assert(t == 0 || out == t - 1), next();
  scan.ExclusiveScan(t, out, Most(), total), assert((t == 0 || out == t - 1) && total == threads - 1), next();
  scan.ExclusiveScan(t, out, Most(), start), assert(out == threads - 1), next();
  scan.ExclusiveScan(own, outs, 5, Plus()), is(5, -1), next();
  scan.ExclusiveScan(own, outs, 5, Plus(), total), is(5, -1), assert(total == all), next();
  scan.ExclusiveScan(own, outs, Plus(), start), is(all, -1), next();
  scan.ExclusiveScan(own, outs, Plus()), assert(outs[1] == sum_to(own[0])), next();
  scan.ExclusiveScan(own, outs, Plus(), total), assert(outs[1] == sum_to(own[0]) && total == all), next();
  scan.InclusiveSum(1, out), assert(out == t + 1), next();
  scan.InclusiveSum(1, out, total), assert(out == t + 1 && total == threads), next();
  scan.InclusiveSum(1, out, start), assert(out == threads + t + 1), next();
  scan.InclusiveSum(own, outs), is(0, 0), next();
  scan.InclusiveSum(own, outs, total), is(0, 0), assert(total == all), next();
  scan.InclusiveSum(own, outs, start), is(all, 0), next();
  scan.InclusiveScan(-t, out, Most()), assert(out == 0), next();
  scan.InclusiveScan(t, out, Most(), total), assert(out == t && total == threads - 1), next();
  scan.InclusiveScan(1, out, Plus(), start), assert(out == threads + t + 1), next();
  scan.InclusiveScan(own, outs, Plus()), is(0, 0), next();
  scan.InclusiveScan(own, outs, 9, Plus()), is(9, 0), next();
  scan.InclusiveScan(own, outs, Plus(), total), is(0, 0), assert(total == all), next();
  scan.InclusiveScan(own, outs, 9, Plus(), total), is(9, 0), assert(total == all), next();
  scan.InclusiveScan(own, outs, Plus(), start), is(all, 0), next();
}

template <cub::BlockReduceAlgorithm algorithm>
__global__ void reductions() {
  using Reduce = cub::BlockReduce<int, threads, algorithm>;
  const int t = threadIdx.x;
  int own[items];
  for (int i = 0; i < items; ++i) own[i] = t * items + i;
  const auto is = [&](int value, int wanted) { assert(t != 0 || value == wanted), __syncthreads(); };
  is(Reduce().Sum(t), sum_to(threads - 1));
  is(Reduce().Sum(own), sum_to(tile - 1));
  for (const int valid : {1, 31, 32, 33, 95, 96}) {
    is(Reduce().Sum(t, valid), sum_to(valid - 1));
    is(Reduce().Reduce(t, Most(), valid), valid - 1);
  }
  is(Reduce().Reduce(t, Most()), threads - 1);
  is(Reduce().Reduce(own, Most()), tile - 1);
}

template <int width>
__global__ void warps() {
  using Reduce = cub::WarpReduce<int, width>;
  using Scan = cub::WarpScan<int, width>;
  __shared__ typename Reduce::TempStorage reduce_temp[threads / width];
  __shared__ typename Scan::TempStorage scan_temp[threads / width];
  const int warp = threadIdx.x / width, lane = threadIdx.x % width;
  if (width == 24 && threadIdx.x >= width) return;  // such warps begin where a whole warp does
  Reduce reduce(reduce_temp[warp]);
  Scan scan(scan_temp[warp]);
  int out, other, total;
  const auto first = [&](int value, int wanted) { assert(lane != 0 || value == wanted); };
  first(reduce.Sum(lane), sum_to(width - 1));
  first(reduce.Sum(lane, 5), 10);
  first(reduce.Reduce(lane, Most()), width - 1);
  first(reduce.Reduce(lane, Most(), 3), 2);
  first(reduce.HeadSegmentedSum(1, lane == 6), 6);
  first(reduce.TailSegmentedSum(1, lane == 6), 7);
  first(reduce.HeadSegmentedReduce(lane, lane == 6, Most()), 5);
  first(reduce.TailSegmentedReduce(lane, lane == 6, Most()), 6);
  scan.InclusiveSum(1, out), assert(out == lane + 1);
  scan.InclusiveSum(1, out, total), assert(out == lane + 1 && total == width);
  scan.ExclusiveSum(1, out), assert(out == lane);
  scan.ExclusiveSum(1, out, total), assert(out == lane && total == width);
  scan.InclusiveScan(lane, out, Most()), assert(out == lane);
  scan.InclusiveScan(lane, out, 4, Most()), assert(out == max(4, lane));
  scan.InclusiveScan(lane, out, Most(), total), assert(out == lane && total == width - 1);
  scan.ExclusiveScan(lane, out, Most()), assert(lane == 0 || out == lane - 1);
  scan.ExclusiveScan(lane, out, 4, Most()), assert(out == max(4, lane - 1));
  scan.ExclusiveScan(lane, out, Most(), total), assert((lane == 0 || out == lane - 1) && total == width - 1);
  scan.ExclusiveScan(lane, out, 4, Most(), total), assert(out == max(4, lane - 1) && total == width - 1);
  scan.Scan(1, out, other, Plus()), assert(out == lane + 1 && (lane == 0 || other == lane));
  scan.Scan(1, out, other, 10, Plus()), assert(out == lane + 11 && other == lane + 10);
  assert(scan.Broadcast(lane, 3) == 3);
}

__device__ int warp_striped(int t, int i) {
  return t / 32 * 32 * items + i * 32 + t % 32;
}
__global__ void exchanges() {
  using Exchange = cub::BlockExchange<int, threads, items>;
  __shared__ typename Exchange::TempStorage temp;
  const int t = threadIdx.x;
  int blocked[items], striped[items], of_warps[items], out[items], reversed[items], ranks[items];
  bool valid[items];
  for (int i = 0; i < items; ++i) {
    blocked[i] = t * items + i, striped[i] = i * threads + t, of_warps[i] = warp_striped(t, i);
    reversed[i] = tile - 1 - blocked[i], valid[i] = blocked[i] % 2 == 0, ranks[i] = valid[i] ? reversed[i] : -1;
  }
  const auto is = [&](const int (&wanted)[items]) {
    for (int i = 0; i < items; ++i) assert(out[i] == wanted[i]);
    __syncthreads();
  };
  Exchange exchange(temp);
  exchange.StripedToBlocked(striped, out), is(blocked);
  exchange.BlockedToStriped(blocked, out), is(striped);
  exchange.WarpStripedToBlocked(of_warps, out), is(blocked);
  exchange.BlockedToWarpStriped(blocked, out), is(of_warps);
  exchange.ScatterToBlocked(blocked, out, reversed), is(reversed);
  exchange.ScatterToStriped(reversed, out, reversed), is(striped);
  exchange.ScatterToStripedGuarded(blocked, out, ranks);
  for (int i = 0; i < items; ++i) assert(striped[i] % 2 == 0 || out[i] == tile - 1 - striped[i]);
  __syncthreads();
  exchange.ScatterToStripedFlagged(blocked, out, reversed, valid);
  for (int i = 0; i < items; ++i) assert(striped[i] % 2 == 0 || out[i] == tile - 1 - striped[i]);
  __syncthreads();
  for (int i = 0; i < items; ++i) out[i] = blocked[i];
  exchange.BlockedToStriped(out), is(striped);
}

template <int algorithm>
__global__ void moves(int* memory) {
  using Load = cub::BlockLoad<int, threads, items, static_cast<cub::BlockLoadAlgorithm>(algorithm)>;
  using Store = cub::BlockStore<int, threads, items, static_cast<cub::BlockStoreAlgorithm>(algorithm)>;
  __shared__ typename Load::TempStorage load_temp;
  __shared__ typename Store::TempStorage store_temp;
  const int t = threadIdx.x, valid = tile - 50;
  int own[items];
  cub::StoreDirectStriped<threads>(t, memory, (own[0] = t, own[1] = t + threads, own[2] = t + 2 * threads, own));
  __syncthreads();
  const auto at = [&](int i) { return algorithm == cub::BLOCK_LOAD_STRIPED ? i * threads + t : t * items + i; };
  Load load(load_temp);
  load.Load(memory, own);
  for (int i = 0; i < items; ++i) assert(own[i] == at(i));
  __syncthreads();
  load.Load(cub::CacheModifiedInputIterator<cub::LOAD_LDG, int>(memory), own, valid, -1);
  for (int i = 0; i < items; ++i) assert(own[i] == (at(i) < valid ? at(i) : -1)), own[i] = 2 * at(i);
  __syncthreads();
  Store store(store_temp);
  store.Store(memory, own, valid);
  __syncthreads();
  for (int i = t; i < tile; i += threads) assert(memory[i] == (i < valid ? 2 * i : i));
  for (int i = 0; i < items; ++i) own[i] = 3 * at(i);
  store.Store(memory + tile, own);
  __syncthreads();
  for (int i = t; i < tile; i += threads) assert(memory[tile + i] == 3 * i);
  load.Load(memory, own, valid);
}

template <class Key, int radix_bits>
__global__ void sorts() {
  using Sort = cub::BlockRadixSort<Key, threads, items, short, radix_bits>;
  using Keys = cub::BlockRadixSort<Key, threads, items>;
  __shared__ typename Sort::TempStorage temp;
  __shared__ typename Keys::TempStorage keys_temp;
  __shared__ double sorted[tile];
  const int t = threadIdx.x;
  Key keys[items];
  short values[items];
  const auto value_at = [](int place) { return static_cast<Key>((place * 91 % tile - 40) / 2); };
  const auto fill = [&] {
    __syncthreads();
    for (int i = 0; i < items; ++i) values[i] = t * items + i, keys[i] = value_at(values[i]);
  };
  const auto is_sorted = [&](bool descending, bool striped, bool has_values) {
    for (int i = 0; i < items; ++i) {
      assert(!has_values || value_at(values[i]) == keys[i]);
      sorted[striped ? i * threads + t : t * items + i] = static_cast<double>(keys[i]);
    }
    __syncthreads();
    for (int i = t + 1; i < tile; i += threads)
      assert(descending ? sorted[i - 1] >= sorted[i] : sorted[i - 1] <= sorted[i]);
    fill();
  };
  fill();
  Sort sort(temp);
  Keys sort_keys(keys_temp);
  sort.Sort(keys, values), is_sorted(false, false, true);
  sort.SortDescending(keys, values), is_sorted(true, false, true);
  sort.SortBlockedToStriped(keys, values), is_sorted(false, true, true);
  sort.SortDescendingBlockedToStriped(keys, values), is_sorted(true, true, true);
  sort_keys.Sort(keys), is_sorted(false, false, false);
  sort_keys.SortDescending(keys), is_sorted(true, false, false);
  sort_keys.SortBlockedToStriped(keys), is_sorted(false, true, false);
  sort_keys.SortDescendingBlockedToStriped(keys), is_sorted(true, true, false);
}

__global__ void neighbours() {
  using Flags = cub::BlockDiscontinuity<int, threads>;
  using Difference = cub::BlockAdjacentDifference<int, threads>;
  using Shuffle = cub::BlockShuffle<int, threads>;
  const int t = threadIdx.x, last = threads - 1;
  int own[items], heads[items], tails[items], out[items], side;
  for (int i = 0; i < items; ++i) own[i] = (t * items + i) / 2;
  const auto differ = cuda::std::not_equal_to<>();
  const auto flags = [&](bool has_heads, bool first, bool has_tails, bool end) {
    for (int i = 0; i < items; ++i) {
      const int at = t * items + i;
      assert(!has_heads || heads[i] == (at == 0 ? first : at % 2 == 0));
      assert(!has_tails || tails[i] == (at == tile - 1 ? end : at % 2 == 1));
    }
    __syncthreads();
  };
  Flags().FlagHeads(heads, own, differ), flags(true, true, false, false);
  Flags().FlagHeads(heads, own, differ, 0), flags(true, false, false, false);
  Flags().FlagTails(tails, own, differ), flags(false, false, true, true);
  Flags().FlagTails(tails, own, differ, (tile - 1) / 2), flags(false, false, true, false);
  Flags().FlagHeadsAndTails(heads, tails, own, differ), flags(true, true, true, true);
  Flags().FlagHeadsAndTails(heads, tails, (tile - 1) / 2, own, differ), flags(true, true, true, false);
  Flags().FlagHeadsAndTails(heads, 0, tails, own, differ), flags(true, false, true, true);
  Flags().FlagHeadsAndTails(heads, 0, tails, (tile - 1) / 2, own, differ), flags(true, false, true, false);
  const auto minus = cuda::std::minus<>();
  const auto differences = [&](int sign, int valid, int first, int end) {
    for (int i = 0; i < items; ++i) {
      const int at = t * items + i, rise = sign * (sign > 0 ? at % 2 == 0 : at % 2 == 1);
      const bool plain = at >= valid || (sign < 0 && at == valid - 1);
      assert(out[i] == (sign > 0 && at == 0 ? first : plain ? (at == tile - 1 ? end : own[i]) : rise));
    }
    __syncthreads();
  };
  const int top = (tile - 1) / 2;
  Difference().SubtractLeft(own, out, minus), differences(1, tile, 0, top);
  Difference().SubtractLeft(own, out, minus, 8), differences(1, tile, -8, top);
  Difference().SubtractLeftPartialTile(own, out, minus, 100), differences(1, 100, 0, top);
  Difference().SubtractLeftPartialTile(own, out, minus, 100, 8), differences(1, 100, -8, top);
  Difference().SubtractRight(own, out, minus), differences(-1, tile, 0, top);
  Difference().SubtractRight(own, out, minus, 8), differences(-1, tile, 0, top - 8);
  Difference().SubtractRightPartialTile(own, out, minus, 100), differences(-1, 100, 0, top);
  side = -1;
  Shuffle().Offset(t, side), assert(side == (t == last ? -1 : t + 1)), __syncthreads();
  Shuffle().Offset(t, side, -2), assert(side == (t < 2 ? t + 1 : t - 2)), __syncthreads();
  Shuffle().Rotate(t, side, 7), assert(side == (t + 7) % threads), __syncthreads();
  Shuffle().Up(own, out, side), assert(side == top && out[1] == own[0]), __syncthreads();
  Shuffle().Down(own, out, side), assert(side == 0 && out[0] == own[1]), __syncthreads();
  Shuffle().Up(own, out), assert(t == 0 || out[0] == (t * items - 1) / 2), __syncthreads();
  Shuffle().Down(own, out), assert(t == last || out[2] == (t * items + 3) / 2);
}

__global__ void counts() {
  using Sorts = cub::BlockHistogram<int, threads, items, 12>;
  __shared__ int bins[12];
  const int t = threadIdx.x;
  int own[items];
  for (int i = 0; i < items; ++i) own[i] = (t * items + i) % 12;
  Sorts().Histogram(own, bins);
  __syncthreads();
  assert(bins[t % 12] == tile / 12);
  __syncthreads();
  Sorts().Composite(own, bins);
  __syncthreads();
  assert(bins[t % 12] == 2 * tile / 12);
}

int main() {
  int* memory;
  CHECK(cudaMalloc(&memory, 2 * tile * sizeof(int)));
  scans<cub::BLOCK_SCAN_RAKING><<<1, threads>>>();
  scans<cub::BLOCK_SCAN_WARP_SCANS><<<1, threads>>>();
  reductions<cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY><<<1, threads>>>();
  reductions<cub::BLOCK_REDUCE_RAKING><<<1, threads>>>();
  reductions<cub::BLOCK_REDUCE_WARP_REDUCTIONS><<<1, threads>>>();
  warps<32><<<1, threads>>>();
  warps<8><<<1, threads>>>();
  warps<24><<<1, threads>>>();
  exchanges<<<1, threads>>>();
  moves<cub::BLOCK_LOAD_DIRECT><<<1, threads>>>(memory);
  moves<cub::BLOCK_LOAD_STRIPED><<<1, threads>>>(memory);
  moves<cub::BLOCK_LOAD_VECTORIZE><<<1, threads>>>(memory);
  moves<cub::BLOCK_LOAD_TRANSPOSE><<<1, threads>>>(memory);
  moves<cub::BLOCK_LOAD_WARP_TRANSPOSE><<<1, threads>>>(memory);
  moves<cub::BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED><<<1, threads>>>(memory);
  sorts<int, 4><<<1, threads>>>();
  sorts<float, 5><<<1, threads>>>();
  sorts<short, 3><<<1, threads>>>();
  neighbours<<<1, threads>>>();
  counts<<<1, threads>>>();
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(memory));
  printf("right\n");
}
