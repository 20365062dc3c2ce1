// The parts of torch that a port's binding (cuda_src/<op>.cu) needs, through the stable ABI only: argument checks,
// dtype dispatch, elementwise outputs and launches; and registration (registration.h). All in one namespace; the only
// macro is registration's.
#pragma once

#include <trifold/registration.h>
#include <trifold/launch.cuh>
#include <trifold/vector.cuh>

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// torch 2.13 and newer have it.
extern "C" __attribute__((weak)) const char* torch_exception_get_what_without_backtrace();

namespace trifold {

using Dims = torch::headeronly::IntHeaderOnlyArrayRef;  // sizes or strides, borrowed

// ---------------------------------------------------------------------------------------------------- checks

inline std::string dtype_name(ScalarType type) {
  switch (type) {
    case ScalarType::Double: return "float64";
    case ScalarType::Float: return "float32";
    case ScalarType::Half: return "float16";
    case ScalarType::BFloat16: return "bfloat16";
    case ScalarType::Long: return "int64";
    case ScalarType::Int: return "int32";
    case ScalarType::Short: return "int16";
    case ScalarType::Char: return "int8";
    case ScalarType::Byte: return "uint8";
    case ScalarType::Bool: return "bool";
    case ScalarType::ComplexFloat: return "complex64";
    case ScalarType::ComplexDouble: return "complex128";
    default: return "dtype " + std::to_string(static_cast<int>(type));
  }
}

// Parts of a message, formatted only if the check fails. (Not streamed: a stream's locale belongs to the C++ library
// that the process loaded first, which may be older than this compiler's.)
struct Shape {
  const Tensor& tensor;
};
struct Dtype {
  const Tensor& tensor;
};
struct Place {
  const Tensor& tensor;
};

inline std::string in_words(std::string_view text) {
  return std::string(text);
}
// Formats a bool, int or float as Python does: a float by the fewest digits that identify it.
template <std::integral Number>
std::string in_words(Number number) {
  if constexpr (std::is_same_v<Number, bool>)
    return number ? "True" : "False";
  else
    return std::to_string(number);
}
inline std::string in_words(std::floating_point auto of) {
  const double number = of;
  if (!std::isfinite(number)) return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  char text[32];
  int decimals = -1;
  do std::snprintf(text, sizeof text, "%.*e", ++decimals, number);
  while (std::strtod(text, nullptr) != number);
  const int exponent = std::atoi(std::strchr(text, 'e') + 1);
  if (-4 <= exponent && exponent < 16)
    std::snprintf(text, sizeof text, "%.*f", std::max(decimals - exponent, 1), number);
  return text;
}
inline std::string in_words(ScalarType type) {
  return dtype_name(type);
}
inline std::string in_words(Dtype of) {
  return dtype_name(of.tensor.scalar_type());
}
inline std::string in_words(Dims sizes) {
  std::string text = "(";
  for (std::size_t d = 0; d < sizes.size(); ++d) text += (d > 0 ? ", " : "") + std::to_string(sizes[d]);
  return text + (sizes.size() == 1 ? ",)" : ")");
}
inline std::string in_words(Shape of) {
  return in_words(of.tensor.sizes());
}
inline std::string in_words(Place of) {
  const auto device = of.tensor.device();
  if (device.is_cuda()) return "cuda:" + std::to_string(device.index());
  return device.is_cpu() ? "cpu" : "another device";
}

template <class... Parts>
[[noreturn, gnu::noinline, gnu::cold]] void fail(const Parts&... parts) {
  throw std::runtime_error((in_words(parts) + ...));
}

// Raises RuntimeError in Python with the parts as its message.
template <class... Parts>
void check(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail(parts...);
}

inline void check_floating(const char* op, const Tensor& x, const char* name) {
  const auto type = x.scalar_type();
  check(type == ScalarType::Double || type == ScalarType::Float || type == ScalarType::Half ||
            type == ScalarType::BFloat16,
        op, ": ", name, " must be float64, float32, float16 or bfloat16, not ", Dtype{x}, "; convert it with ", name,
        ".to(torch.float32)");
}

// libtorch's own codes for dtype and device. Every accessor of Tensor is a call into libtorch, and converting to the
// types of scalar_type() and device() needs ten more: for comparisons the codes are enough.
inline int32_t dtype_code(const Tensor& tensor) {
  int32_t dtype;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  return dtype;
}
inline int32_t dtype_code(ScalarType type) {
  return torch::stable::detail::to<int32_t>(torch::stable::detail::from(type));
}
inline int32_t device_type_code(const Tensor& tensor) {
  int32_t type;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &type));
  return type;
}

inline void check_same_dtype(const char* op, const Tensor& x, const char* x_name, const Tensor& y, const char* y_name) {
  check(dtype_code(x) == dtype_code(y), op, ": ", x_name, " and ", y_name, " must have the same dtype, but ", x_name,
        " is ", Dtype{x}, " and ", y_name, " is ", Dtype{y}, "; convert one with ", y_name, ".to(", x_name, ".dtype)");
}

inline void check_same_device(const char* op, const Tensor& x, const char* x_name, const Tensor& y,
                              const char* y_name) {
  const bool same = device_type_code(x) == device_type_code(y) && x.get_device_index() == y.get_device_index();
  check(same, op, ": ", x_name, " and ", y_name, " must be on the same device, but ", x_name, " is on ", Place{x},
        " and ", y_name, " is on ", Place{y}, "; move one with ", y_name, ".to(", x_name, ".device)");
}

inline void check_same_shape(const char* op, const Tensor& x, const char* x_name, const Tensor& y, const char* y_name) {
  const auto x_sizes = x.sizes(), y_sizes = y.sizes();
  const bool same = std::equal(x_sizes.begin(), x_sizes.end(), y_sizes.begin(), y_sizes.end());
  check(same, op, ": ", x_name, " and ", y_name, " must have the same shape, but ", x_name, " is ", Shape{x}, " and ",
        y_name, " is ", Shape{y}, "; broadcast them first with torch.broadcast_tensors(", x_name, ", ", y_name, ")");
}

// Checks two operands of an elementwise op: a floating dtype, and equal devices, dtypes and shapes.
inline void check_alike(const char* op, const Tensor& x, const char* x_name, const Tensor& y, const char* y_name) {
  check_same_device(op, x, x_name, y, y_name);
  check_floating(op, x, x_name);
  check_same_dtype(op, x, x_name, y, y_name);
  check_same_shape(op, x, x_name, y, y_name);
}

// ---------------------------------------------------------------------------------------------------- tensors

#ifndef TRIFOLD_CPU
inline void note_argument(const Tensor&, std::size_t) {}
inline void note_fresh(const Tensor&) {}
#else
// Calls use(begin, bytes) with the memory range of the tensor's elements, unless it has none.
template <class Use>
void with_extent(const Tensor& tensor, std::size_t element_bytes, Use&& use) {
  if (tensor.numel() == 0) return;
  const Dims sizes = tensor.sizes(), strides = tensor.strides();
  int64_t first = 0, last = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) (strides[d] < 0 ? first : last) += (sizes[d] - 1) * strides[d];
  const auto bytes = static_cast<int64_t>(element_bytes);
  use(static_cast<const char*>(tensor.const_data_ptr()) + first * bytes,
      static_cast<std::size_t>((last - first + 1) * bytes));
}
// Record the memory of a kernel's argument; and that the memory of a new tensor is uninitialised.
inline void note_argument(const Tensor& tensor, std::size_t element_bytes) {
  if constexpr (cpu::checked)
    with_extent(tensor, element_bytes, [](const void* begin, std::size_t bytes) { cpu::note_tensor(begin, bytes); });
}
inline void note_fresh(const Tensor& tensor) {
  if constexpr (cpu::checked) {
    const std::size_t element_bytes = tensor.element_size();
    with_extent(tensor, element_bytes,
                [&](const void* begin, std::size_t bytes) { cpu::note_fresh(begin, bytes, element_bytes); });
  }
}
#endif

// A pointer to the element at the storage offset, as the kernel's scalar type.
template <class T>
const T* data(const Tensor& tensor) {
  note_argument(tensor, sizeof(T));
  return static_cast<const T*>(tensor.const_data_ptr());
}
template <class T>
T* mutable_data(const Tensor& tensor) {
  note_argument(tensor, sizeof(T));
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// Calls f.template operator()<T>() with the C++ type of a floating dtype.
template <class F>
decltype(auto) dispatch_floating(ScalarType type, F&& f) {
  switch (type) {
    case ScalarType::Double: return f.template operator()<double>();
    case ScalarType::Float: return f.template operator()<float>();
    case ScalarType::Half: return f.template operator()<__half>();
    case ScalarType::BFloat16: return f.template operator()<__nv_bfloat16>();
    default: throw std::runtime_error("trifold: no kernel for dtype " + dtype_name(type));
  }
}

// A new, uninitialised tensor of the given sizes, strides and dtype, on the device of `like`. Raises if torch cannot
// allocate it.
inline Tensor empty_strided(const Tensor& like, Dims sizes, Dims strides, int32_t dtype) {
  AtenTensorHandle handle = nullptr;
  const AOTITorchError status =
      aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype,
                               device_type_code(like), like.get_device_index(), &handle);
  if (status != AOTI_TORCH_SUCCESS) [[unlikely]] {
    const bool known = torch_exception_get_what_without_backtrace != nullptr;
    fail("torch cannot allocate a result of shape ", sizes, " on ", Place{like}, ": ",
         known ? torch_exception_get_what_without_backtrace() : "it is out of memory, or the shape is invalid");
  }
  Tensor made(handle);
  note_fresh(made);
  return made;
}

// The same, with the dtype of `like`.
inline Tensor empty_strided(const Tensor& like, Dims sizes, Dims strides) {
  return empty_strided(like, sizes, strides, dtype_code(like));
}

// The same, contiguous in row-major order; for few dimensions without any other allocation.
inline Tensor empty_contiguous(const Tensor& like, Dims sizes, int32_t dtype) {
  std::array<int64_t, 8> few;
  std::vector<int64_t> many(sizes.size() > few.size() ? sizes.size() : 0);
  int64_t* const strides = many.empty() ? few.data() : many.data();
  int64_t step = 1;
  for (std::size_t d = sizes.size(); d-- > 0; step *= std::max<int64_t>(sizes[d], 1)) strides[d] = step;
  return empty_strided(like, sizes, Dims(strides, sizes.size()), dtype);
}
inline Tensor empty_contiguous(const Tensor& like, Dims sizes) {
  return empty_contiguous(like, sizes, dtype_code(like));
}

// The dimensions of a new elementwise output from the innermost to the outermost, in the order that torch uses for its
// own ops: by the operands' strides; earlier operands have priority, and strides of 0 are ignored.
inline std::vector<int64_t> elementwise_order(Dims sizes, std::initializer_list<Dims> operand_strides) {
  std::vector<int64_t> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);
  // < 0: a is inside b; > 0: outside; 0: undecided.
  auto compare = [&](int64_t a, int64_t b) {
    for (const Dims& strides : operand_strides) {
      if (strides[a] == 0 || strides[b] == 0) continue;
      if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
      if (sizes[a] > sizes[b]) return 1;
    }
    return 0;
  };
  for (std::size_t i = 1; i < order.size(); ++i)  // an insertion sort that continues past undecided pairs
    for (std::size_t inner = i, j = i; j-- > 0;) {
      const int verdict = compare(order[j], order[inner]);
      if (verdict > 0) {
        std::swap(order[j], order[inner]);
        inner = j;
      } else if (verdict < 0) {
        break;
      }
    }
  return order;
}

// A new, uninitialised output of an elementwise op on operands of one shape: dense, with its dimensions in
// `elementwise_order`.
template <std::same_as<Tensor>... Operands>
Tensor elementwise_output(const Tensor& x, const Operands&... others) {
  const Dims sizes = x.sizes();
  if (x.is_contiguous() && (others.is_contiguous() && ...)) return empty_contiguous(x, sizes);
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (const int64_t d : elementwise_order(sizes, {x.strides(), others.strides()...}))
    strides[d] = std::exchange(step, step * std::max<int64_t>(sizes[d], 1));
  return empty_strided(x, sizes, strides);
}

// `x`, or a copy of it whose elements have the same order in memory as those of the dense tensor `layout`.
inline Tensor in_layout_of(const Tensor& layout, const Tensor& x) {
  if (x.is_contiguous() && layout.is_contiguous()) return x;
  const Dims sizes = x.sizes(), strides = x.strides(), wanted = layout.strides();
  bool same = true;
  for (std::size_t d = 0; same && d < sizes.size(); ++d) same = sizes[d] <= 1 || strides[d] == wanted[d];
  if (same || x.numel() <= 1) return x;
  Tensor copy = empty_strided(x, sizes, wanted);
  torch::stable::copy_(copy, x);
  return copy;
}

// ---------------------------------------------------------------------------------------------------- launching

#ifndef TRIFOLD_CPU
// Whether a device supports wait_for_earlier_kernels(): from compute capability 9.0 on. Queried once for each device.
inline bool starts_early(int32_t device) {
  static std::array<std::atomic<int>, 64> majors{};
  auto ask = [device] {
    int major = 0;
    STD_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    return major;
  };
  if (device >= static_cast<int32_t>(majors.size())) return ask() >= 9;
  std::atomic<int>& known = majors[device];
  if (known.load(std::memory_order_relaxed) == 0) known.store(ask(), std::memory_order_relaxed);
  return known.load(std::memory_order_relaxed) >= 9;
}

// Makes the device of a tensor current during its lifetime; stream() is torch's current stream there.
class OnDevice {
 public:
  explicit OnDevice(const Tensor& tensor) {
    const int32_t index = tensor.get_device_index();
    int current = -1;
    // torch's guard lives on the heap and asks for the current device several times
    if (cudaGetDevice(&current) != cudaSuccess || current != index) guard_.emplace(index);
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(index, &stream_.handle));
    stream_.starts_early = starts_early(index);
  }
  Stream stream() const { return stream_; }

 private:
  std::optional<torch::stable::accelerator::DeviceGuard> guard_;
  Stream stream_;
};

// Multiprocessors of the current device.
inline int64_t multiprocessors() {
  int device = 0, count = 0;
  STD_CUDA_CHECK(cudaGetDevice(&device));
  STD_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

inline void check_launch() {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) [[unlikely]]
    STD_CUDA_CHECK(error);
}
#else
class OnDevice {
 public:
  explicit OnDevice(const Tensor&) {}
  Stream stream() const {
#ifdef TRIFOLD_GPU_PATHS
    return {.starts_early = TRIFOLD_GPU_PATHS >= 900};
#else
    return {};
#endif
  }
};

// Few, so that small results give each one work.
constexpr int64_t multiprocessors() {
  return 2;
}

inline void check_launch() {}

// Blocks of a launch run on torch's own thread pool; using a thread pays off from about 2^15 CUDA threads on.
inline const bool uses_torch_threads = [] {
  parallel_for = [](int64_t count, void (*body)(int64_t, int64_t, void*), void* context) {
    constexpr int64_t grain = 128;  // blocks
    if (count <= grain) return body(0, count, context);
    TORCH_ERROR_CODE_CHECK(torch_parallel_for(0, count, grain, body, context));
  };
  return true;
}();
#endif

// Up to this size, if neither kernel starts early, the plain one is faster (by 2 to 8% on an H200): the launch is bound
// by latency, and with one element per thread the fewest instructions precede the first load. Above, 16 bytes per
// thread keep the memory busy.
template <class T>
inline constexpr int64_t few_elements = sizeof(T) == 2 ? 1 << 13 : 1 << 16;

// Launches an elementwise map. The plain kernel has the parameters (in..., out..., n) and blocks of
// `threads_per_block`. The vector kernel has the parameters (in..., out..., share), where pointers point to the first
// vector, and must start with map_vectors or wait_for_earlier_kernels; nullptr: there is none. It is launched if all
// pointers have the same offset from a 16-byte boundary: with at least one vector if the device can start it early,
// else with more than a few elements. The outputs must be dense and have the same layout.
template <auto Plain, auto Vectorised, class T, std::size_t Outputs, std::same_as<Tensor>... In>
void launch_elementwise(const std::array<Tensor, Outputs>& outputs, const In&... in) {
  const Tensor& first = outputs[0];
  const int64_t n = first.numel();
  if (n == 0) return;
  const OnDevice device(first);
  auto blocks = [](int64_t threads, int block) { return dim3(static_cast<unsigned>(ceil_div(threads, block))); };
  auto choose = [&](auto*... pointers) {
    const Stream stream = device.stream();
    if constexpr (!std::same_as<decltype(Vectorised), std::nullptr_t>) {
      const int head = elements_to_boundary(data<T>(first));
      const Share share = share_out<T>(n, head);
      const bool worth_it = stream.starts_early ? share.vectors > 0 : n > few_elements<T>;
      if (worth_it && ((elements_to_boundary(pointers) == head) && ...))
        return launch_early<Vectorised>(stream, blocks(share.threads(), vector_block), vector_block, 0,
                                        (pointers + head)..., share);
    }
    launch<Plain>(stream, blocks(n, threads_per_block), threads_per_block, 0, pointers..., n);
  };
  [&](const std::same_as<Tensor> auto&... dense) {
    std::apply([&](const auto&... out) { choose(data<T>(dense)..., mutable_data<T>(out)...); }, outputs);
  }(in_layout_of(first, in)...);
  check_launch();
}

template <auto Plain, auto Vectorised, class T, std::same_as<Tensor>... In>
void launch_elementwise(const Tensor& out, const In&... in) {
  launch_elementwise<Plain, Vectorised, T>(std::array{out}, in...);
}

// Converts an argument of an op to one of a kernel of T: a tensor to a pointer to its elements, an absent tensor to
// nullptr, anything else unchanged. `dense` must live until the launch.
template <class T>
const T* kernel_argument(const Tensor& dense) {
  return data<T>(dense);
}
template <class T>
const T* kernel_argument(const std::optional<Tensor>& dense) {
  return dense ? data<T>(*dense) : nullptr;
}
template <class T, class Other>
Other kernel_argument(const Other& other) {
  return other;
}

inline std::optional<Tensor> in_layout_of(const Tensor& layout, const std::optional<Tensor>& x) {
  return x ? std::optional(in_layout_of(layout, *x)) : std::nullopt;
}
template <class Other>
Other in_layout_of(const Tensor&, const Other& other) {
  return other;
}

// Launches a kernel with one element per thread, (arguments..., out, n), in blocks of `threads_per_block`. `out` is
// dense; the tensors among the arguments must have its shape, and are copied to its layout if theirs differs.
template <auto Kernel, class T, class... Args>
void launch_each(const Tensor& out, const Args&... args) {
  const int64_t n = out.numel();
  if (n == 0) return;
  const OnDevice device(out);
  const dim3 grid(static_cast<unsigned>(ceil_div(n, threads_per_block)));
  [&](const auto&... dense) {
    launch<Kernel>(device.stream(), grid, threads_per_block, 0, kernel_argument<T>(dense)..., mutable_data<T>(out), n);
  }(in_layout_of(out, args)...);
  check_launch();
}

}  // namespace trifold
