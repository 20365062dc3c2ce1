// Thrust's function objects, and the placeholders _1 to _10 with which expressions become some.
#pragma once

#include <trifold/cpu/functional.h>
#include <trifold/cpu/thrust/tuples.h>

#include <functional>
#include <type_traits>

namespace thrust {

using ::cuda::maximum, ::cuda::minimum;
using ::std::bit_and, ::std::bit_or, ::std::bit_xor;
using ::std::divides, ::std::minus, ::std::modulus, ::std::multiplies, ::std::negate, ::std::plus;
using ::std::equal_to, ::std::greater, ::std::greater_equal, ::std::less, ::std::less_equal, ::std::not_equal_to;
using ::std::logical_and, ::std::logical_not, ::std::logical_or;
using ::std::not_fn;

template <class T = void>
struct square {
  constexpr T operator()(const T& x) const { return x * x; }
};
template <>
struct square<void> {
  template <class T>
  constexpr auto operator()(const T& x) const {
    return x * x;
  }
};
template <class T = void, class U = void>
struct project1st {
  constexpr const T& operator()(const T& x, const U&) const { return x; }
};
template <>
struct project1st<void, void> {
  template <class T, class U>
  constexpr const T& operator()(const T& x, const U&) const {
    return x;
  }
};
template <class T = void, class U = void>
struct project2nd {
  constexpr const U& operator()(const T&, const U& y) const { return y; }
};
template <>
struct project2nd<void, void> {
  template <class T, class U>
  constexpr const U& operator()(const T&, const U& y) const {
    return y;
  }
};

// Of older versions of Thrust: programs name them still.
template <class T = void>
struct identity {
  using argument_type = T;
  using result_type = T;
  constexpr const T& operator()(const T& x) const { return x; }
};
template <>
struct identity<void> {
  template <class T>
  constexpr const T& operator()(const T& x) const {
    return x;
  }
};
template <class Argument, class Result>
struct unary_function {
  using argument_type = Argument;
  using result_type = Result;
};
template <class First, class Second, class Result>
struct binary_function {
  using first_argument_type = First;
  using second_argument_type = Second;
  using result_type = Result;
};

namespace placeholders {

// An expression of placeholders: calls `eval` with the tuple of the arguments.
template <class Eval>
struct Expression {
  Eval eval;

  template <class... Args>
  constexpr auto operator()(const Args&... args) const {
    return eval(::std::tuple<const Args&...>(args...));
  }
};
template <size_t number>
struct Argument {
  template <class Args>
  constexpr auto operator()(const Args& args) const {
    return ::std::get<number>(args);
  }
};
template <class T>
struct Literal {
  T value;

  template <class Args>
  constexpr T operator()(const Args&) const {
    return value;
  }
};
template <class Op, class... Operands>
struct Applied {
  ::std::tuple<Operands...> operands;

  template <class Args>
  constexpr auto operator()(const Args& args) const {
    return ::std::apply([&](const auto&... operand) { return Op()(operand(args)...); }, operands);
  }
};

template <class T>
inline constexpr bool is_expression = false;
template <class Eval>
inline constexpr bool is_expression<Expression<Eval>> = true;

template <class T>
constexpr auto operand(const T& x) {
  if constexpr (is_expression<T>) {
    return x.eval;
  } else {
    return Literal<T>{x};
  }
}
template <class Op, class... T>
constexpr auto apply(const T&... x) {
  using Made = Applied<Op, decltype(operand(x))...>;
  return Expression<Made>{Made{{operand(x)...}}};
}

struct ShiftLeft {
  template <class A, class B>
  constexpr auto operator()(const A& a, const B& b) const {
    return a << b;
  }
};
struct ShiftRight {
  template <class A, class B>
  constexpr auto operator()(const A& a, const B& b) const {
    return a >> b;
  }
};

template <class A, class B>
concept AnyExpression = is_expression<A> || is_expression<B>;

template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator+(const A& a, const B& b) {
  return apply<plus<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator-(const A& a, const B& b) {
  return apply<minus<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator*(const A& a, const B& b) {
  return apply<multiplies<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator/(const A& a, const B& b) {
  return apply<divides<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator%(const A& a, const B& b) {
  return apply<modulus<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator==(const A& a, const B& b) {
  return apply<equal_to<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator!=(const A& a, const B& b) {
  return apply<not_equal_to<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator<(const A& a, const B& b) {
  return apply<less<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator<=(const A& a, const B& b) {
  return apply<less_equal<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator>(const A& a, const B& b) {
  return apply<greater<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator>=(const A& a, const B& b) {
  return apply<greater_equal<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator&&(const A& a, const B& b) {
  return apply<logical_and<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator||(const A& a, const B& b) {
  return apply<logical_or<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator&(const A& a, const B& b) {
  return apply<bit_and<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator|(const A& a, const B& b) {
  return apply<bit_or<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator^(const A& a, const B& b) {
  return apply<bit_xor<>>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator<<(const A& a, const B& b) {
  return apply<ShiftLeft>(a, b);
}
template <class A, class B>
  requires AnyExpression<A, B>
constexpr auto operator>>(const A& a, const B& b) {
  return apply<ShiftRight>(a, b);
}
template <class Eval>
constexpr auto operator-(const Expression<Eval>& x) {
  return apply<negate<>>(x);
}
template <class Eval>
constexpr auto operator!(const Expression<Eval>& x) {
  return apply<logical_not<>>(x);
}

inline constexpr Expression<Argument<0>> _1{};
inline constexpr Expression<Argument<1>> _2{};
inline constexpr Expression<Argument<2>> _3{};
inline constexpr Expression<Argument<3>> _4{};
inline constexpr Expression<Argument<4>> _5{};
inline constexpr Expression<Argument<5>> _6{};
inline constexpr Expression<Argument<6>> _7{};
inline constexpr Expression<Argument<7>> _8{};
inline constexpr Expression<Argument<8>> _9{};
inline constexpr Expression<Argument<9>> _10{};

}  // namespace placeholders
}  // namespace thrust
