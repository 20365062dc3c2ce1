#include "cross_entropy.cuh"
#include "rows/plan.h"

namespace {

using trifold::Cut, trifold::Rows, trifold::Team, trifold::TeamChoice, trifold::Teams, trifold::TeamWithEdges,
    trifold::Tensor;

constexpr const char* name = "cross_entropy";
constexpr const char* backward_name = "cross_entropy_backward";

// Numbered as in torch's own operators.
enum Reduction : int64_t { none, mean, sum };

void check_target(const char* op, const Tensor& like, const char* like_name, const Tensor& target) {
  trifold::check_same_device(op, like, like_name, target, "target");
  trifold::check(target.scalar_type() == trifold::ScalarType::Long, op, ": target must be int64, not ",
                 trifold::Dtype{target}, "; convert it with target.long()");
  const bool matrix = like.dim() == 2 && target.dim() == 1 && target.size(0) == like.size(0);
  const bool row = like.dim() == 1 && target.dim() == 0;
  trifold::check(matrix || row, op, ": ", like_name,
                 " and target must have the shapes (N, C) and (N,), or (C,) and (), ", "but ", like_name, " is ",
                 trifold::Shape{like}, " and target is ", trifold::Shape{target},
                 "; of more dimensions move the classes last, and flatten the others");
  trifold::check(like.size(like.dim() - 1) > 0, op, ": ", like_name, " must have a class, but is of shape ",
                 trifold::Shape{like}, "; pass one column or more");
}

// The class of each row, and the class to ignore.
struct Targets {
  const int64_t* first;
  int64_t stride, ignored;

  Targets(const Tensor& target, int64_t ignore_index)
      : first(trifold::data<int64_t>(target)),
        stride(target.dim() == 0 ? 0 : target.stride(0)),
        ignored(ignore_index) {}
};

// Measured on an H200 (benchmarks/notes/cross_entropy.md).
using Long = Teams<TeamWithEdges<Team::cluster, 8, 128, 8>, TeamWithEdges<Team::cluster, 8, 256, 4>,
                   TeamWithEdges<Team::cluster, 8, 512, 2>>;
template <class T>
struct Choices {
  using Short = Teams<TeamChoice<Team::part, 4, 128, 6>, TeamChoice<Team::warp, 4, 128, 8>,
                      TeamWithEdges<Team::block, 4, 128, 8>, TeamWithEdges<Team::block, 8, 256, 3>>;
  using Forward = decltype(trifold::joined(Short{}, Long{}));
};
template <>
struct Choices<float> {
  using Short = Teams<TeamChoice<Team::warp, 2, 128, 8>, TeamWithEdges<Team::block, 2, 512, 4>,
                      TeamWithEdges<Team::block, 8, 512, 2>>;
  using Forward = decltype(trifold::joined(Short{}, Long{}));
};

template <class T, class L>
struct Kernels {
  using Plan =
      trifold::Plan<const T*, int64_t, const int64_t*, int64_t, int64_t, L*, T*, const int64_t*, int64_t, int, float>;
  template <Cut cut, class Choice>
  static constexpr auto kernel = cross_entropy_rows_kernel<T, L, cut, Choice>;
};

// Losses alone, for rows that a cluster would hold: a block per row processes the shares of the cluster's warps one
// after the other.
template <class T, class L>
void launch_losses(trifold::Stream stream, const Rows& logits, Targets targets, L* losses, float smoothing, Cut cut,
                   int parts) {
  using Choice = TeamChoice<Team::block, 8, 256, 4>;
  const auto grid = dim3(static_cast<unsigned>(logits.count));
  const auto columns = static_cast<int>(logits.columns);
  const T* const x = logits.data<T>();
  if (cut == Cut::whole)
    trifold::launch_early<cross_entropy_losses_kernel<T, L, Cut::whole, Choice>>(
        stream, grid, Choice::threads, 0, x, logits.stride, targets.first, targets.stride, targets.ignored, losses,
        logits.count, columns, smoothing, parts);
  else
    trifold::launch_early<cross_entropy_losses_kernel<T, L, Cut::inner, Choice>>(
        stream, grid, Choice::threads, 0, x, logits.stride, targets.first, targets.stride, targets.ignored, losses,
        logits.count, columns, smoothing, parts);
}

// `residual` is null if no gradient is wanted, `count` if losses are not divided.
template <class T, class L>
void launch_cross_entropy(trifold::Stream stream, const Rows& logits, Targets targets, L* losses, T* residual,
                          const int64_t* count, double label_smoothing) {
  if (logits.empty()) return;
  const T* const x = logits.data<T>();
  if constexpr (sizeof(T) < sizeof(double)) {
    const auto smoothing = static_cast<float>(label_smoothing);
    const int64_t rows = logits.count, columns = logits.columns;
    const Cut cut = trifold::row_cut<T>(columns, {{x, logits.stride}, {residual, columns}});
    constexpr auto choices = trifold::built_of<trifold::ExpModes<T>>(typename Choices<T>::Forward{});
    const auto plan = trifold::plan_teams<Kernels<T, L>, T>(choices, stream, rows, columns, cut);
    if constexpr (trifold::gpu_paths) {
      // Not with so few rows that clusters keep more multiprocessors busy than a block per row does.
      if (plan.cluster > 0 && residual == nullptr && rows > 2 * plan.resident_clusters)
        return launch_losses<T>(stream, logits, targets, losses, smoothing, cut,
                                static_cast<int>(plan.cluster * plan.block.x / trifold::warp_threads));
    }
    if (plan)
      return plan.launch(stream, x, logits.stride, targets.first, targets.stride, targets.ignored, losses, residual,
                         count, rows, static_cast<int>(columns), smoothing);
  }
  trifold::launch<cross_entropy_kernel<T, L>>(stream, trifold::block_a_row(logits.count), cross_entropy_block, 0, x,
                                              logits.stride, targets.first, targets.stride, targets.ignored, losses,
                                              residual, count, logits.count, logits.columns, label_smoothing);
}

// Returns the loss; p - q, or an empty tensor; and for the mean, the number of rows that were averaged.
std::tuple<Tensor, Tensor, Tensor> cross_entropy(const Tensor& logits, const Tensor& target, int64_t ignore_index,
                                                 double label_smoothing, int64_t reduction, bool with_gradient) {
  trifold::check_floating(name, logits, "logits");
  check_target(name, logits, "logits", target);
  trifold::check(reduction >= none && reduction <= sum, name, ": reduction must be 0, 1 or 2, but is ", reduction,
                 "; 0 is none, 1 the mean, 2 the sum");
  const Rows rows = trifold::rows_of(logits);
  const Tensor loss = trifold::empty_contiguous(logits, reduction == none ? target.sizes() : trifold::Dims());
  const Tensor residual = with_gradient ? trifold::row_output(logits) : trifold::empty_strided(logits, {0}, {1});
  const Tensor count = trifold::empty_strided(target, {reduction == mean ? 1 : 0}, {1});
  trifold::dispatch_floating(logits.scalar_type(), [&]<class T>() {
    using C = trifold::compute_t<T>;
    using trifold::mutable_data;
    const trifold::OnDevice device(logits);
    const Targets targets(target, ignore_index);
    T* const gradient = with_gradient ? mutable_data<T>(residual) : nullptr;
    int64_t* const counted = reduction == mean ? mutable_data<int64_t>(count) : nullptr;
    const int64_t* const divisor = with_gradient && !divides_late<T> ? counted : nullptr;
    if (divisor != nullptr)
      trifold::launch_early<cross_entropy_count_kernel>(device.stream(), 1, cross_entropy_total_block, 0, targets.first,
                                                        targets.stride, targets.ignored, counted, rows.count);
    if (reduction == none) {
      launch_cross_entropy(device.stream(), rows, targets, mutable_data<T>(loss), gradient, divisor, label_smoothing);
    } else {
      const Tensor losses = trifold::scratch<T, C>(logits, rows.count);
      auto* const terms = reinterpret_cast<C*>(mutable_data<T>(losses));
      launch_cross_entropy(device.stream(), rows, targets, terms, gradient, divisor, label_smoothing);
      trifold::launch_early<cross_entropy_total_kernel<T>>(device.stream(), 1, cross_entropy_total_block, 0, terms,
                                                           targets.first, targets.stride, targets.ignored,
                                                           mutable_data<T>(loss), counted, rows.count);
    }
    trifold::check_launch();
  });
  return {loss, residual, count};
}

// Blocks of a pass over a matrix that is usually left unchanged: as many as the largest GPUs hold at once.
constexpr int64_t blocks_in_place = 8 * 132;

template <class T, Cut cut>
void launch_backward_pieces(trifold::Stream stream, const Rows& residual, Targets targets, const T* grad_loss,
                            int64_t grad_stride, const int64_t* count, T* grad_logits, int64_t most) {
  const int64_t pieces = trifold::pieces_of(residual.columns, cut, trifold::Vector<T>::size);
  const int64_t blocks = trifold::ceil_div(pieces, cross_entropy_pieces * cross_entropy_block);
  trifold::launch_early<cross_entropy_backward_pieces_kernel<T, cut>>(
      stream, dim3(static_cast<unsigned>(std::min(residual.count * blocks, most))), cross_entropy_block, 0, grad_loss,
      grad_stride, residual.data<T>(), residual.stride, targets.first, targets.stride, targets.ignored, count,
      grad_logits, residual.count, static_cast<int>(residual.columns), static_cast<int>(blocks));
}

template <class T>
void launch_backward(trifold::Stream stream, const Rows& residual, Targets targets, const T* grad_loss,
                     int64_t grad_stride, const int64_t* count, T* grad_logits) {
  const T* const first = residual.data<T>();
  const int64_t most = first == grad_logits ? blocks_in_place : trifold::most_blocks;
  if constexpr (sizeof(T) < sizeof(double)) {
    const Cut cut = trifold::row_cut<T>(residual.columns, {{first, residual.stride}, {grad_logits, residual.columns}});
    const auto launch =
        cut == Cut::whole ? launch_backward_pieces<T, Cut::whole> : launch_backward_pieces<T, Cut::ragged>;
    launch(stream, residual, targets, grad_loss, grad_stride, count, grad_logits, most);
  } else {
    trifold::launch<cross_entropy_backward_kernel<T>>(
        stream, dim3(static_cast<unsigned>(std::min(residual.count, most))), cross_entropy_block, 0, grad_loss,
        grad_stride, first, residual.stride, targets.first, targets.stride, targets.ignored, count, grad_logits,
        residual.count, residual.columns);
  }
}

// Multiplies the rows of `residual` by grad_loss into `grad_logits`, which may be the same tensor.
void write_gradient(const Tensor& grad_loss, const Tensor& residual, const Tensor& target, const Tensor& count,
                    int64_t ignore_index, const Tensor& grad_logits) {
  trifold::check_floating(backward_name, residual, "residual");
  check_target(backward_name, residual, "residual", target);
  trifold::check_same_device(backward_name, residual, "residual", grad_loss, "grad_loss");
  trifold::check_same_dtype(backward_name, residual, "residual", grad_loss, "grad_loss");
  const bool of_each = grad_loss.dim() == 1 && target.dim() == 1 && grad_loss.size(0) == target.size(0);
  trifold::check(of_each || grad_loss.dim() == 0, backward_name,
                 ": grad_loss must have the shape of target or (), not ", trifold::Shape{grad_loss},
                 "; it is the gradient of cross_entropy's result");
  trifold::check_same_device(backward_name, residual, "residual", count, "count");
  trifold::check(count.scalar_type() == trifold::ScalarType::Long && count.numel() <= 1, backward_name,
                 ": count must be int64, of one element or none, not ", trifold::Dtype{count}, " of shape ",
                 trifold::Shape{count}, "; it is the third result of cross_entropy");
  const Rows rows = trifold::rows_of(residual);
  if (rows.empty()) return;
  trifold::dispatch_floating(residual.scalar_type(), [&]<class T>() {
    const trifold::OnDevice device(residual);
    const Targets targets(target, ignore_index);
    const bool divides = divides_late<T> && count.numel() > 0;
    launch_backward(device.stream(), rows, targets, trifold::data<T>(grad_loss), of_each ? grad_loss.stride(0) : 0,
                    divides ? trifold::data<int64_t>(count) : nullptr, trifold::mutable_data<T>(grad_logits));
    trifold::check_launch();
  });
}

Tensor cross_entropy_backward(const Tensor& grad_loss, const Tensor& residual, const Tensor& target,
                              const Tensor& count, int64_t ignore_index) {
  const Tensor grad_logits = trifold::row_output(residual);
  write_gradient(grad_loss, residual, target, count, ignore_index, grad_logits);
  return grad_logits;
}

void cross_entropy_backward_(const Tensor& grad_loss, const Tensor& residual, const Tensor& target, const Tensor& count,
                             int64_t ignore_index) {
  trifold::check(residual.is_contiguous(), backward_name,
                 "_: residual must be contiguous, to be written over; pass the ", "second result of cross_entropy");
  write_gradient(grad_loss, residual, target, count, ignore_index, residual);
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&cross_entropy>(m, "cross_entropy");
  trifold::implement<&cross_entropy_backward>(m, "cross_entropy_backward");
  trifold::implement<&cross_entropy_backward_>(m, "cross_entropy_backward_");
}
