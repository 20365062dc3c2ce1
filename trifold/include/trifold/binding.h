// What a port's binding (cuda_src/<op>.cu) needs from torch, through its stable ABI only: argument checks, dtype
// dispatch, elementwise outputs and launches, and registration. One namespace, no macro but the registration's.
//
//   TRIFOLD_NAMESPACE, TRIFOLD_DISPATCH_KEY   the library to register into, and CPU or CUDA; set by the build.
#pragma once

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
#include <concepts>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace trifold {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

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

// Parts of a message, put into words only if the check fails. (Not streamed: a stream's locale belongs to the C++
// library that the process loaded first, which may be older than this compiler's.)
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
inline std::string in_words(std::integral auto number) {
  return std::to_string(number);
}
inline std::string in_words(Dtype of) {
  return dtype_name(of.tensor.scalar_type());
}
inline std::string in_words(Shape of) {
  std::string text = "(";
  for (int64_t d = 0; d < of.tensor.dim(); ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(of.tensor.size(d));
  }
  return text + (of.tensor.dim() == 1 ? ",)" : ")");
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

inline void check_same_dtype(const char* op, const Tensor& x, const char* x_name, const Tensor& y, const char* y_name) {
  check(x.scalar_type() == y.scalar_type(), op, ": ", x_name, " and ", y_name, " must have the same dtype, but ",
        x_name, " is ", Dtype{x}, " and ", y_name, " is ", Dtype{y}, "; convert one with ", y_name, ".to(", x_name,
        ".dtype)");
}

inline void check_same_device(const char* op, const Tensor& x, const char* x_name, const Tensor& y,
                              const char* y_name) {
  check(x.device() == y.device(), op, ": ", x_name, " and ", y_name, " must be on the same device, but ", x_name,
        " is on ", Place{x}, " and ", y_name, " is on ", Place{y}, "; move one with ", y_name, ".to(", x_name,
        ".device)");
}

inline void check_same_shape(const char* op, const Tensor& x, const char* x_name, const Tensor& y, const char* y_name) {
  bool same = x.dim() == y.dim();
  for (int64_t d = 0; same && d < x.dim(); ++d) same = x.size(d) == y.size(d);
  check(same, op, ": ", x_name, " and ", y_name, " must have the same shape, but ", x_name, " is ", Shape{x}, " and ",
        y_name, " is ", Shape{y}, "; broadcast them first with torch.broadcast_tensors(", x_name, ", ", y_name, ")");
}

// Two tensors that an elementwise op takes together: a floating dtype, one device, one dtype, one shape.
inline void check_alike(const char* op, const Tensor& x, const char* x_name, const Tensor& y, const char* y_name) {
  check_same_device(op, x, x_name, y, y_name);
  check_floating(op, x, x_name);
  check_same_dtype(op, x, x_name, y, y_name);
  check_same_shape(op, x, x_name, y, y_name);
}

// ---------------------------------------------------------------------------------------------------- tensors

// The element at storage offset, as the kernel's own scalar type.
template <class T>
const T* data(const Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}
template <class T>
T* mutable_data(const Tensor& tensor) {
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

// A new, unwritten tensor of the given sizes and strides, with the dtype and device of `like`.
inline Tensor empty_strided(const Tensor& like, const std::vector<int64_t>& sizes,
                            const std::vector<int64_t>& strides) {
  int32_t dtype, device_type, device_index;
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(like.get(), &dtype));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(like.get(), &device_index));
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
                                                  dtype, device_type, device_index, &handle));
  return Tensor(handle);
}

// Strides of a tensor of x's sizes without gaps, its dimensions laid out from the innermost, order[0].
inline std::vector<int64_t> dense_strides(const Tensor& x, const std::vector<int64_t>& order) {
  std::vector<int64_t> strides(order.size());
  int64_t step = 1;
  for (const int64_t d : order) {
    strides[d] = step;
    step *= std::max<int64_t>(x.size(d), 1);
  }
  return strides;
}

// Strides of a new elementwise output, as torch gives them to its own ops: dense, with the dimensions in the order of
// the operands' strides; an earlier operand decides first, and a stride of 0 decides nothing.
template <std::same_as<Tensor>... Operands>
std::vector<int64_t> elementwise_strides(const Tensor& x, const Operands&... others) {
  const int64_t dim = x.dim();
  std::vector<int64_t> order(dim);  // innermost dimension first
  std::iota(order.rbegin(), order.rend(), 0);
  if (x.is_contiguous() && (others.is_contiguous() && ...)) return dense_strides(x, order);
  // < 0: a belongs inside b; > 0: outside; 0: undecided.
  auto compare = [&](int64_t a, int64_t b) {
    int verdict = 0;
    auto look = [&](const Tensor& operand) {
      if (verdict != 0) return;
      const int64_t sa = operand.stride(a), sb = operand.stride(b);
      if (sa == 0 || sb == 0) return;
      if (sa != sb)
        verdict = sa < sb ? -1 : 1;
      else if (x.size(a) > x.size(b))
        verdict = 1;
    };
    look(x);
    (look(others), ...);
    return verdict;
  };
  for (int64_t i = 1; i < dim; ++i)  // an insertion sort that an undecided pair does not stop
    for (int64_t inner = i, j = i - 1; j >= 0; --j) {
      const int verdict = compare(order[j], order[inner]);
      if (verdict > 0) {
        std::swap(order[j], order[inner]);
        inner = j;
      } else if (verdict < 0) {
        break;
      }
    }
  return dense_strides(x, order);
}

// A new, unwritten output for an elementwise op on operands of one shape; strides as `elementwise_strides`.
template <std::same_as<Tensor>... Operands>
Tensor elementwise_output(const Tensor& x, const Operands&... others) {
  const auto sizes = x.sizes();
  return empty_strided(x, {sizes.begin(), sizes.end()}, elementwise_strides(x, others...));
}

// `x`, or a copy of it whose elements lie in the same order as those of the dense tensor `layout`.
inline Tensor in_layout_of(const Tensor& layout, const Tensor& x) {
  bool same = true;
  for (int64_t d = 0; same && d < x.dim(); ++d) same = x.size(d) <= 1 || x.stride(d) == layout.stride(d);
  if (same || x.numel() <= 1) return x;
  const auto sizes = layout.sizes(), strides = layout.strides();
  Tensor copy = empty_strided(x, {sizes.begin(), sizes.end()}, {strides.begin(), strides.end()});
  torch::stable::copy_(copy, x);
  return copy;
}

// ---------------------------------------------------------------------------------------------------- launching

// Makes the device of a tensor current for as long as it lives, and names torch's current stream there.
#ifdef __CUDACC__
class OnDevice {
 public:
  explicit OnDevice(const Tensor& tensor) : guard_(tensor.get_device_index()) {
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream_.handle));
  }
  Stream stream() const { return stream_; }

 private:
  torch::stable::accelerator::DeviceGuard guard_;
  Stream stream_;
};

inline void check_launch() {
  STD_CUDA_KERNEL_LAUNCH_CHECK();
}
#else
class OnDevice {
 public:
  explicit OnDevice(const Tensor&) {}
  Stream stream() const { return {}; }
};

inline void check_launch() {}

// Blocks of a launch are spread over torch's own thread pool; a part is worth a thread from about 2^15 CUDA threads.
inline const bool uses_torch_threads = [] {
  parallel_for = [](int64_t count, void (*body)(int64_t, int64_t, void*), void* context) {
    constexpr int64_t grain = 128;  // blocks
    TORCH_ERROR_CODE_CHECK(torch_parallel_for(0, count, grain, body, context));
  };
  return true;
}();
#endif

// A kernel that moves one element a thread needs 256 or more to a block: with fewer, an H200 starts blocks too slowly
// to keep its memory busy. One that moves 16 bytes does best with 128 over all ops: up to 2% against 256.
inline constexpr int threads_per_block = 256;
inline constexpr int vector_threads_per_block = 128;

// An elementwise map: launches the vector kernel if there are two whole vectors and all pointers lie equally far from a
// 16-byte boundary, else the plain kernel. Both take (in..., out..., n). The outputs must be dense and laid out alike.
template <auto Plain, auto Vectorised, class T, std::size_t Outputs, std::same_as<Tensor>... In>
void launch_elementwise(const std::array<Tensor, Outputs>& outputs, const In&... in) {
  const Tensor& first = outputs[0];
  const int64_t n = first.numel();
  if (n == 0) return;
  const OnDevice device(first);
  auto with_pointers = [&](auto*... pointers) {
    const int to_boundary = elements_to_boundary(data<T>(first));
    const bool aligned = ((elements_to_boundary(pointers) == to_boundary) && ...);
    auto start = [&]<auto Kernel>(int64_t threads, int block) {
      const dim3 grid(static_cast<unsigned>(ceil_div(threads, block)));
      launch<Kernel>(device.stream(), grid, block, 0, pointers..., n);
    };
    constexpr int size = Vector<T>::size;
    if (aligned && n >= 2 * size)
      start.template operator()<Vectorised>(ceil_div(n, size), vector_threads_per_block);
    else
      start.template operator()<Plain>(n, threads_per_block);
  };
  [&](const std::same_as<Tensor> auto&... dense) {
    std::apply([&](const auto&... out) { with_pointers(data<T>(dense)..., mutable_data<T>(out)...); }, outputs);
  }(in_layout_of(first, in)...);
  check_launch();
}

template <auto Plain, auto Vectorised, class T, std::same_as<Tensor>... In>
void launch_elementwise(const Tensor& out, const In&... in) {
  launch_elementwise<Plain, Vectorised, T>(std::array{out}, in...);
}

// ---------------------------------------------------------------------------------------------------- registration

template <class T>
inline constexpr const char* schema_type = nullptr;
template <>
inline constexpr const char* schema_type<Tensor> = "Tensor";
template <>
inline constexpr const char* schema_type<int64_t> = "int";
template <>
inline constexpr const char* schema_type<double> = "float";
template <>
inline constexpr const char* schema_type<bool> = "bool";
template <>
inline constexpr const char* schema_type<std::optional<Tensor>> = "Tensor?";

// A C++ function that this library registers, with the schema that its C++ type stands for. The toolkit compares it
// with the schema in ports/<op>.py before the first call: torch itself would reinterpret the arguments.
struct Implementation {
  const std::string name, schema;
  static inline std::vector<Implementation> all;
};

template <class R>
struct Returns {
  static std::string text() { return schema_type<R>; }
};
template <class... R>
struct Returns<std::tuple<R...>> {
  static std::string text() {
    std::string inner;
    ((inner += (inner.empty() ? "" : ", ") + std::string(schema_type<R>)), ...);
    return "(" + inner + ")";
  }
};

template <class R, class... A>
std::string schema_of(R (*)(A...)) {
  static_assert(((schema_type<std::remove_cvref_t<A>> != nullptr) && ...),
                "an argument of this function has a type that no schema has: use Tensor, std::optional<Tensor>, "
                "int64_t, double or bool");
  std::string inner;
  ((inner += (inner.empty() ? "" : ", ") + std::string(schema_type<std::remove_cvref_t<A>>)), ...);
  return "(" + inner + ") -> " + Returns<R>::text();
}

// Registers `Function` as the implementation of the operator `name` for this library's dispatch key.
template <auto Function>
void implement(torch::stable::detail::StableLibrary& library, const char* name) {
  Implementation::all.push_back({name, schema_of(Function)});
  library.impl(name, TORCH_BOX(Function));
}

}  // namespace trifold

// What this library holds, as lines "implementation<TAB>name<TAB>schema" and "branch<TAB>kernel<TAB>launches".
// The text lives until the next call on the same thread.
extern "C" [[gnu::visibility("default"), gnu::used]] inline const char* trifold_manifest() {
  static thread_local std::string text;
  text.clear();
  for (const auto& function : trifold::Implementation::all)
    text += "implementation\t" + function.name + "\t" + function.schema + "\n";
  for (const auto* branch = trifold::Branch::first; branch != nullptr; branch = branch->next)
    text += "branch\t" + branch->name + "\t" + std::to_string(branch->launches.load()) + "\n";
  return text.c_str();
}

#define TRIFOLD_LIBRARY(m) STABLE_TORCH_LIBRARY_IMPL(TRIFOLD_NAMESPACE, TRIFOLD_DISPATCH_KEY, m)
