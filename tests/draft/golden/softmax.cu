#include <trifold/launch_functions.h>

#include "softmax.cuh"

namespace {

using trifold::Tensor;

Tensor softmax(const Tensor& x) {
  trifold::check_floating("softmax", x, "x");
  const Tensor y = trifold::row_output(x);
  const int64_t count = trifold::rows(x).size(0);
  const int64_t columns = trifold::rows(x).size(1);
  if (columns != 0) {
    const int64_t least = trifold::ceil_div(columns, ELEMENTS_PER_THREAD);
    const int64_t team = least <= 4 ? 4 : least <= 32 ? 32 : trifold::threads_per_block;
    if (trifold::rows(x).scalar_type() == trifold::ScalarType::Double || columns > team * ELEMENTS_PER_THREAD) {
      if (count > 0) {
        trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
          const Tensor x_argument = trifold::without_gaps(trifold::rows(x));
          const Tensor y_argument = trifold::rows(y);
          const trifold::OnDevice device(x);
          trifold::launch<softmax_kernel<T>>(
              device.stream(), trifold::extents(count), trifold::extents(trifold::threads_for(columns)), 0,
              trifold::data<T>(x_argument), x_argument.stride(0), trifold::mutable_data<T>(y_argument),
              y_argument.stride(0), count, columns);
          trifold::check_launch();
        });
      }
    } else {
      const int64_t grid = trifold::ceil_div(count * team, trifold::threads_per_block);
      if (grid > 0) {
        trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
          if constexpr (!std::is_same_v<T, double>) {
            const Tensor x_argument = trifold::without_gaps(trifold::rows(x));
            const Tensor y_argument = trifold::rows(y);
            const trifold::OnDevice device(x);
            trifold::launch<softmax_rows_kernel<T>>(device.stream(), trifold::extents(grid),
                                                    dim3(trifold::threads_per_block), 0, trifold::data<T>(x_argument),
                                                    x_argument.stride(0), trifold::mutable_data<T>(y_argument),
                                                    y_argument.stride(0), count, columns, team);
            trifold::check_launch();
          }
        });
      }
    }
  }
  return y;
}

Tensor softmax_backward(const Tensor& grad_y, const Tensor& y) {
  trifold::check_alike("softmax_backward", grad_y, "grad_y", y, "y");
  const Tensor grad_x = trifold::row_output(y);
  const int64_t count = trifold::rows(grad_y).size(0);
  const int64_t columns = trifold::rows(grad_y).size(1);
  if (columns != 0) {
    const int64_t least = trifold::ceil_div(columns, ELEMENTS_PER_THREAD);
    const int64_t team = least <= 4 ? 4 : least <= 32 ? 32 : trifold::threads_per_block;
    if (trifold::rows(grad_y).scalar_type() == trifold::ScalarType::Double || columns > team * ELEMENTS_PER_THREAD) {
      if (count > 0) {
        trifold::dispatch_floating(grad_y.scalar_type(), [&]<class T>() {
          const Tensor grad_y_argument = trifold::without_gaps(trifold::rows(grad_y));
          const Tensor y_argument = trifold::without_gaps(trifold::rows(y));
          const Tensor grad_x_argument = trifold::rows(grad_x);
          const trifold::OnDevice device(grad_y);
          trifold::launch<softmax_backward_kernel<T>>(
              device.stream(), trifold::extents(count), trifold::extents(trifold::threads_for(columns)), 0,
              trifold::data<T>(grad_y_argument), grad_y_argument.stride(0), trifold::data<T>(y_argument),
              y_argument.stride(0), trifold::mutable_data<T>(grad_x_argument), grad_x_argument.stride(0), count,
              columns);
          trifold::check_launch();
        });
      }
    } else {
      const int64_t grid = trifold::ceil_div(count * team, trifold::threads_per_block);
      if (grid > 0) {
        trifold::dispatch_floating(grad_y.scalar_type(), [&]<class T>() {
          if constexpr (!std::is_same_v<T, double>) {
            const Tensor grad_y_argument = trifold::without_gaps(trifold::rows(grad_y));
            const Tensor y_argument = trifold::without_gaps(trifold::rows(y));
            const Tensor grad_x_argument = trifold::rows(grad_x);
            const trifold::OnDevice device(grad_y);
            trifold::launch<softmax_backward_rows_kernel<T>>(
                device.stream(), trifold::extents(grid), dim3(trifold::threads_per_block), 0,
                trifold::data<T>(grad_y_argument), grad_y_argument.stride(0), trifold::data<T>(y_argument),
                y_argument.stride(0), trifold::mutable_data<T>(grad_x_argument), grad_x_argument.stride(0), count,
                columns, team);
            trifold::check_launch();
          }
        });
      }
    }
  }
  return grad_x;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&softmax>(m, "softmax");
  trifold::implement<&softmax_backward>(m, "softmax_backward");
}
