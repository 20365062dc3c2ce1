// For drafted bindings: what a prototype's launch function can call (trifold.prototype, and methods of torch's
// tensors).
#pragma once

#include <trifold/rows.h>
#include <trifold/python_numbers.cuh>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace trifold {

inline bool same_dtype(const Tensor& a, const Tensor& b) {
  return dtype_code(a) == dtype_code(b);
}

inline bool same_device(const Tensor& a, const Tensor& b) {
  return device_type_code(a) == device_type_code(b) && a.get_device_index() == b.get_device_index();
}

inline bool same_sizes(Dims a, Dims b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

inline bool same_memory(const Tensor& a, const Tensor& b) {
  return a.get() == b.get() || (a.numel() > 0 && a.const_data_ptr() == b.const_data_ptr());
}

inline int64_t product(Dims numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{1}, std::multiplies<int64_t>());
}

// The sum, the smallest and the largest of a list's numbers.
template <class Numbers>
auto sum_of(const Numbers& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::decay_t<decltype(*numbers.begin())>{});
}
template <class Numbers>
auto min_of(const Numbers& numbers) {
  check(numbers.begin() != numbers.end(), "min of no numbers");
  return *std::min_element(numbers.begin(), numbers.end());
}
template <class Numbers>
auto max_of(const Numbers& numbers) {
  check(numbers.begin() != numbers.end(), "max of no numbers");
  return *std::max_element(numbers.begin(), numbers.end());
}

// The sizes of the dimensions from `start` on, without the last -`stop`; and their product.
inline Dims sizes_of(const Tensor& x, int64_t start, int64_t stop) {
  const Dims all = x.sizes();
  const int64_t count = std::max<int64_t>(static_cast<int64_t>(all.size()) - start + stop, 0);
  return Dims(all.data() + (count > 0 ? start : 0), static_cast<std::size_t>(count));
}
inline int64_t count_of(const Tensor& x, int64_t start, int64_t stop) {
  return product(sizes_of(x, start, stop));
}

// The sizes of several dimensions, and single ones, in one list.
inline void append(std::vector<int64_t>& list, Dims sizes) {
  list.insert(list.end(), sizes.begin(), sizes.end());
}
inline void append(std::vector<int64_t>& list, int64_t size) {
  list.push_back(size);
}
template <class... Parts>
std::vector<int64_t> sizes(const Parts&... parts) {
  std::vector<int64_t> list;
  (append(list, parts), ...);
  return list;
}

// A list of sizes with another one at `index`, which counts from the end if it is negative.
inline std::vector<int64_t> with_size(Dims sizes, int64_t index, int64_t size) {
  const int64_t count = static_cast<int64_t>(sizes.size());
  check(index >= -count && index < count, "trifold: index ", index, " of ", count, " sizes");
  std::vector<int64_t> list(sizes.begin(), sizes.end());
  list[static_cast<std::size_t>(index < 0 ? index + count : index)] = size;
  return list;
}
// Likewise, without the one at `index`.
inline std::vector<int64_t> without_size(Dims sizes, int64_t index) {
  std::vector<int64_t> list = with_size(sizes, index, 0);
  list.erase(index < 0 ? list.end() + index : list.begin() + index);
  return list;
}

// The end of a part of `count` elements, as in Python: a negative one counts from the last element, and a part ends
// where the whole does.
inline int64_t end_within(int64_t count, int64_t end) {
  return std::clamp<int64_t>(end < 0 ? end + count : end, 0, count);
}

// A part of a list: numbers[start:stop].
inline std::vector<int64_t> part_of(Dims numbers, int64_t start, int64_t stop = std::numeric_limits<int64_t>::max()) {
  const int64_t count = static_cast<int64_t>(numbers.size());
  const int64_t first = end_within(count, start);
  return {numbers.begin() + first, numbers.begin() + std::max(first, end_within(count, stop))};
}

// For each size what f(place, size) returns, without those for which it returns nothing.
template <class F>
std::vector<int64_t> sizes_by(Dims sizes, F&& f) {
  std::vector<int64_t> list;
  for (std::size_t place = 0; place < sizes.size(); ++place)
    if (const std::optional<int64_t> size = f(static_cast<int64_t>(place), sizes[place])) list.push_back(*size);
  return list;
}
template <class F>
bool all_of(Dims sizes, F&& f) {
  return std::all_of(sizes.begin(), sizes.end(), f);
}
template <class F>
bool any_of(Dims sizes, F&& f) {
  return std::any_of(sizes.begin(), sizes.end(), f);
}

// The shape to which shapes are broadcast: torch.broadcast_shapes.
inline std::vector<int64_t> broadcast_shapes(std::initializer_list<Dims> shapes) {
  std::vector<int64_t> made;
  for (const Dims& shape : shapes) made.insert(made.begin(), shape.size() - std::min(shape.size(), made.size()), 1);
  for (const Dims& shape : shapes) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      int64_t& size = made[made.size() - shape.size() + d];
      check(size == 1 || shape[d] == 1 || size == shape[d], "shapes do not broadcast: ", shape, " has ", shape[d],
            " where another one has ", size);
      if (size == 1) size = shape[d];
    }
  }
  return made;
}

// A view of `x` in which dimensions of one element have other sizes: x.expand(sizes); -1 leaves a size.
inline Tensor expand(const Tensor& x, Dims sizes) {
  const std::size_t count = static_cast<std::size_t>(x.dim());
  check(sizes.size() >= count, "a tensor of shape ", Shape{x}, " is not expanded to ", sizes);
  std::vector<int64_t> made(sizes.begin(), sizes.end()), strides(sizes.size(), 0);
  for (std::size_t d = 0; d < count; ++d) {
    const std::size_t at = sizes.size() - count + d;
    const int64_t own = x.size(static_cast<int64_t>(d));
    if (made[at] == -1) made[at] = own;
    check(own == made[at] || own == 1, "a tensor of shape ", Shape{x}, " is not expanded to ", sizes);
    if (own == made[at]) strides[at] = x.stride(static_cast<int64_t>(d));
  }
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch__reinterpret_tensor(x.get(), static_cast<int64_t>(made.size()), made.data(),
                                                        strides.data(), /*offset_increment=*/0, &handle));
  return Tensor(handle);
}

// A part of a tensor: x.narrow(dim, start, length), which raises where there is less.
inline Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  const int64_t size = x.size(dim), first = start < 0 ? start + size : start;
  check(first >= 0 && length >= 0 && first + length <= size, "a tensor of shape ", Shape{x}, " has no ", length,
        " elements from ", start, " on in dimension ", dim);
  return torch::stable::narrow(const_cast<Tensor&>(x), dim, first, length);
}
// Piece `place` of the `count` pieces of x.split(size, dim), x.chunk(count, dim) and x.unbind(dim).
inline Tensor piece(const Tensor& x, int64_t dim, int64_t size, int64_t place, int64_t count) {
  const int64_t all = x.size(dim), pieces = all == 0 ? 1 : size > 0 ? ceil_div(all, size) : 0;
  check(pieces == count, "a tensor of shape ", Shape{x}, " has ", pieces, " pieces of ", size, ", not ", count);
  return narrow(x, dim, place * size, std::min(size, all - place * size));
}
inline Tensor chunk(const Tensor& x, int64_t dim, int64_t place, int64_t count) {
  const int64_t all = x.size(dim);
  if (all == 0) return narrow(x, dim, 0, 0);
  return piece(x, dim, ceil_div(all, count), place, count);
}
inline Tensor unbound(const Tensor& x, int64_t dim, int64_t place, int64_t count) {
  check(x.size(dim) == count, "a tensor of shape ", Shape{x}, " has ", x.size(dim), " parts, not ", count);
  return torch::stable::select(x, dim, place);
}
inline void check_split(const Tensor& x, int64_t dim, Dims sizes) {
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  check(all == x.size(dim), "sizes ", sizes, " do not add up to a size of ", Shape{x});
}

// Whether a table of keys and values has a key; and the value of a key.
template <class Value, std::size_t count>
bool has_entry(const std::pair<int64_t, Value> (&table)[count], int64_t key) {
  return std::any_of(table, table + count, [&](const auto& entry) { return entry.first == key; });
}
template <class Value, std::size_t count>
Value entry(const std::pair<int64_t, Value> (&table)[count], int64_t key) {
  for (const auto& [each, value] : table)
    if (each == key) return value;
  fail("trifold: a table has no entry for ", key);
}

// The memory of `x` as elements of another dtype: torch's x.view(dtype).
inline Tensor view_as(const Tensor& x, ScalarType dtype) {
  std::array<StableIValue, 2> stack{torch::stable::detail::from(x), torch::stable::detail::from(dtype)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::view", "dtype", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// The memory of complex numbers as real ones, with a last dimension of two, and the reverse: torch.view_as_real.
inline Tensor viewed_by(const char* op, const Tensor& x) {
  std::array<StableIValue, 1> stack{torch::stable::detail::from(x)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(op, "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}
inline Tensor view_as_real(const Tensor& x) {
  return viewed_by("aten::view_as_real", x);
}
inline Tensor view_as_complex(const Tensor& x) {
  return viewed_by("aten::view_as_complex", x);
}

// `x` with a dimension moved to another place: x.movedim(from, to).
inline Tensor movedim(const Tensor& x, int64_t from, int64_t to) {
  const int64_t dimensions = x.dim();
  check(std::min(from, to) >= -dimensions && std::max(from, to) < dimensions, "movedim: ", from, " or ", to,
        " is no dimension of a tensor of shape ", Shape{x});
  from += from < 0 ? dimensions : 0;
  to += to < 0 ? dimensions : 0;
  Tensor moved = x;
  for (const int64_t step = from < to ? 1 : -1; from != to; from += step)
    moved = torch::stable::transpose(moved, from, from + step);
  return moved;
}

// An output as `elementwise_output(x)`, of another dtype: torch.empty_like(x, dtype=...).
inline Tensor elementwise_output_of(const Tensor& x, int32_t dtype) {
  if (x.is_contiguous()) return empty_contiguous(x, x.sizes(), dtype);
  const Tensor same = elementwise_output(x);
  return empty_strided(x, same.sizes(), same.strides(), dtype);
}

// Without a dimension of one element: x.squeeze(dim); else `x` itself.
inline Tensor squeeze(const Tensor& x, int64_t dim) {
  return x.dim() > 0 && x.size(dim) == 1 ? torch::stable::select(x, dim, 0) : x;
}

inline int64_t address(const Tensor& x) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(x.const_data_ptr()));
}

inline bool is_floating_point(ScalarType type) {
  return type == ScalarType::Double || type == ScalarType::Float || type == ScalarType::Half ||
         type == ScalarType::BFloat16;
}

inline bool is_complex(ScalarType type) {
  return type == ScalarType::ComplexDouble || type == ScalarType::ComplexFloat;
}

template <class T>
constexpr ScalarType scalar_type_of() {
  if constexpr (std::is_same_v<T, double>)
    return ScalarType::Double;
  else if constexpr (std::is_same_v<T, float>)
    return ScalarType::Float;
  else if constexpr (std::is_same_v<T, __half>)
    return ScalarType::Half;
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return ScalarType::BFloat16;
  else if constexpr (std::is_same_v<T, int64_t>)
    return ScalarType::Long;
  else if constexpr (std::is_same_v<T, int32_t>)
    return ScalarType::Int;
  else if constexpr (std::is_same_v<T, int16_t>)
    return ScalarType::Short;
  else if constexpr (std::is_same_v<T, int8_t>)
    return ScalarType::Char;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return ScalarType::Byte;
  else {
    static_assert(std::is_same_v<T, bool>);
    return ScalarType::Bool;
  }
}

// Calls f.template operator()<T>() with the type that corresponds to a dtype.
template <class... Types, class F>
void dispatch_dtypes(ScalarType type, F&& f) {
  const bool known = ((scalar_type_of<Types>() == type && (f.template operator()<Types>(), true)) || ...);
  check(known, "trifold: no kernel for dtype ", dtype_name(type));
}

// Calls f.template operator()<T>() with the type that has `bytes` bytes.
template <class... Types, class F>
void dispatch_sizes(std::size_t bytes, F&& f) {
  const bool known = ((sizeof(Types) == bytes && (f.template operator()<Types>(), true)) || ...);
  check(known, "trifold: no kernel for elements of ", bytes, " bytes");
}

// The number of binary digits.
inline int64_t bit_length(int64_t number) {
  int64_t digits = 0;
  for (; number != 0; number /= 2) ++digits;
  return digits;
}

// A float64, rounded to float32 unless `wide`.
inline double rounded_unless(bool wide, double number) {
  return wide ? number : static_cast<double>(static_cast<float>(number));
}

// Python's format :g.
inline std::string in_digits(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

// As printf does, which writes %.3f, %e and such as Python does.
inline std::string in_format(const char* format, double number) {
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, number)), '\0');
  std::snprintf(text.data(), text.size() + 1, format, number);
  return text;
}

// A list of integers in a message, as Python writes it.
struct List {
  Dims numbers;
};
inline std::string in_words(List of) {
  std::string text;
  for (const int64_t number : of.numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

// The limits of a floating type, by the names of torch.finfo.
struct FloatLimits {
  double min, max, eps, tiny;
};
template <class T>
FloatLimits float_limits() {
  using limits = std::numeric_limits<T>;
  return {limits::lowest(), limits::max(), limits::epsilon(), limits::min()};
}
inline FloatLimits finfo(ScalarType type) {
  switch (type) {
    case ScalarType::Double: return float_limits<double>();
    case ScalarType::Float: return float_limits<float>();
    case ScalarType::Half: return {-65504, 65504, 0x1p-10, 0x1p-14};
    case ScalarType::BFloat16: return {-0x1.fep127, 0x1.fep127, 0x1p-7, 0x1p-126};
    default: fail("torch.finfo is of floating types, not of ", type);
  }
}

// The limits of an integer type, by the names of torch.iinfo.
struct IntLimits {
  int64_t min, max, bits;
};
template <class T>
IntLimits int_limits() {
  return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 8 * int64_t{sizeof(T)}};
}
inline IntLimits iinfo(ScalarType type) {
  switch (type) {
    case ScalarType::Long: return int_limits<int64_t>();
    case ScalarType::Int: return int_limits<int32_t>();
    case ScalarType::Short: return int_limits<int16_t>();
    case ScalarType::Char: return int_limits<int8_t>();
    case ScalarType::Byte: return int_limits<uint8_t>();
    default: fail("torch.iinfo is of integer types, not of ", type);
  }
}

// The multiprocessors of the device of `x`; of the CPU few, so that small results give each one work.
inline int64_t multiprocessors_of(const Tensor& x) {
  const OnDevice device(x);
  return multiprocessors();
}

// As libtorch's number: float64 for float64, float32 for all else.
inline int32_t compute_dtype(ScalarType type) {
  return dtype_code(type == ScalarType::Double ? ScalarType::Double : ScalarType::Float);
}
inline int32_t compute_dtype(const Tensor& x) {
  return compute_dtype(x.scalar_type());
}

// A new, uninitialised, contiguous tensor on a device: torch.empty.
inline Tensor empty_on(Device device, Dims sizes, ScalarType dtype) {
  const Tensor made = torch::stable::empty(sizes, dtype, std::nullopt, device);
  note_fresh(made);
  return made;
}

// `x`, of which every element is now `value`; and 0.
inline Tensor filled(Tensor x, double value) {
  torch::stable::fill_(x, value);
  return x;
}
inline Tensor zeroed(Tensor x) {
  torch::stable::zero_(x);
  return x;
}

// The number of threads in a block for a row of `columns` elements: as many warps as have one, at most
// `threads_per_block` threads.
inline int64_t threads_for(int64_t columns) {
  return std::min<int64_t>(32 * std::max<int64_t>(1, ceil_div(columns, 32)), threads_per_block);
}

// The blocks of a grid, or the threads of a block, in each dimension.
inline dim3 extents(int64_t x, int64_t y = 1, int64_t z = 1) {
  constexpr int64_t most = std::numeric_limits<int>::max();
  check(std::min({x, y, z}) >= 0 && std::max({x, y, z}) <= most, "a launch of ", x, " × ", y, " × ", z,
        " blocks or threads; each may be at most ", most);
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

// `x` as a matrix whose rows are its last dimension; a 0-d tensor is a row of one column. A copy if rows are not at
// equal distances.
inline Tensor rows(const Tensor& x) {
  return torch::stable::reshape(x, {count_of(x, 0, -1), x.dim() > 0 ? x.size(-1) : 1});
}

// `x`, or a contiguous copy if there are gaps between the elements of its last dimension.
inline Tensor without_gaps(const Tensor& x) {
  const int64_t last = x.dim() - 1;
  return last < 0 || x.size(last) <= 1 || x.stride(last) == 1 ? x : torch::stable::contiguous(x);
}

// x[start:stop] along the first dimension.
inline Tensor slice(const Tensor& x, int64_t start, int64_t stop = std::numeric_limits<int64_t>::max()) {
  const int64_t size = x.size(0);
  const int64_t first = end_within(size, start);
  Tensor own = x;
  return torch::stable::narrow(own, 0, first, std::max<int64_t>(end_within(size, stop) - first, 0));
}

}  // namespace trifold
