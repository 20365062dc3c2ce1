// at::TensorAccessor and at::PackedTensorAccessor32 and 64, through which device code of an extension of torch indexes
// a tensor. A kernel's packed accessor holds address, sizes and strides; RawKernel makes it of a tensor or an array
// (trifold/cpu/raw_arguments.py), by the constants named accessor_*.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace at {

// How an accessor declares its address.
template <typename T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <typename T>
struct RestrictPtrTraits {
  using PtrType = T* __restrict__;
};

// A tensor of N dimensions, or what an index leaves of one. Sizes and strides, the latter in elements, stand elsewhere.
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
class TensorAccessor {
 public:
  using PtrType = typename PtrTraits<T>::PtrType;

  __host__ __device__ TensorAccessor(PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}

  // The element, or an accessor of one dimension less; of a const accessor, that is const.
  __host__ __device__ decltype(auto) operator[](index_t i) { return indexed<false>(data_, sizes_, strides_, i); }
  __host__ __device__ decltype(auto) operator[](index_t i) const { return indexed<true>(data_, sizes_, strides_, i); }

  __host__ __device__ index_t size(index_t dim) const { return sizes_[dim]; }
  __host__ __device__ index_t stride(index_t dim) const { return strides_[dim]; }
  __host__ __device__ const index_t* sizes() const { return sizes_; }
  __host__ __device__ const index_t* strides() const { return strides_; }
  __host__ __device__ PtrType data() const { return data_; }

  // What operator[] returns, of a packed accessor too.
  template <bool is_const>
  __host__ __device__ static decltype(auto) indexed(PtrType data, const index_t* sizes, const index_t* strides,
                                                    index_t i) {
    if constexpr (N == 1) {
      return static_cast<std::conditional_t<is_const, const T, T>&>(data[strides[0] * i]);
    } else {
      using Inner = TensorAccessor<T, N - 1, PtrTraits, index_t>;
      return std::conditional_t<is_const, const Inner, Inner>(data + strides[0] * i, sizes + 1, strides + 1);
    }
  }

 private:
  PtrType data_;
  const index_t* sizes_;
  const index_t* strides_;
};

// A TensorAccessor that holds its sizes and strides: a kernel's parameter.
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
class GenericPackedTensorAccessor {
 public:
  static_assert(N > 0, "an accessor of a tensor without dimensions");
  using Accessor = TensorAccessor<T, N, PtrTraits, index_t>;
  using PtrType = typename Accessor::PtrType;
  using accessor_element = T;
  using accessor_index = index_t;
  static constexpr size_t accessor_dimensions = N;

  __host__ __device__ decltype(auto) operator[](index_t i) {
    return Accessor::template indexed<false>(data_, sizes_, strides_, i);
  }
  __host__ __device__ decltype(auto) operator[](index_t i) const {
    return Accessor::template indexed<true>(data_, sizes_, strides_, i);
  }

  __host__ __device__ index_t size(index_t dim) const { return sizes_[dim]; }
  __host__ __device__ index_t stride(index_t dim) const { return strides_[dim]; }
  __host__ __device__ PtrType data() const { return data_; }

 private:
  T* data_;
  index_t sizes_[N];
  index_t strides_[N];
};

template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, PtrTraits, int32_t>;
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, PtrTraits, int64_t>;
template <typename T, size_t N, template <typename U> class PtrTraits = DefaultPtrTraits, typename index_t = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, PtrTraits, index_t>;

}  // namespace at

namespace torch {
using at::DefaultPtrTraits;
using at::GenericPackedTensorAccessor;
using at::PackedTensorAccessor;
using at::PackedTensorAccessor32;
using at::PackedTensorAccessor64;
using at::RestrictPtrTraits;
using at::TensorAccessor;
}  // namespace torch
