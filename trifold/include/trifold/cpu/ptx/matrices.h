// mma.sync, and the instructions that move its operands: ldmatrix, stmatrix, movmatrix (PTX ISA, "Warp-Level Matrix
// Instructions"). All 32 lanes execute them together.
#pragma once

#include <trifold/cpu.h>
#include <trifold/cpu/products.h>
#include <trifold/cpu/ptx/memory.h>
#include <trifold/cpu/ptx/registers.h>

#include <cstdint>
#include <cstring>
#include <tuple>

namespace trifold::ptx {

using cpu::Line;
using cpu::Together;
using cpu::Wait;

inline constexpr int warp_lanes = 32;

// ---------------------------------------------------------------------------------------------------- products

// Operands are in registers of 32 bits, doubles in registers of 64.
template <class T>
using Register = std::conditional_t<cpu::same_as<T, f64>, uint64_t, uint32_t>;
template <class T>
using Element = std::conditional_t<cpu::same_as<T, tf32>, cpu::Tf32, T>;
template <class T>
inline constexpr int elements_of_register = sizeof(Register<T>) / sizeof(Element<T>);

template <class T>
TRIFOLD_OF_THE_WARP Element<T> element_of(Register<T> from, int i) {
  using Bits = cpu::Word<sizeof(Element<T>)>;
  return cpu::bit_cast<Element<T>>(static_cast<Bits>(from >> 8 * sizeof(Bits) * i));
}
template <class T>
TRIFOLD_OF_THE_WARP Register<T> in_register(Element<T> value, int i) {
  using Bits = cpu::Word<sizeof(Element<T>)>;
  return static_cast<Register<T>>(cpu::bit_cast<Bits>(value)) << 8 * sizeof(Bits) * i;
}

// A lane of mma: its registers of A (M×K), B (K×8), C and D (M×8). Lane 4·g + t has rows g and g + 8 of A and D and
// column g of B; along k it has the elements of register t, and every fourth register from there.
template <int M, int K, bool saturates, class D, class A, class B, class C>
struct Multiplication : Together {
  static constexpr int N = 8, halves = M / 8;
  static constexpr int along_k = elements_of_register<A>, in_c = elements_of_register<C>,
                       in_d = elements_of_register<D>;
  Register<A> a[M * K / warp_lanes / along_k];
  Register<B> b[N * K / warp_lanes / along_k];
  Register<C> c[M * N / warp_lanes / in_c];
  Register<D> d[M * N / warp_lanes / in_d];

  TRIFOLD_OF_THE_WARP static void multiply(Together* const (&lanes)[warp_lanes]) {
    decltype(cpu::as_factor(Element<A>())) left[M][K], right[K][N];
    cpu::ProductSum<Element<A>> sums[M][N];
    for (int lane = 0; lane < warp_lanes; ++lane) {
      const auto& own = *static_cast<Multiplication*>(lanes[lane]);
      const int group = lane / 4, place = lane % 4;
      for (int i = 0; i < M * K / warp_lanes; ++i) {
        const int at = i / along_k, k = at / halves * 4 * along_k + place * along_k + i % along_k;
        left[group + 8 * (at % halves)][k] = cpu::as_factor(element_of<A>(own.a[at], i % along_k));
      }
      for (int i = 0; i < N * K / warp_lanes; ++i) {
        const int at = i / along_k, k = at * 4 * along_k + place * along_k + i % along_k;
        right[k][group] = cpu::as_factor(element_of<B>(own.b[at], i % along_k));
      }
      for (int i = 0; i < M * N / warp_lanes; ++i)
        sums[group + i / 2 * 8][2 * place + i % 2] =
            static_cast<cpu::ProductSum<Element<A>>>(element_of<C>(own.c[i / in_c], i % in_c));
    }
    cpu::add_products(sums, left, right);
    for (int lane = 0; lane < warp_lanes; ++lane) {
      auto& own = *static_cast<Multiplication*>(lanes[lane]);
      for (Register<D>& each : own.d) each = 0;
      for (int i = 0; i < M * N / warp_lanes; ++i)
        own.d[i / in_d] |=
            in_register<D>(cpu::from_sum<D, saturates>(sums[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2]), i % in_d);
    }
  }
};

template <class R, size_t count, class... A>
__forceinline__ void take_all(R (&to)[count], const std::tuple<A...>& from) {
  static_assert(sizeof...(A) == count, "an operand of this mma has not as many registers as its shape asks for");
  size_t i = 0;
  std::apply([&](auto... each) { ((to[i++] = get<R>(each)), ...); }, from);
}
template <class R, size_t count, class... D>
__forceinline__ void put_all(std::tuple<D...>& to, const R (&from)[count]) {
  static_assert(sizeof...(D) == count,
                "the result of this instruction has not as many registers as its shape asks for");
  size_t i = 0;
  std::apply([&](auto&... each) { (put(each, from[i++]), ...); }, to);
}

template <class... M>
inline constexpr int rows_of = has<modifier::m8n8k4_, M...> || has<modifier::m8n8k16_, M...> ? 8 : 16;
template <class... M>
inline constexpr int inner_of = has<modifier::m8n8k4_, M...> || has<modifier::m16n8k4_, M...> ? 4
                                : has<modifier::m16n8k8_, M...>                               ? 8
                                : has<modifier::m16n8k32_, M...>                              ? 32
                                                                                              : 16;

template <class D, class A, class B, class C, class... M, class... Ds, class... As, class... Bs, class... Cs>
TRIFOLD_OF_THE_WARP void mma_(std::tuple<Ds...> d, std::tuple<As...> a, std::tuple<Bs...> b, std::tuple<Cs...> c,
                              Line line = {}) {
  using Own = Multiplication<rows_of<M...>, inner_of<M...>, has<modifier::satfinite_, M...>, D, A, B, C>;
  Own own;
  own.run = &Own::multiply;
  take_all(own.a, a);
  take_all(own.b, b);
  take_all(own.c, c);
  cpu::meet_whole_warp(Wait::mma, own, line);
  put_all(d, own.d);
}

// ---------------------------------------------------------------------------------------------------- moves

// A row of a matrix of 8×8 elements of 16 bits.
struct [[gnu::may_alias]] alignas(16) MatrixRow {
  uint64_t halves[2];
};

// One lane's part of up to four such matrices. Lane 8·m + r holds the address of row r of matrix m; its registers hold
// two elements of each matrix: those of row lane / 4 from column lane % 4 · 2 on, or of a column, if transposed.
template <int count, bool transposed>
struct Matrices : Together {
  uint16_t row[8];
  uint32_t registers[count];

  static uint16_t& element(Together* const (&lanes)[warp_lanes], int matrix, int lane, int i) {
    const int major = lane / 4, minor = lane % 4 * 2 + i;
    auto& owner = *static_cast<Matrices*>(lanes[8 * matrix + (transposed ? minor : major)]);
    return owner.row[transposed ? major : minor];
  }
  TRIFOLD_OF_THE_WARP static void to_registers(Together* const (&lanes)[warp_lanes]) {
    for (int lane = 0; lane < warp_lanes; ++lane)
      for (int m = 0; m < count; ++m)
        static_cast<Matrices*>(lanes[lane])->registers[m] =
            element(lanes, m, lane, 0) | static_cast<uint32_t>(element(lanes, m, lane, 1)) << 16;
  }
  TRIFOLD_OF_THE_WARP static void to_rows(Together* const (&lanes)[warp_lanes]) {
    for (int lane = 0; lane < warp_lanes; ++lane)
      for (int m = 0; m < count; ++m)
        for (int i = 0; i < 2; ++i)
          element(lanes, m, lane, i) =
              static_cast<uint16_t>(static_cast<Matrices*>(lanes[lane])->registers[m] >> 16 * i);
  }
};

template <class... M>
inline constexpr int matrices_of = has<modifier::x4_, M...>   ? 4
                                   : has<modifier::x2_, M...> ? 2
                                                              : 1;

// An instruction at which lanes only synchronise.
struct Arrival : Together {
  TRIFOLD_OF_THE_WARP static void none(Together* const (&)[warp_lanes]) {}
};

// Each address is that of a row, which its lane reads as its own access; addresses of other lanes are ignored. As on a
// GPU, all lanes arrive at the instruction before any of them reads: an access that is not ordered before this is then
// reported as a race, not as a read of uninitialised memory.
template <class T, class... M, class... D, class R>
__forceinline__ void ldmatrix_(std::tuple<D...> d, Address<R> address, Line line = {}) {
  using Own = Matrices<matrices_of<M...>, has<modifier::trans_, M...>>;
  Own own;
  own.run = &Own::to_registers;
  if constexpr (cpu::checked) {
    Arrival here;
    here.run = &Arrival::none;
    cpu::meet_whole_warp(Wait::ldmatrix, here, line);
  }
  if (cpu::lane() < 8 * matrices_of<M...>) {
    const MatrixRow row = *pointer<const MatrixRow, M...>(address);
    std::memcpy(own.row, &row, sizeof row);
  }
  cpu::meet_whole_warp(Wait::ldmatrix, own, line);
  put_all(d, own.registers);
}
template <class T, class... M, class R, class... A>
__forceinline__ void stmatrix_(Address<R> address, std::tuple<A...> a, Line line = {}) {
  using Own = Matrices<matrices_of<M...>, has<modifier::trans_, M...>>;
  Own own;
  own.run = &Own::to_rows;
  take_all(own.registers, a);
  cpu::meet_whole_warp(Wait::stmatrix, own, line);
  if (cpu::lane() < 8 * matrices_of<M...>) {
    MatrixRow row;
    std::memcpy(&row, own.row, sizeof row);
    *pointer<MatrixRow, M...>(address) = row;
  }
}

// A lane's part of one matrix, and of the transposed one.
struct Transposition : Together {
  uint32_t from, to;

  TRIFOLD_OF_THE_WARP static void transpose(Together* const (&lanes)[warp_lanes]) {
    for (int lane = 0; lane < warp_lanes; ++lane) {
      auto& own = *static_cast<Transposition*>(lanes[lane]);
      own.to = 0;
      for (int i = 0; i < 2; ++i) {
        const int row = lane % 4 * 2 + i, column = lane / 4;
        const uint32_t from = static_cast<Transposition*>(lanes[4 * row + column / 2])->from;
        own.to |= (from >> 16 * (column % 2) & 0xffffu) << 16 * i;
      }
    }
  }
};
template <class T, class... M, class D, class A>
__forceinline__ void movmatrix_(D& d, A a, Line line = {}) {
  Transposition own;
  own.run = &Transposition::transpose;
  own.from = get<uint32_t>(a);
  cpu::meet_whole_warp(Wait::movmatrix, own, line);
  put(d, own.to);
}

}  // namespace trifold::ptx
