// cumsum: y[row, i] = Σ x[row, j] over j ≤ i, or over j ≥ i if `reverse` is set (this is the gradient), for `rows` rows
// of `columns` numbers.
//
// Rows of x begin `x_stride` elements apart; those of y are contiguous. x is read and y written once: 2·sizeof(T) bytes
// an element; 12 for int32, whose sums are int64.
//
// A row is cut into tiles. The threads of a tile scan it in registers, and add the sum of all tiles before it.
// cumsum_rows_kernel: for many rows. A warp or a block walks along its row and carries that sum along. The loads of the
// next tile are in flight while one is scanned. cumsum_tiles_kernel: for few rows. Blocks claim tiles of all rows, and
// find that sum by looking back at what earlier tiles have published (Merrill and Garland, "Single-pass Parallel Prefix
// Scan with Decoupled Look-back", 2016).
#pragma once

#include <trifold/packed.cuh>
#include <trifold/reduce.cuh>

// Threads per block: of cumsum_rows_kernel, and of cumsum_tiles_kernel, which looks back once per tile: with fewer and
// larger tiles that costs less.
inline constexpr int cumsum_block = trifold::threads_per_block;
inline constexpr int tiles_block = 2 * cumsum_block;
inline constexpr int numbers_a_thread = 16;

// The size of a tile: how many numbers this many threads hold at once.
template <int threads>
inline constexpr int tile_of = threads * numbers_a_thread;

// For each type of x: the type of y, the type in which a tile is summed, and the type of the sum that is carried from
// tile to tile. The last is wider, so that the error does not grow with the number of tiles. Integers wrap around.
template <class T>
struct CumsumTypes {
  using Result = T;
  using Sum = trifold::compute_t<T>;
  using Carry = double;
};
struct IntegerCumsumTypes {
  using Result = int64_t;
  using Sum = uint64_t;
  using Carry = uint64_t;
};
template <>
struct CumsumTypes<int64_t> : IntegerCumsumTypes {};
template <>
struct CumsumTypes<int32_t> : IntegerCumsumTypes {};
template <class T>
using result_t = typename CumsumTypes<T>::Result;
template <class T>
using sum_t = typename CumsumTypes<T>::Sum;
template <class T>
using carry_t = typename CumsumTypes<T>::Carry;

// The least number of blocks per multiprocessor, which limits the registers of a thread: wide sums need twice as many.
template <class T>
inline constexpr int tile_blocks_a_multiprocessor = sizeof(sum_t<T>) > 4 ? 1 : 2;

// Here a thread holds the numbers of two tiles, one of them as loaded, and for V = 1 their positions too.
template <class T, int V>
inline constexpr int row_blocks_a_multiprocessor = sizeof(sum_t<T>) > 4 ? (V == 1 ? 1 : 2)
                                                   : V == 1             ? 2
                                                   : sizeof(T) > 2      ? 3
                                                                        : 4;

// V numbers, moved by one load or store. A row consists of such pieces if V divides its length and it begins at a
// 16-byte boundary; other rows use V = 1.
template <class T, int V>
struct alignas(V > 1 ? 16 : alignof(T)) Piece {
  T value[V];

  // In stores of 16 bytes: for an assignment, nvcc (13.0) emits a store per number.
  __device__ __forceinline__ void store_if(bool condition, T* to) const {
    if constexpr (V > 1) {
      trifold::Packed<T> packed[sizeof value / trifold::vector_bytes];
      memcpy(packed, value, sizeof value);
#pragma unroll
      for (const trifold::Packed<T>& each : packed) {
        trifold::write_if(condition, to, each);
        to += each.size;
      }
    } else if (condition) {
      *to = value[0];
    }
  }
};

// The positions of a thread's pieces of a tile in their row. A warp has a contiguous range of numbers, and reads it V
// numbers per lane at a time, so that its loads and stores cover whole lines.
template <int V>
struct PiecesAt {
  int64_t column;  // of the first piece
  int step;        // from one piece to the next
  int left;        // numbers of the row from the first piece on, in the direction of the scan

  __device__ __forceinline__ bool has(int k) const { return k * trifold::warp_threads * V < left; }
};

// For the tile that begins at position `first` of the scan.
template <int team, int V>
__device__ __forceinline__ PiecesAt<V> pieces_at(int64_t first, int64_t columns, bool reverse) {
  constexpr int apart = trifold::warp_threads * V;
  const int thread = static_cast<int>(threadIdx.x) % team, lane = thread % trifold::warp_threads;
  const int64_t position = first + (thread - lane) * numbers_a_thread + lane * V, left = columns - position;
  return {reverse ? left - V : position, reverse ? -apart : apart,
          left < tile_of<team> ? static_cast<int>(left) : tile_of<team>};
}

// A thread's part of a tile as loaded from memory, so that loads are in flight while the thread works on another tile.
template <class T, int V>
struct Loaded {
  static constexpr int pieces = numbers_a_thread / V;
  // Half types stay packed.
  using Own = std::conditional_t<(V > 1 && sizeof(T) < sizeof(double)), trifold::Packed<T>, Piece<T, V>>;
  Own piece[pieces];

  // Loads from a row in which the team's tile begins at position `first`; 0 beyond the row's end.
  template <int team>
  __device__ __forceinline__ void load(const T* row, int64_t first, int64_t columns, bool reverse) {
    const PiecesAt<V> at = pieces_at<team, V>(first, columns, reverse);
    const T* const begin = row + at.column;
#pragma unroll
    for (int k = 0; k < pieces; ++k) {
      piece[k] = {};
      if (at.has(k)) piece[k] = *reinterpret_cast<const Own*>(begin + k * at.step);
    }
  }

  __device__ __forceinline__ T get(int k, int j) const {
    if constexpr (std::is_same_v<Own, Piece<T, V>>) {
      return piece[k].value[j];
    } else {
      return piece[k].get(j);
    }
  }
};

// The same numbers in the type of the sums.
template <class T, int V>
struct Share {
  static constexpr int pieces = numbers_a_thread / V;
  using Sum = sum_t<T>;
  Sum value[pieces][V];

  __device__ __forceinline__ Share(const Loaded<T, V>& from, bool reverse) {
#pragma unroll
    for (int k = 0; k < pieces; ++k) {
#pragma unroll
      for (int j = 0; j < V; ++j) value[k][j] = Sum(from.get(k, reverse ? V - 1 - j : j));
    }
  }

  // Stores to a row, with `before` added to each number.
  template <int team>
  __device__ __forceinline__ void store(result_t<T>* row, int64_t first, int64_t columns, bool reverse,
                                        Sum before) const {
    using Result = result_t<T>;
    const PiecesAt<V> at = pieces_at<team, V>(first, columns, reverse);
    Result* const begin = row + at.column;
#pragma unroll
    for (int k = 0; k < pieces; ++k) {
      Piece<Result, V> piece;
#pragma unroll
      for (int j = 0; j < V; ++j) piece.value[j] = Result(value[k][reverse ? V - 1 - j : j] + before);
      piece.store_if(at.has(k), begin + k * at.step);
    }
  }

  // Replaces the warp's numbers by their prefix sums; returns the total. Nothing is ever subtracted: with an infinity,
  // that would turn earlier sums into nan.
  __device__ __forceinline__ Sum scan() {
    constexpr unsigned all = 0xffffffffu;
    const int lane = static_cast<int>(threadIdx.x) % trifold::warp_threads;
    Sum before = 0;  // of the pieces so far
#pragma unroll
    for (int k = 0; k < pieces; ++k) {
#pragma unroll
      for (int j = 1; j < V; ++j) value[k][j] += value[k][j - 1];
      Sum inclusive = value[k][V - 1];
#pragma unroll
      for (int distance = 1; distance < trifold::warp_threads; distance *= 2) {
        const Sum left = __shfl_up_sync(all, inclusive, distance);
        if (lane >= distance) inclusive += left;
      }
      const Sum left = __shfl_up_sync(all, inclusive, 1);
      const Sum exclusive = before + (lane > 0 ? left : Sum(0));
#pragma unroll
      for (int j = 0; j < V; ++j) value[k][j] += exclusive;
      before += __shfl_sync(all, inclusive, trifold::warp_threads - 1);
    }
    return before;
  }
};

// Sums over a team's tile: of the warps before this thread's, and of all.
template <class Sum>
struct TileSums {
  Sum before, total;
};

// Scans a tile, each warp's numbers separately. Called by all threads of the team, a warp or the block. For a block it
// ends with a barrier.
template <int team, class T, int V>
__device__ __forceinline__ TileSums<sum_t<T>> team_scan(Share<T, V>& share) {
  using Sum = sum_t<T>;
  const Sum own = share.scan();
  if constexpr (team == trifold::warp_threads) {
    return {Sum(0), own};
  } else {
    constexpr int warps = team / trifold::warp_threads;
    __shared__ Sum of_warp[warps];
    const int warp = static_cast<int>(threadIdx.x) / trifold::warp_threads;
    if (threadIdx.x % trifold::warp_threads == trifold::warp_threads - 1) of_warp[warp] = own;
    __syncthreads();
    TileSums<Sum> sums{};
#pragma unroll
    for (int other = 0; other < warps; ++other) {
      if (other == warp) sums.before = sums.total;
      sums.total += of_warp[other];
    }
    __syncthreads();
    return sums;
  }
}

// A team of threads, a warp or the block, walks along its row.
template <class T, int V, int team>
__global__ void __launch_bounds__(cumsum_block, row_blocks_a_multiprocessor<T, V>)
    cumsum_rows_kernel(const T* x, int64_t x_stride, result_t<T>* y, int64_t rows, int64_t columns, bool reverse) {
  constexpr int teams = cumsum_block / team;
  trifold::wait_for_earlier_kernels();
  const int64_t step = static_cast<int64_t>(gridDim.x) * teams;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * teams + threadIdx.x / team; row < rows; row += step) {
    const T* const in = x + row * x_stride;
    carry_t<T> carry = 0;
    Loaded<T, V> next;
    next.template load<team>(in, 0, columns, reverse);
    for (int64_t first = 0; first < columns; first += tile_of<team>) {
      Share<T, V> share(next, reverse);
      if (const int64_t then = first + tile_of<team>; then < columns)
        next.template load<team>(in, then, columns, reverse);
      const auto sums = team_scan<team>(share);
      share.template store<team>(y + row * columns, first, columns, reverse, sum_t<T>(carry) + sums.before);
      carry += carry_t<T>(sums.total);
    }
  }
}

// ---------------------------------------------------------------------------------------------------- look-back

// The states of a tile: nothing, its own sum, or the sum of its row up to its end has been published.
enum TileState : int { nothing, aggregate, prefix };

// Tile n belongs to row n % rows, so that the tile before it in its row is n - rows: the more rows, the earlier that
// one was claimed.
template <class Carry>
struct Tiles {
  int* states;                   // one per tile
  Carry *aggregates, *prefixes;  // one per tile; written once, before the state says so
  int* claimed;                  // number of tiles claimed by blocks

  static __device__ __forceinline__ void publish(int* state, Carry* to, Carry value, TileState says) {
    *to = value;
    __threadfence();
    atomicExch(state, says);
  }
};

// One thread per state; the counter of claimed tiles comes last.
__global__ void cumsum_reset_kernel(int* states, int64_t n) {
  trifold::wait_for_earlier_kernels();
  if (const int64_t i = trifold::thread_index(); i < n) states[i] = nothing;
}

// How many windows of 32 tiles a warp reads at once as it looks back further than the nearest 32.
inline constexpr int look_back_windows = 4;

// The sum of the row's tiles before this one, computed by one warp. Tiles of a row are `apart`. The row's first tile
// publishes its prefix without looking back, so the search ends there at the latest.
template <class Carry>
__device__ __forceinline__ Carry sum_before(int64_t tile, int64_t apart, const Tiles<Carry>& tiles) {
  constexpr unsigned all = 0xffffffffu;
  constexpr int lanes = trifold::warp_threads;
  const volatile int* const states = tiles.states;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  // Backwards to the nearest tile whose prefix is published.
  int64_t back = 0;
  unsigned known = 0;
  while (known == 0) {
    const int64_t last = tile - (back + 1 + lane) * apart;
    const int windows = back == 0 ? 1 : look_back_windows;
    int state[look_back_windows];
#pragma unroll
    for (int k = 0; k < look_back_windows; ++k) {
      const int64_t other = last - k * lanes * apart;
      state[k] = k < windows && other >= 0 ? states[other] : aggregate;
    }
    bool waits = false;
#pragma unroll
    for (int k = 0; k < look_back_windows; ++k) {
      if (k == windows || known != 0 || waits) break;
      known = __ballot_sync(all, state[k] == prefix);
      const unsigned missing = __ballot_sync(all, state[k] == nothing);
      const unsigned nearer = known != 0 ? (known & -known) - 1 : all;
      waits = (missing & nearer) != 0;
      if (waits)
        known = 0;
      else if (known == 0)
        back += lanes;
    }
    if (waits) __nanosleep(20);
  }
  __threadfence();
  // Orders a lane's reads after another lane's reads of the states.
  __syncwarp();
  const int64_t count = back + __ffs(static_cast<int>(known)) - 1;  // tiles after the nearest one
  const int64_t nearest = tile - (count + 1) * apart;
  // Forwards: the same additions whichever tile was the nearest, so that the bits do not depend on timing.
  Carry total = tiles.prefixes[nearest];
  for (int64_t first = 1; first <= count; first += look_back_windows * lanes) {
    Carry own[look_back_windows];
#pragma unroll
    for (int k = 0; k < look_back_windows; ++k) {
      const int64_t other = first + k * lanes + lane;
      own[k] = other <= count ? tiles.aggregates[nearest + other * apart] : Carry(0);
    }
#pragma unroll
    for (int k = 0; k < look_back_windows; ++k) {
      if (first + k * lanes > count) break;
#pragma unroll
      for (int i = 0; i < lanes; ++i) total += __shfl_sync(all, own[k], i);
    }
  }
  return total;
}

// Blocks claim tiles in increasing order, so that a tile waits only for tiles that running blocks have claimed, however
// few blocks are resident. Tile numbers interleave the `rows` rows, as described at Tiles.
template <class T, int V>
__global__ void __launch_bounds__(tiles_block, tile_blocks_a_multiprocessor<T>)
    cumsum_tiles_kernel(const T* x, int64_t x_stride, result_t<T>* y, int64_t rows, int64_t columns, bool reverse,
                        int* states, carry_t<T>* aggregates, carry_t<T>* prefixes, int* claimed) {
  using Carry = carry_t<T>;
  constexpr int team = tiles_block;
  __shared__ int claim;
  __shared__ Carry carry;
  trifold::wait_for_earlier_kernels();
  const Tiles<Carry> tiles{states, aggregates, prefixes, claimed};
  const int64_t count = rows * ((columns + tile_of<team> - 1) / tile_of<team>);
  while (true) {
    if (threadIdx.x == 0) claim = atomicAdd(tiles.claimed, 1);
    __syncthreads();
    const int64_t tile = claim;
    if (tile >= count) return;
    const int64_t row = tile % rows, first = tile / rows * tile_of<team>;
    Loaded<T, V> loaded;
    loaded.template load<team>(x + row * x_stride, first, columns, reverse);
    Share<T, V> share(loaded, reverse);
    const auto sums = team_scan<team>(share);
    if (threadIdx.x < trifold::warp_threads) {
      const Carry total(sums.total);
      Carry earlier = 0;
      if (tile >= rows) {
        if (threadIdx.x == 0) tiles.publish(&states[tile], &aggregates[tile], total, aggregate);
        earlier = sum_before(tile, rows, tiles);
      }
      if (threadIdx.x == 0) {
        tiles.publish(&states[tile], &prefixes[tile], earlier + total, prefix);
        carry = earlier;
      }
    }
    __syncthreads();
    share.template store<team>(y + row * columns, first, columns, reverse, sum_t<T>(carry) + sums.before);
  }
}
