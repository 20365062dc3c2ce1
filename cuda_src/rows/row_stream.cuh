// Rows that stream through shared memory, for kernels that keep sums over rows in registers (sm_90 on).
//
// A team of threads processes many rows, one after the other; each thread has the same columns of all of them. Copies
// from global to shared memory (cp.async) run some rows ahead, so that memory is always busy. The sums along a row,
// which all threads of a team need, are read one row after they were sent, so that no thread waits for them, and there
// is no barrier of all threads in the loop.
#pragma once

#include <trifold/async_copies.cuh>
#include <trifold/cluster.cuh>
#include <trifold/packed.cuh>
#include <trifold/reduce.cuh>

#include <algorithm>
#include <type_traits>

namespace trifold {

// Flags for streaming rows. Intermediate results of a row are kept in registers until its sums are known.
inline constexpr unsigned rows_kept = 1;
// Whole rows of a warp are copied by bulk copies (warp_rows.cuh).
inline constexpr unsigned rows_in_bulk = 2;
// Clusters keep a common pace (pace.cuh).
inline constexpr unsigned rows_paced = 4;
// With edges, few warps have a last piece: the others copy no zeros to theirs, which is never read.
inline constexpr unsigned rows_end_rarely = 8;
// Clusters always have two blocks, and a row's two sums are sent while those of the row before are read (PairSums).
inline constexpr unsigned rows_of_pairs = 16;
// A warp's lanes load the mean and rstd of many rows at once, that many rows ahead.
inline constexpr unsigned rows_gathered = 32;

// How rows are divided. A block has `teams` teams of `threads` threads: a part of a warp, or several warps. A thread
// has `pieces` pieces of 16 bytes of each row. Shared memory has `slots` slots for chunks of rows, of `chunk` pieces a
// thread. A row is read from there again once its sums are known. Registers are limited so that `resident` blocks fit
// on a multiprocessor. `ways` is the sum of the flags above.
template <int pieces_, int chunk_, int threads_, int teams_, int slots_, unsigned ways = 0, int resident_ = 1>
struct RowStreamShape {
  static constexpr int pieces = pieces_, chunk = chunk_, threads = threads_, teams = teams_, slots = slots_;
  static constexpr bool kept = (ways & rows_kept) != 0, bulk = (ways & rows_in_bulk) != 0;
  static constexpr bool paced = (ways & rows_paced) != 0, end_rarely = (ways & rows_end_rarely) != 0;
  static constexpr bool pairs = (ways & rows_of_pairs) != 0;
  static constexpr bool gathered = (ways & rows_gathered) != 0;
  static constexpr int resident = resident_;
  static constexpr int chunks = pieces / chunk, block = threads * teams;
  static constexpr int lanes = std::min(threads, warp_threads), warps = threads / lanes;  // of a team
  static constexpr int teams_a_warp = warp_threads / lanes;
  static constexpr int pitch = threads * vector_bytes, slot_bytes = 2 * (chunk * pitch + (bulk ? line_bytes : 0));
  static constexpr int bytes = teams * slots * slot_bytes;
  static_assert(pieces % chunk == 0 && threads % lanes == 0 && block % warp_threads == 0 && slots > chunks);
  static_assert((!paced && !pairs) || teams == 1);

  // The most columns that a block holds.
  template <class T>
  static constexpr int columns = threads * pieces * Vector<T>::size;
};

// The position of a thread.
struct StreamPlace {
  int thread, team;          // in its team; of the block's
  int rank, blocks;          // in the cluster
  int64_t first_row, teams;  // the team's first row; how far on the next one is
};

// The numbers of a piece as floats, and back.
template <class T>
__device__ __forceinline__ Pack<float, Vector<T>::size> floats_of(uint4 piece) {
  const Packed<T> packed{{piece.x, piece.y, piece.z, piece.w}};
  Pack<float, Vector<T>::size> floats;
#pragma unroll
  for (int e = 0; e < Vector<T>::size; ++e) floats.value[e] = packed[e];
  return floats;
}

template <class T>
__device__ __forceinline__ uint4 piece_of(const Pack<float, Vector<T>::size>& floats) {
  const Packed<T> packed = pack<T>([&](int e) { return floats.value[e]; });
  return {packed.words[0], packed.words[1], packed.words[2], packed.words[3]};
}

}  // namespace trifold

#ifdef TRIFOLD_CLUSTERS

namespace trifold {

template <class Shape>
__device__ __forceinline__ StreamPlace stream_place() {
  const int thread = static_cast<int>(threadIdx.x);
  // With one team in a block, these are constants for the compiler.
  constexpr bool only = Shape::teams == 1;
  StreamPlace at{only ? thread : thread % Shape::threads,
                 only ? 0 : thread / Shape::threads,
                 static_cast<int>(cluster_rank()),
                 Shape::pairs ? 2 : static_cast<int>(cluster_blocks()),
                 0,
                 0};
  const int64_t clusters = gridDim.x / at.blocks;
  at.first_row = at.team * clusters + blockIdx.x / at.blocks;
  at.teams = clusters * Shape::teams;
  return at;
}

// -------------------------------------------------------------------------------------------------- 16-byte pieces

// Keeps the compiler from converting a piece that all rows need to floats once for all rows: they need more registers.
__device__ __forceinline__ void keep_packed(uint4& piece) {
  asm volatile("" : "+r"(piece.x), "+r"(piece.y), "+r"(piece.z), "+r"(piece.w));
}

// Loads from an address in shared memory (shared_address). With a pointer, the compiler recomputes the address in each
// row, from the block's rank in its cluster, and waits for that.
__device__ __forceinline__ uint4 shared_piece(unsigned at) {
  uint4 piece;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(piece.x), "=r"(piece.y), "=r"(piece.z), "=r"(piece.w)
               : "r"(at));
  return piece;
}
__device__ __forceinline__ void store_shared(unsigned at, uint4 piece) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(piece.x), "r"(piece.y), "r"(piece.z),
               "r"(piece.w)
               : "memory");
}
__device__ __forceinline__ float shared_float(unsigned at) {
  float number;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(number) : "r"(at));
  return number;
}

// -------------------------------------------------------------------------------------------------- sums along rows

// N sums, 1 or 2, along each row: a team's threads `give` their parts for row r, then those for row r + 1, and then
// `take` the complete sums of row r. Rows of a team are numbered from 0.
//
// Each warp sends its part to every block of its cluster. The number of rows in flight: a warp that gives its part for
// row r has taken the sums of r - 2; at that time all warps had given theirs for r - 2, and had taken r - 4 before.
inline constexpr int sums_under_way = 4;

template <class Shape, int N>
class RowSums {
  static constexpr int warps = Shape::warps, lanes = Shape::lanes / N;
  static constexpr int most = warps * (Shape::teams == 1 ? most_blocks_a_cluster : 1);

 public:
  static constexpr bool alone = warps == 1;

  struct Memory {
    float of_warp[sums_under_way][N][most];
    Mailbox given[sums_under_way];
  };

  // A barrier of the cluster must follow before the first give().
  __device__ __forceinline__ RowSums(Memory* of_teams, const StreamPlace& at)
      : memory_(*known_address(of_teams + at.team)),
        lane_(at.thread % Shape::lanes),
        warp_(at.rank * warps + at.thread / Shape::lanes),
        blocks_(at.blocks) {
    if (!alone && at.thread == 0) init_mailboxes(memory_.given, sums_under_way, blocks_ == 1 ? N * warps : 1);
    // The cluster's barrier orders this as well, but racecheck does not model it.
    if constexpr (!alone) __syncthreads();
  }

  // Only if a team has several warps: not `alone`.
  __device__ __forceinline__ void give(const Pack<float, N>& sums, int row) {
    const float own = shared_out(sums);
    __syncwarp();  // all lanes have read what others overwrite once this has come
    const unsigned slot = static_cast<unsigned>(row) % sums_under_way;
    float* const place = &memory_.of_warp[slot][lane_ / lanes][warp_];
    Mailbox& given = memory_.given[slot];
    if (blocks_ == 1) {
      if (lane_ % lanes == 0) {
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared_address(place)), "f"(own) : "memory");
        given.arrive();
      }
    } else {
      if (threadIdx.x == 0) given.arrive_and_expect(blocks_ * warps * N * int{sizeof(float)});
      if (const int rank = lane_ % lanes; rank < blocks_)
        send(own, address_in(shared_address(place), rank), address_in(shared_address(&given), rank));
    }
  }

  __device__ __forceinline__ Pack<float, N> take(int row) {
    const unsigned slot = static_cast<unsigned>(row) % sums_under_way;
    memory_.given[slot].wait(static_cast<unsigned>(row) / sums_under_way % 2);
    const unsigned given = shared_address(memory_.of_warp[slot][lane_ / lanes] + lane_ % lanes);
    const int count = blocks_ * warps - lane_ % lanes;
    float sum = count > 0 ? shared_float(given) : 0;
    if (count > lanes) sum += shared_float(given + lanes * int{sizeof(float)});
    if (most > 2 * lanes) {
#pragma unroll 1
      for (int i = 2 * lanes; i < count; i += lanes) sum += shared_float(given + i * int{sizeof(float)});
    }
    return told_all(warp_reduce<lanes>(sum, Sum{}));
  }

  // The sums of a row that one warp, or a part of it, holds.
  __device__ __forceinline__ Pack<float, N> of_warp(const Pack<float, N>& sums) const {
    return told_all(shared_out(sums));
  }

 private:
  Memory& memory_;
  int lane_, warp_, blocks_;

  // All N sums in all lanes, from one in each lane.
  __device__ __forceinline__ Pack<float, N> told_all(float sum) const {
    if constexpr (N == 1) {
      return {sum};
    } else {
      const float other = shuffle_xor(sum, lanes);
      return lane_ < lanes ? Pack<float, N>{sum, other} : Pack<float, N>{other, sum};
    }
  }

  // The sum over the team's lanes of the warp; of two sums, the first one is in the lower lanes, the second one in the
  // upper ones.
  __device__ __forceinline__ float shared_out(const Pack<float, N>& sums) const {
    if constexpr (N == 1) {
      return warp_reduce<lanes>(sums.value[0], Sum{});
    } else {
      const bool lower = lane_ < lanes;
      const float kept = lower ? sums.value[0] : sums.value[1], passed = lower ? sums.value[1] : sums.value[0];
      return warp_reduce<lanes>(kept + shuffle_xor(passed, lanes), Sum{});
    }
  }
};

// Two sums along each row of a cluster of two blocks, with a shorter chain of dependent steps: the shuffles that reduce
// a warp's own sums of row r are interleaved with those that reduce the sums of all warps of row r - 1. A warp
// therefore waits for the others' sums before it has given its own for the next row.
template <class Shape>
class PairSums {
  static constexpr int blocks = 2, half = warp_threads / 2, quarter = warp_threads / 4;

 public:
  static constexpr bool alone = false;

  // A quarter of a warp reads all entries of a sum, four in each lane. Entries without a warp are 0, and so are those
  // of the row before the first one.
  struct Memory {
    alignas(vector_bytes) float of_warp[sums_under_way][2][warp_threads];
    Mailbox given[sums_under_way];
  };
  static_assert(blocks * Shape::warps <= warp_threads);

  // As for RowSums.
  __device__ __forceinline__ PairSums(Memory* of_teams, const StreamPlace& at)
      : leads_(at.thread == 0), lane_(at.thread % warp_threads) {
    Memory& memory = *of_teams;
    const int sum = lane_ / half, to = lane_ % half % blocks;
    sends_ = lane_ % half < blocks;
    if (at.thread == 0) init_mailboxes(memory.given, sums_under_way, 1);
    if (at.thread < 2 * sums_under_way) {
      const int slot = at.thread / 2, given = static_cast<unsigned>(slot) == slot_of(-1) ? 0 : blocks * Shape::warps;
      for (int place = given; place < warp_threads; ++place) memory.of_warp[slot][at.thread % 2][place] = 0;
    }
    __syncthreads();
    own_mailbox_ = shared_address(&memory.given[0]);
    taken_ = shared_address(&memory.of_warp[0][lane_ / quarter % 2][lane_ % quarter * 4]);
    mailbox_ = address_in(own_mailbox_, to);
    place_ = address_in(shared_address(&memory.of_warp[0][sum][at.rank * Shape::warps + at.thread / warp_threads]), to);
    // Keeps the compiler from recomputing them.
    asm("" : "+r"(own_mailbox_));
    asm("" : "+r"(taken_));
    asm("" : "+r"(mailbox_));
    asm("" : "+r"(place_));
  }

  // Gives a row's sums, and returns those of the row before, if there is one.
  __device__ __forceinline__ Pack<float, 2> give_and_take(const Pack<float, 2>& sums, int row) {
    const bool lower = lane_ < half;
    const float kept = lower ? sums.value[0] : sums.value[1], passed = lower ? sums.value[1] : sums.value[0];
    float own = shuffle_xor(passed, half);
    if (row > 0) wait(row - 1);
    own += kept;
    float taken = four_of(row - 1);
    own += shuffle_xor(own, quarter);
#pragma unroll
    for (int distance = quarter / 2; distance > 0; distance /= 2) {
      const float of_own = shuffle_xor(own, distance), of_taken = shuffle_xor(taken, distance);
      own += of_own;
      taken += of_taken;
    }
    const unsigned slot = slot_of(row);
    if (leads_)
      Mailbox::arrive_and_expect(own_mailbox_ + slot * mailbox_bytes, blocks * Shape::warps * 2 * int{sizeof(float)});
    send_if(sends_, own, place_ + slot * slot_bytes, mailbox_ + slot * mailbox_bytes);
    return told_all(taken);
  }

  __device__ __forceinline__ Pack<float, 2> take(int row) {
    wait(row);
    return told_all(warp_reduce<quarter>(four_of(row), Sum{}));
  }

 private:
  static constexpr int slot_bytes = sizeof(Memory::of_warp) / sums_under_way, mailbox_bytes = sizeof(Mailbox);

  bool leads_, sends_;
  int lane_;
  unsigned own_mailbox_, taken_;  // in this block, of slot 0
  unsigned mailbox_, place_;      // in the one that the lane sends to

  static __device__ __forceinline__ unsigned slot_of(int row) { return static_cast<unsigned>(row) % sums_under_way; }

  __device__ __forceinline__ void wait(int row) const {
    Mailbox::wait_at(own_mailbox_ + slot_of(row) * mailbox_bytes, static_cast<unsigned>(row) / sums_under_way % 2);
  }
  __device__ __forceinline__ float four_of(int row) const {
    const uint4 four = shared_piece(taken_ + slot_of(row) * slot_bytes);
    return (__uint_as_float(four.x) + __uint_as_float(four.y)) + (__uint_as_float(four.z) + __uint_as_float(four.w));
  }
  __device__ __forceinline__ Pack<float, 2> told_all(float sum) const {
    const float other = shuffle_xor(sum, quarter);
    return lane_ / quarter % 2 == 0 ? Pack<float, 2>{sum, other} : Pack<float, 2>{other, sum};
  }
};

// -------------------------------------------------------------------------------------------------- rows

// Two matrices whose rows stream through shared memory, in pieces that are copied and read by the same thread. A chunk
// of a row is read twice: at the head of the stream, and at its tail, one row later.
//
// With `edges`, rows begin `lead` elements after a boundary, the same number for all rows of a team. Columns are then
// counted from that boundary, and elements before the row read as 0, as those after it always do.
template <class T, class Shape, bool edges>
class RowStream {
  static constexpr int size = Vector<T>::size, across = Shape::threads * size;

 public:
  // a, b: point to the block's first column of its first row. end: the number of the block's columns.
  __device__ __forceinline__ RowStream(unsigned char* memory, const StreamPlace& at, int lead, int end, const T* a,
                                       int64_t a_jump, const T* b, int64_t b_jump, int rows)
      : a_(a + at.thread * size),
        b_(b + at.thread * size),
        a_jump_(a_jump),
        b_jump_(b_jump),
        rows_(rows),
        end_(end - at.thread * size),
        lead_(edges && at.rank == 0 ? max(0, min(size, lead - at.thread * size)) : 0),
        column_(at.thread * size),
        edge_(edges ? edge_of(at, lead, end) : -1),
        is_cut_(edges && end_ > 0 && end_ % across < size && end_ % size != 0),
        begin_(shared_address(memory) + at.team * Shape::slots * Shape::slot_bytes + at.thread * vector_bytes) {
    asm("" : "+r"(begin_));  // is not made anew
    head_ = tail_ = fill_ = begin_;
  }

  // Starts copying the first chunks, as many as are in flight.
  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int chunk = 0; chunk < Shape::slots - Shape::chunks; ++chunk) fetch(chunk % Shape::chunks);
  }

  // Whether any of this piece of the thread is in the row, and whether all of it is.
  __device__ __forceinline__ bool has(int piece) const { return piece * across < end_; }
  __device__ __forceinline__ bool has_all(int piece) const {
    if constexpr (!edges) return has(piece);
    return piece * across + size <= end_ && (piece > 0 || lead_ == 0);
  }

  // Waits for the next chunk at the head; `chunk` is its index in its row.
  __device__ __forceinline__ void wait(int chunk) {
    wait_for_copies<Shape::slots - Shape::chunks - 1>();
    if constexpr (edges) {
      if (chunk == 0 && lead_ > 0) {
        blank(head_);
        blank(head_ + of_b);
      }
    }
  }

  // Piece j of the chunk at the head, of a and of b; and at the tail.
  __device__ __forceinline__ uint4 head_a(int j) const { return shared_piece(head_ + j * Shape::pitch); }
  __device__ __forceinline__ uint4 head_b(int j) const { return shared_piece(head_ + of_b + j * Shape::pitch); }
  __device__ __forceinline__ void advance_head() { head_ = after(head_); }
  __device__ __forceinline__ uint4 tail_a(int j) const { return shared_piece(tail_ + j * Shape::pitch); }
  __device__ __forceinline__ uint4 tail_b(int j) const { return shared_piece(tail_ + of_b + j * Shape::pitch); }
  __device__ __forceinline__ void advance_tail() { tail_ = after(tail_); }

  // The shared addresses of the chunks at the head, and at the tail.
  __device__ __forceinline__ unsigned head() const { return head_; }
  __device__ __forceinline__ unsigned tail() const { return tail_; }

  // The column of the thread's edge, counted from the block's first one, or -1. Each element of the pieces that are cut
  // by the row's start and end is assigned to a different thread of the warp, to balance the work.
  __device__ __forceinline__ int edge() const { return edge_; }

  // Stores make(j, k) for the pieces k of a chunk, the j-th of the chunk each, if the row is `there`.
  template <class Make>
  __device__ __forceinline__ void store(bool there, T* row, int chunk, Make make) const {
#pragma unroll
    for (int j = 0; j < Shape::chunk; ++j) {
      const int k = chunk * Shape::chunk + j;
      if (edges && k == Shape::pieces - 1 && !has(k)) break;  // most rows end before the last piece
      const uint4 piece = make(j, k);
      write_if<T>(there && has_all(k), row + k * across, {{piece.x, piece.y, piece.z, piece.w}});
    }
  }

  // The address at which to store the thread's edge.
  __device__ __forceinline__ T* edge_in(T* row) const { return row + (edge_ - column_); }

  // Calls use(a, b) for the thread's edge, if it is in the chunk at `slot`.
  template <class Use>
  __device__ __forceinline__ void with_edge(int chunk, unsigned slot, Use use) const {
    if constexpr (edges) {
      __syncwarp();  // others' copies are seen
      if (const int k = edge_ / across; edge_ >= 0 && k / Shape::chunk == chunk) {
        const int piece_column = edge_ % across / size * size;
        const unsigned at =
            slot + k % Shape::chunk * Shape::pitch + (piece_column - column_ + edge_ % size) * int{sizeof(T)};
        use(shared_element(at), shared_element(at + of_b));
      }
      __syncwarp();  // before others copy to there again
    }
  }

  // Waits until all copies have completed.
  __device__ __forceinline__ void end() { wait_for_all_copies(); }

  // For each chunk read at the head, starts copying another one, into the slot that the tail has left.
  __device__ __forceinline__ void refill(int chunk) { fetch((chunk + Shape::slots) % Shape::chunks); }

 private:
  static constexpr int of_b = Shape::chunk * Shape::pitch;

  const T *a_, *b_;
  int64_t a_jump_, b_jump_;
  int rows_, end_, lead_, column_, edge_;
  bool is_cut_;                          // a piece, by the row's end
  unsigned begin_, head_, tail_, fill_;  // in shared memory

  __device__ __forceinline__ unsigned after(unsigned slot) const {
    return slot == begin_ + (Shape::slots - 1) * Shape::slot_bytes ? begin_ : slot + Shape::slot_bytes;
  }

  // The first lanes of the warp have the elements of the piece in which the row starts, the next ones those of the
  // piece in which it ends.
  static __device__ __forceinline__ int edge_of(const StreamPlace& at, int lead, int end) {
    static_assert(Shape::lanes >= 2 * size);
    const int lane = at.thread % Shape::lanes, begin = at.rank == 0 ? lead : 0;
    const int front = begin / size * size, back = end / size * size;
    const bool at_front = lane < size;
    const int column = (at_front ? front : back - size) + lane;
    const bool cut = at_front ? begin % size > 0 : lane < 2 * size && (begin % size == 0 || back != front);
    const bool of_warp = column >= 0 && column % across / size / Shape::lanes == at.thread / Shape::lanes;
    return cut && of_warp && column >= begin && column < end ? column : -1;
  }

  // Sets the first `lead_` elements of a piece to 0.
  __device__ __forceinline__ void blank(unsigned at) const {
    uint4 piece = shared_piece(at);
    unsigned* const words[] = {&piece.x, &piece.y, &piece.z, &piece.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const int bytes = lead_ * int{sizeof(T)} - w * 4;  // of this word
      *words[w] &= bytes >= 4 ? 0u : bytes > 0 ? ~0u << 16 : ~0u;
    }
    store_shared(at, piece);
  }

  static __device__ __forceinline__ float shared_element(unsigned at) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return shared_float(at);
    } else {
      uint16_t bits;
      asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(at));
      T element;
      memcpy(&element, &bits, sizeof bits);
      return float(element);
    }
  }

  // The teams of a warp continue together: until the last one has processed its rows, the others read zeros.
  __device__ __forceinline__ void fetch(int chunk) {
    if (rows_ > 0 || Shape::teams_a_warp > 1) {
      const auto copy_pieces = [&](auto bytes_of) {
#pragma unroll
        for (int j = 0; j < Shape::chunk; ++j) {
          const int k = chunk * Shape::chunk + j;
          if (edges && Shape::end_rarely && k == Shape::pieces - 1 && !has(k)) continue;
          const int first = k * across, bytes = rows_ > 0 ? bytes_of(end_ - first) : 0;
          copy_async(fill_ + j * Shape::pitch, a_ + first, bytes);
          copy_async(fill_ + of_b + j * Shape::pitch, b_ + first, bytes);
        }
      };
      // If the number of bytes is 0 or 16, this compiles to a predicate.
      if (edges && is_cut_) {
        copy_pieces([](int left) { return max(0, min(vector_bytes, left * int{sizeof(T)})); });
      } else {
        copy_pieces([](int left) { return left > 0 ? vector_bytes : 0; });
      }
      fill_ = after(fill_);
      if (chunk == Shape::chunks - 1) {
        a_ += a_jump_;
        b_ += b_jump_;
        --rows_;
      }
    }
    commit_copies();
  }
};

}  // namespace trifold

#endif
