// swiglu: out = silu(gate) · up, elementwise over n numbers of one type, with silu(g) = g·σ(g) and
// σ(g) = 1 / (1 + exp(-g)). Backward: grad_gate = grad · up · σ·(1 + g·(1 - σ)), grad_up = grad · silu(g).
//
// Forward moves 3·sizeof(T) bytes an element, backward 5·sizeof(T): bound by memory. Half types are computed in float
// and rounded once.
#pragma once

#include <trifold/cuda.cuh>
#include <trifold/sigmoid.cuh>
#include <trifold/vector.cuh>

// exp may overflow to inf: the quotient is then 0.
template <class T>
__device__ __forceinline__ trifold::compute_t<T> sigmoid_of(trifold::compute_t<T> g) {
#ifdef TRIFOLD_GPU_ARCH
  if constexpr (sizeof(T) == 2) return trifold::fast_sigmoid(g);
#endif
  using C = trifold::compute_t<T>;
  return C(1) / (C(1) + exp(-g));
}

// A quotient by 1 + exp(-g) instead of a product with σ(g): where σ(g) is subnormal and has lost digits, the result is
// still a normal number. Half types have fewer digits than are left.
template <class T>
__device__ __forceinline__ trifold::compute_t<T> silu(trifold::compute_t<T> g) {
#ifdef TRIFOLD_GPU_ARCH
  if constexpr (sizeof(T) == 2) return g * trifold::fast_sigmoid(g);
#endif
  using C = trifold::compute_t<T>;
  return g / (C(1) + exp(-g));
}

// The gradients of gate and up.
template <class T, class C>
__device__ __forceinline__ trifold::Pack<C, 2> swiglu_gradients(C grad, C g, C up) {
  const C s = sigmoid_of<T>(g);
  return {grad * up * (s * (C(1) + g * (C(1) - s))), grad * (g * s)};
}

template <class T>
__global__ void swiglu_kernel(const T* gate, const T* up, T* out, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = trifold::thread_index();
  if (i < n) out[i] = T(silu<T>(C(gate[i])) * C(up[i]));
}

template <class T>
__global__ void swiglu_vector_kernel(const T* gate, const T* up, T* out, trifold::Share share) {
  trifold::map_vectors([](auto gate, auto up) { return silu<T>(gate) * up; }, out, share, gate, up);
}

template <class T>
__global__ void swiglu_backward_kernel(const T* grad, const T* gate, const T* up, T* __restrict__ grad_gate,
                                       T* __restrict__ grad_up, int64_t n) {
  using C = trifold::compute_t<T>;
  const int64_t i = trifold::thread_index();
  if (i < n) {
    const auto gradients = swiglu_gradients<T>(C(grad[i]), C(gate[i]), C(up[i]));
    grad_gate[i] = T(gradients.value[0]);
    grad_up[i] = T(gradients.value[1]);
  }
}

template <class T>
__global__ void swiglu_backward_vector_kernel(const T* grad, const T* gate, const T* up, T* grad_gate, T* grad_up,
                                              trifold::Share share) {
  trifold::map_vectors([](auto grad, auto gate, auto up) { return swiglu_gradients<T>(grad, gate, up); },
                       trifold::Pack{grad_gate, grad_up}, share, grad, gate, up);
}
