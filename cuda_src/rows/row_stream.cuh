// Rows that stream through shared memory, for teams of threads that process many rows one after the other (sm_90 on).
//
// A thread has the same columns of all rows of its team. Its copies from global to shared memory (cp.async) run some
// rows ahead, so that memory is always busy. Messages between the warps of a team about a row are read one row
// later, so that no warp waits for it, and there is no barrier of all threads in the loop:
//
//     for (int i = 0; i <= count; ++i) {      // row i is at the head of the ring, row i - 1 at its tail
//       if (i < count) { stream.wait(0);  … = stream.head(0, j);  stream.advance_head();  mail.send(post, i); }
//       if (i > 0)     { posts = mail.receive(i - 1);  … = stream.tail(0, j);  stream.advance_tail(); }
//       stream.refill(0);
//     }
#pragma once

#include <trifold/async_copies.cuh>
#include <trifold/cluster.cuh>
#include <trifold/packed.cuh>
#include <trifold/reduce.cuh>

#include "row_teams.cuh"

#include <algorithm>
#include <type_traits>

namespace trifold {

// How rows are divided. A block has `teams` teams of `threads` threads: part of a warp, or several warps. A thread has
// `pieces` pieces of 16 bytes of a row of each of `matrices`. Shared memory has `slots` slots for chunks of rows, of
// `chunk` pieces per thread. Registers are limited so that `resident` blocks fit on a multiprocessor.
template <int matrices_, int pieces_, int chunk_, int threads_, int teams_, int slots_, int resident_ = 1>
struct RowStreamShape {
  static constexpr int matrices = matrices_, pieces = pieces_, chunk = chunk_, threads = threads_, teams = teams_;
  static constexpr int slots = slots_, resident = resident_;
  static constexpr int chunks = pieces / chunk, block = threads * teams;
  static constexpr int lanes = std::min(threads, warp_threads), warps = threads / lanes;  // per team
  static constexpr int teams_a_warp = warp_threads / lanes;
  static constexpr int pitch = threads * vector_bytes, slot_bytes = matrices * chunk * pitch;
  static constexpr int bytes = teams * slots * slot_bytes;
  static_assert(pieces % chunk == 0 && threads % lanes == 0 && block % warp_threads == 0 && slots > chunks);

  // The most columns that a block holds.
  template <class T>
  static constexpr int columns = threads * pieces * Vector<T>::size;
};

// The position of a thread.
struct StreamPlace {
  int thread, team;          // in its team; in the block
  int rank, blocks;          // in the cluster
  int64_t first_row, teams;  // the team's first row; the distance to its next one

  // The number of rows of the team that begins with this row.
  __device__ __forceinline__ int rows_from(int64_t row, int64_t rows) const {
    return row < rows ? static_cast<int>((rows - row - 1) / teams) + 1 : 0;
  }
};

// The numbers of a piece as floats, and back.
template <class T>
__device__ __forceinline__ Pack<float, Vector<T>::size> floats_of(const Packed<T>& piece) {
  Pack<float, Vector<T>::size> floats;
#pragma unroll
  for (int e = 0; e < Vector<T>::size; ++e) floats.value[e] = piece[e];
  return floats;
}

}  // namespace trifold

#ifdef TRIFOLD_CLUSTERS

namespace trifold {

template <class Shape>
__device__ __forceinline__ StreamPlace stream_place() {
  const int thread = static_cast<int>(threadIdx.x);
  constexpr bool only = Shape::teams == 1;  // thread and team are then known to the compiler
  StreamPlace at{only ? thread : thread % Shape::threads,
                 only ? 0 : thread / Shape::threads,
                 static_cast<int>(cluster_rank()),
                 static_cast<int>(cluster_blocks()),
                 0,
                 0};
  const int64_t clusters = gridDim.x / at.blocks;
  at.first_row = at.team * clusters + blockIdx.x / at.blocks;
  at.teams = clusters * Shape::teams;
  return at;
}

// Loads from an address in shared memory (shared_address). With a pointer, the compiler recomputes the address for each
// row from the block's rank in its cluster, and waits for that.
template <class T>
__device__ __forceinline__ Packed<T> shared_piece(unsigned at) {
  Packed<T> piece;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(piece.words[0]), "=r"(piece.words[1]), "=r"(piece.words[2]), "=r"(piece.words[3])
               : "r"(at));
  return piece;
}
template <class T>
__device__ __forceinline__ void store_shared(unsigned at, const Packed<T>& piece) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(piece.words[0]), "r"(piece.words[1]),
               "r"(piece.words[2]), "r"(piece.words[3])
               : "memory");
}

// The sums over the lanes of a team in its warp, of one number or of two: with two, half of the lanes add each.
template <int lanes, int N>
__device__ __forceinline__ Pack<float, N> lane_sums(const Pack<float, N>& own) {
  const float sum = sums_apart<N, lanes>(own.value);
  if constexpr (N == 1) {
    return {sum};
  } else {
    const float other = shuffle_xor(sum, lanes / 2);
    return (threadIdx.x & (lanes / 2)) == 0 ? Pack<float, N>{sum, other} : Pack<float, N>{other, sum};
  }
}

// Rows about which messages can be in flight: a warp that sends its message about row r has received those about r - 2;
// at that time all warps had sent theirs about r - 2, and had received those about r - 4 before.
inline constexpr int rows_in_flight = 4;

// Messages between the warps of a team about consecutive rows: each warp sends its message about row r, which is the
// same in all lanes, then the one about row r + 1, and then receives those of all warps about row r. Rows of a team are
// numbered from 0. A message goes to every block of the cluster.
template <class Shape, class Post>
class RowMail {
  static constexpr int warps = Shape::warps, most = warps * (Shape::teams == 1 ? most_blocks_a_cluster : 1);

 public:
  struct Memory {
    alignas(vector_bytes) Post of_warp[rows_in_flight][most];
    Mailbox arrived[rows_in_flight];
  };

  // A barrier of the cluster must follow before the first send().
  __device__ __forceinline__ RowMail(Memory* of_teams, const StreamPlace& at)
      : memory_(*known_address(of_teams + at.team)),
        lane_(at.thread % warp_threads),
        warp_(at.rank * warps + at.thread / warp_threads),
        blocks_(at.blocks) {
    if (at.thread == 0) init_mailboxes(memory_.arrived, rows_in_flight, blocks_ == 1 ? warps : 1);
    __syncthreads();  // the cluster's barrier orders this as well, but racecheck does not model it
  }

  __device__ __forceinline__ void send(const Post& own, int row) {
    __syncwarp();  // all lanes have read the slots that others overwrite after this arrival
    const unsigned slot = static_cast<unsigned>(row) % rows_in_flight;
    Post* const place = &memory_.of_warp[slot][warp_];
    Mailbox& arrived = memory_.arrived[slot];
    if (blocks_ == 1) {
      if (lane_ == 0) {
        *place = own;
        arrived.arrive();
      }
    } else {
      if (threadIdx.x == 0) arrived.arrive_and_expect(blocks_ * warps * static_cast<int>(sizeof(Post)));
      if (lane_ < blocks_)
        trifold::send(own, address_in(shared_address(place), lane_), address_in(shared_address(&arrived), lane_));
    }
  }

  __device__ __forceinline__ Posts<Post> receive(int row) {
    const unsigned slot = static_cast<unsigned>(row) % rows_in_flight;
    memory_.arrived[slot].wait(static_cast<unsigned>(row) / rows_in_flight % 2);
    return {memory_.of_warp[slot], blocks_ * warps};
  }

  // Other blocks of the cluster write to this block's memory until all have received the last messages.
  __device__ __forceinline__ void end() const {
    cluster_arrive();
    cluster_wait();
  }

 private:
  Memory& memory_;
  int lane_, warp_, blocks_;
};

// A team of one warp, or of part of one, sends none.
struct NoMail {
  struct Memory {};
  __device__ __forceinline__ NoMail(Memory*, const StreamPlace&) {}
};

// The sums of messages that are sums.
template <int N>
__device__ __forceinline__ Pack<float, N> sum_of(const Posts<Pack<float, N>>& posts) {
  Pack<float, N> sums{};
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) % warp_threads; i < posts.count; i += warp_threads)
    sums = Sums{}(sums, posts.of_warp[i]);
  return lane_sums<warp_threads>(sums);
}

// The rows of one or two matrices that stream through shared memory, in pieces that one thread copies and reads. A
// chunk of a row is read twice: at the head of the ring, and one row later at its tail.
//
// With `edges`, rows begin `lead` elements after a boundary, the same number for all rows of a team. Columns are then
// counted from that boundary, and elements before the row read as 0, as those after it always do.
template <class T, class Shape, bool edges>
class RowStream {
  static constexpr int size = Vector<T>::size, across = Shape::threads * size, M = Shape::matrices;

 public:
  // One row of each matrix: its address, or the distance to the team's next row.
  using Addresses = Pack<const T*, M>;
  using Distances = Pack<int64_t, M>;

  // first: the block's first column of its first row. end: the number of the block's columns.
  __device__ __forceinline__ RowStream(unsigned char* memory, const StreamPlace& at, int lead, int end,
                                       const Addresses& first, const Distances& next, int rows)
      : from_(first),
        next_(next),
        rows_(rows),
        end_(end - at.thread * size),
        lead_(edges && at.rank == 0 ? max(0, min(size, lead - at.thread * size)) : 0),
        column_(at.thread * size),
        edge_(edges ? edge_of(at, lead, end) : -1),
        is_cut_(edges && end_ > 0 && end_ % across < size && end_ % size != 0),
        begin_(shared_address(memory) + at.team * Shape::slots * Shape::slot_bytes + at.thread * vector_bytes) {
#pragma unroll
    for (const T*& from : from_.value) from += column_;
    asm("" : "+r"(begin_));  // not recomputed
    head_ = tail_ = fill_ = begin_;
  }

  // Starts copying the first chunks, as many as can be in flight.
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
      if (chunk == 0 && lead_ > 0)
#pragma unroll
        for (int m = 0; m < M; ++m) blank(head_ + m * of_matrix);
    }
  }

  // Piece j of matrix m in the chunk at the head, or at the tail.
  __device__ __forceinline__ Packed<T> head(int m, int j) const {
    return shared_piece<T>(head_ + m * of_matrix + j * Shape::pitch);
  }
  __device__ __forceinline__ Packed<T> tail(int m, int j) const {
    return shared_piece<T>(tail_ + m * of_matrix + j * Shape::pitch);
  }
  __device__ __forceinline__ void advance_head() { head_ = after(head_); }
  __device__ __forceinline__ void advance_tail() { tail_ = after(tail_); }

  // Their addresses in shared memory.
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
      write_if<T>(there && has_all(k), row + k * across, make(j, k));
    }
  }

  // The address at which to store the thread's edge.
  __device__ __forceinline__ T* edge_in(T* row) const { return row + (edge_ - column_); }

  // Calls use(numbers) with the thread's edge of each matrix, if it is in the chunk at `slot`.
  template <class Use>
  __device__ __forceinline__ void with_edge(int chunk, unsigned slot, Use use) const {
    if constexpr (edges) {
      __syncwarp();  // others' copies are visible
      if (const int k = edge_ / across; edge_ >= 0 && k / Shape::chunk == chunk) {
        const int piece_column = edge_ % across / size * size;
        const unsigned at =
            slot + k % Shape::chunk * Shape::pitch + (piece_column - column_ + edge_ % size) * int{sizeof(T)};
        Pack<float, M> numbers;
#pragma unroll
        for (int m = 0; m < M; ++m) numbers.value[m] = shared_element(at + m * of_matrix);
        use(numbers);
      }
      __syncwarp();  // before others copy to there again
    }
  }

  // Waits until all copies have completed.
  __device__ __forceinline__ void end() { wait_for_all_copies(); }

  // For each chunk read at the head, starts copying another one, into the slot that the tail has left.
  __device__ __forceinline__ void refill(int chunk) { fetch((chunk + Shape::slots) % Shape::chunks); }

 private:
  static constexpr int of_matrix = Shape::chunk * Shape::pitch;

  Addresses from_;
  Distances next_;
  int rows_, end_, lead_, column_, edge_;
  bool is_cut_;                          // whether the row's end cuts a piece of the thread
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
    Packed<T> piece = shared_piece<T>(at);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const int bytes = lead_ * int{sizeof(T)} - w * 4;  // of this word
      piece.words[w] &= bytes >= 4 ? 0u : bytes > 0 ? ~0u << 16 : ~0u;
    }
    store_shared(at, piece);
  }

  static __device__ __forceinline__ float shared_element(unsigned at) {
    if constexpr (sizeof(T) == sizeof(float)) {
      float number;
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(number) : "r"(at));
      return number;
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
          const int first = (chunk * Shape::chunk + j) * across, bytes = rows_ > 0 ? bytes_of(end_ - first) : 0;
#pragma unroll
          for (int m = 0; m < M; ++m)
            copy_async(fill_ + m * of_matrix + j * Shape::pitch, from_.value[m] + first, bytes);
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
#pragma unroll
        for (int m = 0; m < M; ++m) from_.value[m] += next_.value[m];
        --rows_;
      }
    }
    commit_copies();
  }
};

}  // namespace trifold

#endif
