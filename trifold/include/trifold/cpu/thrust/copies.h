// thrust::copy and its like: within a system, and between the host and the device.
#pragma once

#include <trifold/cpu/thrust/algorithm.h>

#include <vector>

namespace thrust {
namespace details {

// Items on their way between the host and the device. (Elements of vector<bool> have no addresses.)
template <class T>
using Items = ::std::vector<std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>>;

// Whether bytes can be copied: both are pointers to the same type.
template <class In, class Out>
constexpr bool copies_bytes() {
  if constexpr (std::is_pointer_v<Raw<In>> && std::is_pointer_v<Raw<Out>>) {
    return std::is_same_v<ValueOf<Raw<In>>, ValueOf<Raw<Out>>>;
  } else {
    return false;
  }
}

struct Copy {
  static constexpr const char* name = "thrust::copy";

  template <class Where, class In, class Out>
  static Out run(const Where& where, In first, In last, Out out) {
    constexpr System from = system_of<In>(), to = system_of<Out>();
    if constexpr (!Where::on_device) {
      return ::std::copy(first, last, out);
    } else if constexpr (from == System::host && to == System::device) {
      return to_device(where, first, ::std::distance(first, last), out);
    } else if constexpr (from == System::device && to == System::host) {
      return to_host(where, first, last - first, out);
    } else {
      return on_device(where, first, last - first, out);
    }
  }

  template <class Where, class In, class Out>
  static Out on_device(const Where& where, In first, ptrdiff_t n, Out out) {
    if constexpr (copies_bytes<In, Out>()) {
      if (!trifold::cpu::in_kernel()) {
        const size_t bytes = static_cast<size_t>(n) * sizeof(ValueOf<In>);
        require(cudaMemcpyAsync(raw(out), raw(first), bytes, cudaMemcpyDeviceToDevice, where.stream, where.line),
                where.name);
        where.finish(Where::waits);
        return out + n;
      }
    }
    where.each(n, [](ptrdiff_t i, auto in, auto out) { out[i] = item(in, i); }, first, out);
    return out + n;
  }

 private:
  template <class Where, class In, class Out>
  static Out to_device(const Where& where, In first, ptrdiff_t n, Out out) {
    if constexpr (copies_bytes<In, Out>()) {
      if (n > 0) copy_bytes(raw(out), raw(first), static_cast<size_t>(n) * sizeof(ValueOf<In>), where.line);
    } else {
      Items<ValueOf<In>> items;
      for (ptrdiff_t i = 0; i < n; ++i, ++first) items.push_back(*first);
      where.each(n, [from = items.data()](ptrdiff_t i, auto out) { out[i] = load(from + i); }, out);
    }
    return out + n;
  }
  template <class Where, class In, class Out>
  static Out to_host(const Where& where, In first, ptrdiff_t n, Out out) {
    if constexpr (copies_bytes<In, Out>()) {
      if (n > 0) copy_bytes(raw(out), raw(first), static_cast<size_t>(n) * sizeof(ValueOf<In>), where.line);
      return out + n;
    } else {
      Items<ValueOf<In>> items(static_cast<size_t>(n));
      where.each(
          n,
          [to = items.data()](ptrdiff_t i, auto in) {
            store(to + i, static_cast<typename Items<ValueOf<In>>::value_type>(item(in, i)));
          },
          first);
      return ::std::copy(items.begin(), items.end(), out);
    }
  }
};

struct CopyN {
  static constexpr const char* name = "thrust::copy_n";

  template <class Where, class In, class N, class Out>
  static Out run(const Where& where, In first, N n, Out out) {
    return Copy::run(where, first, ::std::next(first, static_cast<ptrdiff_t>(n)), out);
  }
};

}  // namespace details

inline constexpr details::Algorithm<details::Copy> copy;
inline constexpr details::Algorithm<details::CopyN> copy_n;
inline constexpr details::Algorithm<details::Copy> uninitialized_copy;
inline constexpr details::Algorithm<details::CopyN> uninitialized_copy_n;

}  // namespace thrust
