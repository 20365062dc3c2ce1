// Rows that a team of threads holds in registers, so that each element is read once and written once.
//
// A team is a warp, a block, or the blocks of a cluster (sm_90 on), by the length of the row. Thread t of a team of n
// has the pieces t, t + n, t + 2n, … of its row, V at most, of E elements each: 16 bytes where all rows begin at
// 16-byte boundaries, one element elsewhere. On the CPU there are warps and blocks.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/reduce.cuh>

#if defined(__CUDACC__) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
#define TRIFOLD_CLUSTERS
#include <cooperative_groups.h>
#endif

namespace trifold {

enum class Team { warp, block, cluster };

// Threads in a block of a kernel whose teams are warps.
inline constexpr int block_of_warps = 128;
// A row longer than what one block's threads hold is a cluster's; so many blocks are in one on every GPU that has them.
inline constexpr int most_blocks_a_cluster = 8;

// Which row a thread's team has, and the thread's place in that team.
struct TeamPlace {
  int64_t row;
  int thread, threads;
};

template <Team team>
__device__ __forceinline__ TeamPlace team_place() {
  const int x = static_cast<int>(threadIdx.x), block = static_cast<int>(blockDim.x);
  if constexpr (team == Team::warp) {
    return {blockIdx.x * int64_t{block_of_warps / warp_threads} + x / warp_threads, x % warp_threads, warp_threads};
  } else if constexpr (team == Team::block) {
    return {blockIdx.x, x, block};
  } else {
#ifdef TRIFOLD_CLUSTERS
    const auto cluster = cooperative_groups::this_cluster();
    const int blocks = static_cast<int>(cluster.num_blocks());
    return {blockIdx.x / blocks, static_cast<int>(cluster.block_rank()) * block + x, blocks * block};
#endif
  }
}

// What a kernel of teams begins with: its place, once earlier kernels have ended. A block's shared memory is there for
// others of its cluster once it has begun; the first reduction waits for that.
template <Team team>
__device__ __forceinline__ TeamPlace begin_in_team() {
  const TeamPlace at = team_place<team>();
#ifdef TRIFOLD_CLUSTERS
  if constexpr (team == Team::cluster) asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
  wait_for_earlier_kernels();
  return at;
}

// The values of a team's threads, combined; every thread gets the result, the same bit for bit. `neutral` changes no
// value that it is combined with. `number` counts the kernel's reductions from 0: each has shared memory of its own, so
// one barrier is enough. A kernel calls each of them once.
template <Team team, int number, class T, class Combine>
__device__ __forceinline__ T team_reduce(T value, T neutral, Combine combine) {
  value = warp_reduce(value, combine);
  if constexpr (team == Team::warp) return value;
  const int warp = static_cast<int>(threadIdx.x) / warp_threads, lane = static_cast<int>(threadIdx.x) % warp_threads;
  const int warps = static_cast<int>(blockDim.x) / warp_threads;
  if constexpr (team == Team::block) {
    if (warps == 1) return value;
    __shared__ T of_warp[1024 / warp_threads];
    if (lane == 0) of_warp[warp] = value;
    __syncthreads();
    value = lane < warps ? of_warp[lane] : neutral;
  } else if constexpr (team == Team::cluster) {
#ifdef TRIFOLD_CLUSTERS
    __shared__ T of_warp[most_blocks_a_cluster * 1024 / warp_threads];
    const auto cluster = cooperative_groups::this_cluster();
    const int blocks = static_cast<int>(cluster.num_blocks()), rank = static_cast<int>(cluster.block_rank());
    if constexpr (number == 0) asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    // Each warp tells every block of the cluster; behind the barrier no block writes to another one's memory any more.
    if (lane < blocks) cluster.map_shared_rank(of_warp, lane)[rank * warps + warp] = value;
    cluster.sync();
    value = neutral;
    for (int i = lane; i < blocks * warps; i += warp_threads) value = combine(value, of_warp[i]);
#endif
  }
  return warp_reduce(value, combine);
}

// E elements that are loaded and stored at once.
template <class T, int E>
struct alignas(sizeof(T) * E) Piece {
  T value[E];
};

// What a thread holds of a row.
template <class T, int E, int V>
struct RowPart {
  Piece<T, E> piece[V];

  // From a row of `columns` elements, of which each is read once: not kept in L1, which is for what rows share.
  // Elements beyond it become `otherwise`.
  __device__ __forceinline__ void load(const T* row, int columns, const TeamPlace& at, T otherwise) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (const int first = column(k, at); first < columns) {
        piece[k] = read_once(reinterpret_cast<const Piece<T, E>*>(row + first));
      } else {
#pragma unroll
        for (int e = 0; e < E; ++e) piece[k].value[e] = otherwise;
      }
    }
  }

  __device__ __forceinline__ void store(T* row, int columns, const TeamPlace& at) const {
#pragma unroll
    for (int k = 0; k < V; ++k)
      if (const int first = column(k, at); first < columns) *reinterpret_cast<Piece<T, E>*>(row + first) = piece[k];
  }

  // f(element, k, e) for each element, also those beyond the row.
  template <class F>
  __device__ __forceinline__ void each(F f) {
#pragma unroll
    for (int k = 0; k < V; ++k)
#pragma unroll
      for (int e = 0; e < E; ++e) f(piece[k].value[e], k, e);
  }

  // Piece k of what all rows share, where it is in the row; null: each element is `otherwise`.
  static __device__ __forceinline__ Piece<T, E> shared(const T* of_columns, int k, int columns, const TeamPlace& at,
                                                       T otherwise) {
    if (const int first = column(k, at); of_columns != nullptr && first < columns)
      return *reinterpret_cast<const Piece<T, E>*>(of_columns + first);
    Piece<T, E> all;
#pragma unroll
    for (T& value : all.value) value = otherwise;
    return all;
  }

  // Of the first element of piece k.
  static __device__ __forceinline__ int column(int k, const TeamPlace& at) { return (at.thread + k * at.threads) * E; }

 private:
  static __device__ __forceinline__ Piece<T, E> read_once(const Piece<T, E>* from) {
    if constexpr (sizeof(Piece<T, E>) == sizeof(uint4)) {
      const uint4 words = __ldcg(reinterpret_cast<const uint4*>(from));
      Piece<T, E> piece;
      memcpy(&piece, &words, sizeof piece);
      return piece;
    }
    return *from;
  }
};

}  // namespace trifold
