#include <trifold/binding.h>

#include "rope.cuh"

namespace {

using trifold::Dims, trifold::Tensor, trifold::Vector;

void check_heads(const Tensor& x, const char* name) {
  trifold::check(x.dim() >= 2, "rope: ", name, " must have positions and columns as its last two dimensions, but is ",
                 "of shape ", trifold::Shape{x}, "; pass a row as ", name, "[None]");
  trifold::check(x.size(x.dim() - 1) % 2 == 0, "rope: ", name, " must have an even number of columns, but is of shape ",
                 trifold::Shape{x}, "; its first half is turned with its second half");
}

void check_table(const Tensor& q, const Tensor& table, const char* name) {
  trifold::check_same_device("rope", q, "q", table, name);
  trifold::check_same_dtype("rope", q, "q", table, name);
  const int64_t positions = q.size(q.dim() - 2), pairs = q.size(q.dim() - 1) / 2;
  trifold::check(table.dim() == 2 && table.size(0) == positions && table.size(1) == pairs, "rope: ", name,
                 " must have the shape (", positions, ", ", pairs, "), positions and half of the columns of q, but is ",
                 trifold::Shape{table}, " for q of shape ", trifold::Shape{q}, "; cut it with ", name, "[:", positions,
                 "]");
}

void check_arguments(const Tensor& q, const Tensor& k, const Tensor& cos, const Tensor& sin) {
  trifold::check_floating("rope", q, "q");
  check_heads(q, "q");
  trifold::check_same_device("rope", q, "q", k, "k");
  trifold::check_same_dtype("rope", q, "q", k, "k");
  check_heads(k, "k");
  const bool fits = q.size(q.dim() - 2) == k.size(k.dim() - 2) && q.size(q.dim() - 1) == k.size(k.dim() - 1);
  trifold::check(fits, "rope: q and k must have the same last two dimensions, positions and columns, but q is ",
                 trifold::Shape{q}, " and k is ", trifold::Shape{k}, "; other dimensions, the heads, may differ");
  check_table(q, cos, "cos");
  check_table(q, sin, "sin");
}

// A tensor as heads, which are its last two dimensions; the elements of each row are contiguous.
struct Operand {
  Tensor tensor;  // owns the memory: the argument, or a copy
  Heads heads;

  int64_t groups() const { return trifold::ceil_div(heads.count, heads_a_thread); }

  bool in_pieces(int64_t size) const {
    return heads.outer_stride % size == 0 && heads.inner_stride % size == 0 && heads.row_stride % size == 0;
  }
};

// Collapses the dimensions before the last two of a nonempty tensor to two; nothing if that is impossible.
std::optional<Heads> heads_of(Dims sizes, Dims strides) {
  const std::size_t last = sizes.size() - 1;
  Heads heads{1, 1, 0, 0, sizes[last - 1] == 1 ? sizes[last] : strides[last - 1]};
  if (sizes[last] > 1 && strides[last] != 1) return std::nullopt;
  int64_t outer = 1;
  for (std::size_t d = last - 1; d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (heads.inner == 1) heads.inner_stride = strides[d];
    if (outer == 1 && strides[d] == heads.inner * heads.inner_stride) {
      heads.inner *= sizes[d];
    } else {
      if (outer == 1) heads.outer_stride = strides[d];
      if (strides[d] != outer * heads.outer_stride) return std::nullopt;
      outer *= sizes[d];
    }
  }
  heads.count = heads.inner * outer;
  return heads;
}

Operand operand(const Tensor& x) {
  if (x.numel() == 0) return {x, {0, 1, 0, 0, 0}};
  if (const auto heads = heads_of(x.sizes(), x.strides())) return {x, *heads};
  const Tensor copy = torch::stable::contiguous(x);
  return {copy, *heads_of(copy.sizes(), copy.strides())};
}

Tensor without_gaps(const Tensor& x) {
  return x.is_contiguous() ? x : torch::stable::contiguous(x);
}

template <class T>
void launch_rope(trifold::Stream stream, const Operand& q, const Operand& k, const Tensor& cos, const Tensor& sin,
                 const Tensor& q_out, const Tensor& k_out, bool inverse) {
  const int64_t positions = cos.size(0), pairs = cos.size(1), groups = q.groups() + k.groups();
  const auto with = [&]<int size>(const T* q_first, const T* k_first, const T* cos, const T* sin, T* q_out, T* k_out) {
    // Threads along the pieces of a row first, then along positions, then along groups, up to a block.
    const int64_t across = std::min<int64_t>(pairs / size, rope_block);
    const int64_t down = std::min<int64_t>(positions, rope_block / across);
    const int64_t deep = std::min<int64_t>({groups, rope_block / (across * down), 64});
    const dim3 block(static_cast<unsigned>(across), static_cast<unsigned>(down), static_cast<unsigned>(deep));
    const dim3 grid(static_cast<unsigned>(trifold::ceil_div(positions, down)),
                    static_cast<unsigned>(std::min<int64_t>(trifold::ceil_div(groups, deep), 65'535)));
    trifold::launch_early<rope_kernel<T, size>>(stream, grid, block, 0, q_first, q.heads, k_first, k.heads, cos, sin,
                                                q_out, k_out, positions, pairs, inverse);
  };
  const auto choose = [&](auto*... all) {
    const auto fits = [&](int64_t size) {
      return pairs % size == 0 && q.in_pieces(size) && k.in_pieces(size) &&
             ((reinterpret_cast<uintptr_t>(all) % (size * sizeof(T)) == 0) && ...);
    };
    constexpr int vector = Vector<T>::size;
    if (fits(vector)) return with.template operator()<vector>(all...);
    if constexpr (vector > 2)
      if (fits(2)) return with.template operator()<2>(all...);
    with.template operator()<1>(all...);
  };
  choose(trifold::data<T>(q.tensor), trifold::data<T>(k.tensor), trifold::data<T>(cos), trifold::data<T>(sin),
         trifold::mutable_data<T>(q_out), trifold::mutable_data<T>(k_out));
}

std::tuple<Tensor, Tensor> rope(const Tensor& q, const Tensor& k, const Tensor& cos, const Tensor& sin, bool inverse) {
  check_arguments(q, k, cos, sin);
  const Tensor q_out = trifold::empty_contiguous(q, q.sizes()), k_out = trifold::empty_contiguous(k, k.sizes());
  if (q.numel() + k.numel() == 0) return {q_out, k_out};
  trifold::dispatch_floating(q.scalar_type(), [&]<class T>() {
    const trifold::OnDevice device(q);
    launch_rope<T>(device.stream(), operand(q), operand(k), without_gaps(cos), without_gaps(sin), q_out, k_out,
                   inverse);
    trifold::check_launch();
  });
  return {q_out, k_out};
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&rope>(m, "rope");
}
