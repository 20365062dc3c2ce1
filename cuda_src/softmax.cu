#include <trifold/rows.h>

#include "softmax.cuh"

namespace {

using trifold::Rows, trifold::Tensor;

template <class T>
void launch_softmax(trifold::Stream stream, const Rows& x, T* y) {
  trifold::launch<softmax_kernel<T>>(stream, trifold::block_a_row(x.count), softmax_block, 0, x.data<T>(), x.stride, y,
                                     x.count, x.columns);
}

template <class T>
void launch_softmax_backward(trifold::Stream stream, const Rows& grad_y, const Rows& y, T* grad_x) {
  trifold::launch<softmax_backward_kernel<T>>(stream, trifold::block_a_row(y.count), softmax_block, 0, grad_y.data<T>(),
                                              grad_y.stride, y.data<T>(), y.stride, grad_x, y.count, y.columns);
}

Tensor softmax(const Tensor& x) {
  trifold::check_floating("softmax", x, "x");
  const Tensor y = trifold::row_output(x);
  if (const Rows rows = trifold::rows_of(x); !rows.empty())
    trifold::dispatch_floating(x.scalar_type(), [&]<class T>() {
      const trifold::OnDevice device(x);
      launch_softmax<T>(device.stream(), rows, trifold::mutable_data<T>(y));
      trifold::check_launch();
    });
  return y;
}

Tensor softmax_backward(const Tensor& grad_y, const Tensor& y) {
  trifold::check_alike("softmax_backward", grad_y, "grad_y", y, "y");
  const Tensor grad_x = trifold::row_output(y);
  if (const Rows rows = trifold::rows_of(y); !rows.empty())
    trifold::dispatch_floating(y.scalar_type(), [&]<class T>() {
      const trifold::OnDevice device(y);
      launch_softmax_backward<T>(device.stream(), trifold::rows_of(grad_y), rows, trifold::mutable_data<T>(grad_x));
      trifold::check_launch();
    });
  return grad_x;
}

}  // namespace

TRIFOLD_LIBRARY(m) {
  trifold::implement<&softmax>(m, "softmax");
  trifold::implement<&softmax_backward>(m, "softmax_backward");
}
