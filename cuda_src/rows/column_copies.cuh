// The parameters of a norm (one number per column), in the shared memory of all teams of a cluster (sm_90 on). Each
// team loads a part of them and multicasts it to all teams, so that L2, whose rate would otherwise be the limit, reads
// them once for the rows of all teams:
//
//     const auto weights = column_numbers<Choice, 0>(weight, T(1), at, columns);   // starts the copy
//     …                                                                            // the row's sums
//     weights.wait();
//     const Packed<T> of_piece = weights.piece(k, at);
#pragma once

#include "norm_rows.cuh"

namespace trifold {

#ifdef TRIFOLD_CLUSTERS

// The parameters of a block's columns. The blocks of equal rank in the teams of a cluster have the same columns, up to
// the offset of their rows from a 16-byte boundary.
template <class T, Cut cut, class Choice, int which>
class CopiedNumbers {
  static constexpr int V = Choice::pieces, size = Packed<T>::size;

 public:
  // Starts copying `columns` numbers as array `which` of the kernel's arrays; null: each is `otherwise`. Called after
  // wait_for_mates.
  __device__ __forceinline__ CopiedNumbers(const T* of_columns, T otherwise, const RowCut<T, cut>& at, int columns)
      : of_columns_(of_columns), otherwise_(otherwise) {
    const int block = static_cast<int>(blockDim.x);
    const ClusterPlace place = ClusterPlace::get<Choice::mates>();
    Packed<T>* const all = dynamic_shared_lines<Packed<T>>() + which * Choice::vectors(block);
    const int base = place.rank * block * V * size;  // the block's first column, or one after it
    // The copy begins at a boundary at or before that column.
    const T* const from = of_columns + base;
    const auto offset = static_cast<int>(reinterpret_cast<uintptr_t>(from) % vector_bytes / sizeof(T));
    own_ = reinterpret_cast<const T*>(all) + (at.first - base + offset);
    const int first = (at.first - base + offset) * static_cast<int>(sizeof(T));
    words_ = reinterpret_cast<const uint32_t*>(all) + first / 4;
    odd_ = first % 4;
    const int copied = of_columns == nullptr ? 0 : vectors_of(columns - base + offset);
    fill(all, copied, otherwise);
    if (of_columns != nullptr && threadIdx.x == 0) copy(all, from - offset, copied, place);
  }

  __device__ __forceinline__ void wait() const {
    if (of_columns_ != nullptr) copy_mailbox(which).wait(0);
  }
  // After wait().
  __device__ __forceinline__ Packed<T> piece(int k, const RowCut<T, cut>&) const {
    const T* const from = own_ + k * warp_threads * size;
    if constexpr (cut == Cut::whole) return *reinterpret_cast<const Packed<T>*>(from);
    const auto odd = static_cast<unsigned>(reinterpret_cast<uintptr_t>(from) % 4);
    return joined(reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(from) - odd), odd);
  }
  // All pieces of the thread, with their address computed once: fewer instructions, but up to 1% slower for rms_norm
  // and for float32, which wait for memory.
  struct Pieces {
    const uint32_t* first;
    unsigned odd;

    __device__ __forceinline__ Packed<T> operator[](int k) const { return joined(first + k * warp_threads * 4, odd); }
  };
  __device__ __forceinline__ Pieces pieces() const { return {words_, odd_}; }
  __device__ __forceinline__ float number(int column) const {
    return float(of_columns_ == nullptr ? otherwise_ : of_columns_[column]);
  }

 private:
  const T* of_columns_;
  T otherwise_;
  const T* own_;           // the thread's first piece
  const uint32_t* words_;  // the word in which that begins
  unsigned odd_;           // the byte offset in that word

  // A piece that begins `odd` bytes after the first of these words.
  //
  // It is read as words, one more than a piece for half types: reading four lanes at a time has no bank conflicts and
  // is faster than selecting among the words of two vectors.
  static __device__ __forceinline__ Packed<T> joined(const uint32_t* words, unsigned odd) {
    Packed<T> piece;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      piece.words[i] = sizeof(T) == 4 ? words[i] : __funnelshift_r(words[i], words[i + 1], 8 * odd);
    return piece;
  }

  // The number of vectors of the block's columns, if `left` numbers remain from its first column on.
  static __device__ __forceinline__ int vectors_of(int left) {
    return max(0, min((left + size - 1) / size, Choice::vectors(static_cast<int>(blockDim.x))));
  }

  // Copies the team's share of the block's vectors to all teams.
  static __device__ __forceinline__ void copy(Packed<T>* all, const T* from, int vectors, const ClusterPlace& place) {
    constexpr int parts = Choice::mates * Choice::vectors_a_line;
    const int part = (vectors + parts - 1) / parts * Choice::vectors_a_line, first = place.mate * part;
    const int count = min(part, vectors - first);
    Mailbox& mailbox = copy_mailbox(which);
    mailbox.arrive_and_expect(vectors * vector_bytes);
    if (count <= 0) return;
    unsigned blocks = 0;
#pragma unroll
    for (int mate = 0; mate < Choice::mates; ++mate) blocks |= 1u << place.of(mate, place.rank);
    reads_whole_vectors();
    copy_to_blocks(blocks, shared_address(all + first), from + first * size, count * vector_bytes,
                   shared_address(&mailbox));
  }

  // Sets the vectors from `first` on, which are not copied: those beyond the row are read too, but not used. Called by
  // all threads of the block.
  static __device__ __forceinline__ void fill(Packed<T>* all, int first, T otherwise) {
    const int block = static_cast<int>(blockDim.x), end = Choice::vectors(block);
    if (first >= end) return;
    for (int i = first + static_cast<int>(threadIdx.x); i < end; i += block) all[i] = Packed<T>::all(otherwise);
    __syncthreads();
  }
};

#endif

// The parameters of a thread's columns, array `which` of the kernel's: from shared copies if teams share a cluster,
// otherwise from global memory.
template <class Choice, int which, class T, Cut cut>
__device__ __forceinline__ auto column_numbers(const T* of_columns, T otherwise, const RowCut<T, cut>& at,
                                               int columns) {
#ifdef TRIFOLD_CLUSTERS
  if constexpr (Choice::mates > 1)
    return CopiedNumbers<T, cut, Choice, which>(of_columns, otherwise, at, columns);
  else
#endif
    return SharedByRows<T, cut, Choice::pieces, Choice::early>(of_columns, at, otherwise);
}

}  // namespace trifold
