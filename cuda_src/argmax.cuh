// argmax: the largest number of each of `rows` rows of `columns` numbers, and its column. nan is larger than all other
// numbers, -0 equals +0, and ties go to the lowest column. Backward: grad_x is the upstream gradient in that column,
// and 0 elsewhere.
//
// Rows of x begin `x_stride` elements apart; those of grad_x are contiguous. Forward must read x once, backward must
// write grad_x once: sizeof(T) bytes an element each, plus a number and an index per row.
//
// A team of 4, 32 or 256 threads processes a row. If there are few rows and they are long, each is cut into slices with
// a team per slice, and a second launch of the same kernel finds the largest of the slices' results. topk (topk.cuh)
// orders numbers and cuts rows in the same way.
#pragma once

#include <trifold/launch.cuh>
#include <trifold/packed.cuh>

#include <algorithm>
#include <type_traits>

// ---------------------------------------------------------------------------------------------------- order

// A number and its column in a slice. Both have the same size, so that a copy reads no padding.
template <class C>
struct Candidate {
  using Column = std::conditional_t<sizeof(C) == 8, int64_t, int>;
  C value;
  Column column;
};

template <class C>
__device__ __forceinline__ bool is_larger(C a, C b) {
  return b == b && !(a <= b);  // also true if a is nan
}

// A total order: candidates from different columns are never equal.
template <class C>
__device__ __forceinline__ bool comes_before(Candidate<C> a, Candidate<C> b) {
  return is_larger(a.value, b.value) || (!is_larger(b.value, a.value) && a.column < b.column);
}

struct Better {
  template <class C>
  __device__ __forceinline__ Candidate<C> operator()(Candidate<C> a, Candidate<C> b) const {
    return comes_before(b, a) ? b : a;
  }
};

// ---------------------------------------------------------------------------------------------------- slices

// Slice blockIdx.y of a row that is cut into gridDim.y slices of `share` columns; the last one also has the remainder.
// Its 16-byte vectors begin at the first boundary; its edges are the elements before and after them, fewer than two
// vectors' worth.
template <class E>
struct Slice {
  using T = std::remove_const_t<E>;
  static constexpr int size = trifold::Vector<T>::size;

  int64_t begin;  // the slice's first column
  E* first;
  int length, head, vectors;

  __device__ __forceinline__ Slice(E* row, int64_t columns, int64_t share)
      : begin(blockIdx.y * share),
        first(row + begin),
        length(static_cast<int>(blockIdx.y + 1 == gridDim.y ? columns - begin : share)),
        head(min(trifold::elements_to_boundary(first), length)),
        vectors((length - head) / size) {}

  __device__ __forceinline__ int edges() const { return length - vectors * size; }
  // The column of edge i, and of the first element of vector v.
  __device__ __forceinline__ int edge(int i) const { return i < head ? i : i + vectors * size; }
  __device__ __forceinline__ int column(int v) const { return head + v * size; }

  template <class V = trifold::Vector<T>>
  __device__ __forceinline__ V load(int v) const {
    return *reinterpret_cast<const V*>(first + column(v));
  }
  __device__ __forceinline__ void store(int v, const trifold::Vector<T>& vector) const {
    *reinterpret_cast<trifold::Vector<T>*>(first + column(v)) = vector;
  }
};

template <class T>
__device__ __forceinline__ trifold::compute_t<T> largest_of(const trifold::Vector<T>& vector) {
  using C = trifold::compute_t<T>;
  C largest = vector.value[0];
#pragma unroll
  for (int e = 1; e < trifold::Vector<T>::size; ++e) largest = trifold::Max{}(largest, C(vector.value[e]));
  return largest;
}

template <class T>
__device__ __forceinline__ float largest_of(const trifold::Packed<T>& packed) {
  float largest = packed[0];
#pragma unroll
  for (int e = 1; e < trifold::Packed<T>::size; ++e) largest = trifold::Max{}(largest, packed[e]);
  return largest;
}

inline constexpr int argmax_block = trifold::threads_per_block;
inline constexpr int argmax_loads = 4;  // in flight per thread, also in the last batch of a row

// Calls use.template operator()<team>() with the number of threads for a slice of this many columns: four or more loads
// per thread, if the slice has as many.
template <class T, class Use>
void with_team(int64_t columns, Use use) {
  const int64_t vectors = columns / trifold::Vector<T>::size;
  if (vectors <= 16) return use.template operator()<4>();
  if (vectors <= 512) return use.template operator()<trifold::warp_threads>();
  use.template operator()<argmax_block>();
}

// The number of slices per row: enough for `blocks` in all, each with at least `least` columns, and with fewer than
// 2^30 so that a column of a slice fits in an int.
inline int64_t slices_of(int64_t rows, int64_t columns, int64_t least, int64_t blocks) {
  constexpr int64_t most = int64_t{1} << 30;
  const int64_t wanted = std::min(trifold::ceil_div(blocks, rows), columns / least);
  return std::max({wanted, trifold::ceil_div(columns, most), int64_t{1}});
}

// A grid with a team for each slice of each row. No GPU's memory holds rows, even of one column, for 2^31 blocks.
template <int team>
dim3 grid_of_teams(int64_t rows, int64_t slices) {
  return dim3(static_cast<unsigned>(trifold::ceil_div(rows, argmax_block / team)), static_cast<unsigned>(slices));
}

// ---------------------------------------------------------------------------------------------------- kernels

// The best candidate among the elements of one thread. Whole vectors are compared first, since a maximum takes fewer
// instructions than a maximum with its index; then the first vector that has the largest number is read again.
template <int team, class T>
__device__ __forceinline__ Candidate<trifold::compute_t<T>> best_of_thread(const Slice<const T>& slice, int lane) {
  using C = trifold::compute_t<T>;
  // If no number is larger than -inf, the result is the first column.
  Candidate<C> edge{-C(INFINITY), 0}, best{-C(INFINITY), 0};
  for (int i = lane; i < slice.edges(); i += team) {
    const int column = slice.edge(i);
    edge = Better{}(edge, Candidate<C>{C(slice.first[column]), column});
  }
  using Own = std::conditional_t<(sizeof(T) < sizeof(double)), trifold::Packed<T>, trifold::Vector<T>>;
  C largest = -C(INFINITY);
  int found = -1;
  for (int first = lane; first < slice.vectors; first += argmax_loads * team) {
    Own own[argmax_loads];
#pragma unroll
    for (int p = 0; p < argmax_loads; ++p)
      if (first + p * team < slice.vectors) own[p] = slice.template load<Own>(first + p * team);
#pragma unroll
    for (int p = 0; p < argmax_loads; ++p) {
      if (first + p * team >= slice.vectors) break;
      const C here = largest_of(own[p]);
      if (is_larger(here, largest)) {
        largest = here;
        found = first + p * team;
      }
    }
  }
  if (found >= 0) {
    const trifold::Vector<T> vector = slice.load(found);
#pragma unroll
    for (int e = slice.size - 1; e >= 0; --e)
      if (!is_larger(largest, C(vector.value[e]))) best = {C(vector.value[e]), slice.column(found) + e};
  }
  return Better{}(edge, best);
}

template <int team, class C>
__device__ __forceinline__ Candidate<C> best_of_team(Candidate<C> best) {
  if constexpr (team > trifold::warp_threads) {
    return trifold::block_reduce<team>(best, Better{});
  } else {
    return trifold::warp_reduce<team>(best, Better{});
  }
}

// `columns_of` maps elements of x to columns of the original row; null: they are the same. Writes one result per slice
// of each row.
template <class T, int team>
__global__ void __launch_bounds__(argmax_block)
    argmax_kernel(const T* x, int64_t x_stride, const int64_t* columns_of, T* values, int64_t* indices, int64_t rows,
                  int64_t columns, int64_t share) {
  using C = trifold::compute_t<T>;
  const int64_t row = trifold::thread_index<argmax_block>() / team;
  const int lane = static_cast<int>(threadIdx.x) % team;
  trifold::wait_for_earlier_kernels();
  const Slice<const T> slice(x + row * x_stride, columns, share);
  Candidate<C> best{-C(INFINITY), 0};
  if (row < rows) best = best_of_thread<team>(slice, lane);
  best = best_of_team<team>(best);
  if (row < rows && lane == 0) {
    const int64_t at = row * gridDim.y + blockIdx.y, column = slice.begin + best.column;
    values[at] = T(best.value);
    indices[at] = columns_of == nullptr ? column : columns_of[row * columns + column];
  }
}

template <class T, int team>
__global__ void __launch_bounds__(argmax_block)
    argmax_backward_kernel(const T* grad_values, const int64_t* indices, T* grad_x, int64_t rows, int64_t columns,
                           int64_t share) {
  using C = trifold::compute_t<T>;
  const int64_t row = trifold::thread_index<argmax_block>() / team;
  const int lane = static_cast<int>(threadIdx.x) % team;
  trifold::wait_for_earlier_kernels();
  if (row >= rows) return;
  const Slice<T> slice(grad_x + row * columns, columns, share);
  const T grad = grad_values[row], zero = T(C(0));
  const int64_t index = indices[row] - slice.begin;
  const int own = index >= 0 && index < slice.length ? static_cast<int>(index) : -1;
  for (int i = lane; i < slice.edges(); i += team) {
    const int column = slice.edge(i);
    slice.first[column] = column == own ? grad : zero;
  }
  for (int v = lane; v < slice.vectors; v += team) {
    trifold::Vector<T> vector;
#pragma unroll
    for (int e = 0; e < slice.size; ++e) vector.value[e] = slice.column(v) + e == own ? grad : zero;
    slice.store(v, vector);
  }
}
