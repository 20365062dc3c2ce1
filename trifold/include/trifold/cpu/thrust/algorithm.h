// How Thrust's algorithms run: on the host as loops, on the device as kernels of one thread, or of one for each item.
#pragma once

#include <trifold/cpu/thrust/functional.h>
#include <trifold/cpu/thrust/iterators.h>
#include <trifold/cpu/thrust/scratch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

namespace thrust {
namespace details {

// Where and as what an algorithm runs.
template <System system, bool asynchronous>
struct Place {
  const char* name;
  cudaStream_t stream;
  Line line;

  static constexpr bool on_device = system != System::host;
  static constexpr bool waits = !asynchronous;  // algorithms with results always wait

  // body(i, raw iterators...) for each i below n. Threads of the device have a copy of `body` each, since function
  // objects of users need not be const.
  template <class Body, class... Iterators>
  void each(ptrdiff_t n, const Body& body, const Iterators&... iterators) const {
    if (n <= 0) return;
    const auto run_all = [&](const auto&... used) {
      Body own = body;
      for (ptrdiff_t i = 0; i < n; ++i) own(i, used...);
    };
    if constexpr (!on_device) {
      run_all(iterators...);
    } else if (trifold::cpu::in_kernel()) {
      run_all(raw(iterators)...);
    } else {
      constexpr ptrdiff_t block = 256;
      launch(
          static_cast<unsigned>((n + block - 1) / block), static_cast<unsigned>(std::min(n, block)), waits,
          [n, body](const auto&... used) {
            const ptrdiff_t i = static_cast<ptrdiff_t>(blockIdx.x) * blockDim.x + threadIdx.x;
            if (i >= n) return;
            Body own = body;
            own(i, used...);
          },
          raw(iterators)...);
    }
  }

  // The end of work on the device: throws its error, and waits for it.
  void finish(bool wait) const {
    require(cudaPeekAtLastError(), name);
    if (wait) require(cudaStreamSynchronize(stream, line), name);
  }

  // Returns work(raw iterators...), which one thread calls.
  template <class Work, class... Iterators>
  auto once(const Work& work, const Iterators&... iterators) const {
    Work own = work;
    if constexpr (!on_device) {
      return own(iterators...);
    } else {
      using Result = decltype(own(raw(iterators)...));
      if (trifold::cpu::in_kernel()) return own(raw(iterators)...);
      if constexpr (std::is_void_v<Result>) {
        launch(
            1, 1, true,
            [work](const auto&... used) {
              Work own = work;
              own(used...);
            },
            raw(iterators)...);
      } else {
        alignas(Result) unsigned char bytes[sizeof(Result)];
        launch(
            1, 1, true,
            [work, to = &bytes](const auto&... used) {
              Work own = work;
              const Result result = own(used...);
              copy_unseen(to, &result, sizeof result);
            },
            raw(iterators)...);
        return *reinterpret_cast<Result*>(bytes);
      }
    }
  }

 private:
  template <class Run, class... Iterators>
  void launch(unsigned grid, unsigned block, bool wait, const Run& run, const Iterators&... iterators) const {
    if (wait && trifold::cpu::is_captured(stream)) require(trifold::cpu::require_no_capture(line), name);
    ::std::apply(
        [&](const auto&... arguments) {
          trifold::cpu::Configuration(name, "", grid, block, 0, stream, line)
              .launch([run, iterators...](const auto&...) { run(iterators...); }, arguments...);
        },
        ::std::tuple_cat(pointers(iterators)...));
    finish(wait);
  }
};

template <class Work, class First, class... Rest>
auto call(Line line, First first, Rest... rest) {
  if constexpr (IsPolicy<First>) {
    return Work::run(Place<First::system, First::asynchronous>{Work::name, first.stream, line}, rest...);
  } else {
    return Work::run(Place<system_of_all<First, Rest...>(), false>{Work::name, nullptr, line}, first, rest...);
  }
}

// An algorithm, called with or without an execution policy. Work has its name, and its forms as functions `run`.
template <class Work>
struct Algorithm {
  template <class A>
  auto operator()(A a, Line line = {}) const {
    return call<Work>(line, a);
  }
  template <class A, class B>
  auto operator()(A a, B b, Line line = {}) const {
    return call<Work>(line, a, b);
  }
  template <class A, class B, class C>
  auto operator()(A a, B b, C c, Line line = {}) const {
    return call<Work>(line, a, b, c);
  }
  template <class A, class B, class C, class D>
  auto operator()(A a, B b, C c, D d, Line line = {}) const {
    return call<Work>(line, a, b, c, d);
  }
  template <class A, class B, class C, class D, class E>
  auto operator()(A a, B b, C c, D d, E e, Line line = {}) const {
    return call<Work>(line, a, b, c, d, e);
  }
  template <class A, class B, class C, class D, class E, class F>
  auto operator()(A a, B b, C c, D d, E e, F f, Line line = {}) const {
    return call<Work>(line, a, b, c, d, e, f);
  }
  template <class A, class B, class C, class D, class E, class F, class G>
  auto operator()(A a, B b, C c, D d, E e, F f, G g, Line line = {}) const {
    return call<Work>(line, a, b, c, d, e, f, g);
  }
  template <class A, class B, class C, class D, class E, class F, class G, class H>
  auto operator()(A a, B b, C c, D d, E e, F f, G g, H h, Line line = {}) const {
    return call<Work>(line, a, b, c, d, e, f, g, h);
  }
  template <class A, class B, class C, class D, class E, class F, class G, class H, class I>
  auto operator()(A a, B b, C c, D d, E e, F f, G g, H h, I i, Line line = {}) const {
    return call<Work>(line, a, b, c, d, e, f, g, h, i);
  }
  template <class A, class B, class C, class D, class E, class F, class G, class H, class I, class J>
  auto operator()(A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, Line line = {}) const {
    return call<Work>(line, a, b, c, d, e, f, g, h, i, j);
  }
};

// An item for a functor. A number is read here, so that the algorithm is reported for a range that is too long, and not
// an operator of the C++ library; of a larger item, the functor reads what it uses.
template <class Iterator>
decltype(auto) item(const Iterator& it, ptrdiff_t i) {
  if constexpr (std::is_arithmetic_v<ValueOf<Iterator>>) {
    return static_cast<ValueOf<Iterator>>(it[i]);
  } else {
    return it[i];
  }
}
template <class T>
struct Equals {
  T value;

  template <class U>
  bool operator()(const U& x) const {
    return x == value;
  }
};
// The value of an item.
template <class Iterator>
ValueOf<Iterator> value(const Iterator& it, ptrdiff_t i) {
  return it[i];
}

}  // namespace details
}  // namespace thrust
