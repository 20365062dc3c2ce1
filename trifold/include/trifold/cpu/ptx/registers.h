// Registers: unsigned integers of 8 to 64 bits, and bool for a predicate. An instruction's type determines their
// interpretation.
#pragma once

#include <trifold/cpu/bits.h>
#include <trifold/cpu/standard.h>
#include <trifold/cuda.cuh>

#include <cstdint>
#include <tuple>
#include <type_traits>

namespace trifold::ptx {

// PTX's types. Those without arithmetic (.b32) are unsigned integers.
using b8 = uint8_t;
using b16 = uint16_t;
using b32 = uint32_t;
using b64 = uint64_t;
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using f16 = __half;
using f16x2 = __half2;
using bf16 = __nv_bfloat16;
using bf16x2 = __nv_bfloat162;
using f32 = float;
using f64 = double;
using pred = bool;
struct tf32 {};  // the bits of a float

// Modifiers, as template arguments.
namespace modifier {
// clang-format off
struct to_; struct cc_; struct aligned_; struct sync_; struct arrive_; struct wait_;
struct global_; struct shared_; struct shared_cta_; struct shared_cluster_; struct local_; struct const_;
struct weak_; struct volatile_; struct relaxed_; struct acquire_; struct release_; struct acq_rel_; struct sc_;
struct cta_; struct cluster_; struct gpu_; struct sys_; struct gl_;
struct v2_; struct v4_;
struct add_; struct and_; struct or_; struct xor_; struct min_; struct max_; struct inc_; struct dec_; struct exch_;
struct cas_; struct noftz_;
struct eq_; struct ne_; struct lt_; struct le_; struct gt_; struct ge_; struct lo_; struct ls_; struct hi_; struct hs_;
struct equ_; struct neu_; struct ltu_; struct leu_; struct gtu_; struct geu_; struct num_; struct nan_;
struct rn_; struct rz_; struct rm_; struct rp_; struct rna_; struct rni_; struct rzi_; struct rmi_; struct rpi_;
struct ftz_; struct sat_; struct relu_; struct NaN_; struct approx_; struct full_;
struct finite_; struct infinite_; struct number_; struct notanumber_; struct normal_; struct subnormal_;
struct wide_; struct l_; struct r_; struct clamp_; struct wrap_; struct shiftamt_;
struct f4e_; struct b4e_; struct rc8_; struct ecl_; struct ecr_; struct rc16_;
struct warp_; struct arrive_; struct wait_; struct launch_dependents_; struct red_; struct popc_; struct up_; struct down_; struct bfly_; struct idx_;
struct all_; struct any_; struct uni_; struct ballot_;
struct m8n8_; struct m8n8k4_; struct m8n8k16_; struct m16n8k4_; struct m16n8k8_; struct m16n8k16_; struct m16n8k32_;
struct row_; struct col_; struct satfinite_; struct x1_; struct x2_; struct x4_; struct trans_;
struct init_; struct inval_; struct expect_tx_; struct complete_tx_; struct arrive_drop_; struct noComplete_;
struct test_wait_; struct try_wait_; struct parity_; struct pending_count_; struct mbarrier_init_;
struct async_; struct ca_; struct cg_; struct bulk_; struct bulk_group_; struct commit_group_; struct wait_group_;
struct wait_all_; struct read_; struct mbarrier_; struct noinc_; struct reduce_; struct prefetch_;
struct tensor_; struct tensormap_; struct param_; struct mbarrier_complete_tx_bytes_; struct multicast_cluster_; struct proxy_; struct alias_;
struct nc_; struct L1_; struct L2_; struct L2_evict_last_; struct L2_evict_normal_; struct fractional_;
// clang-format on
}  // namespace modifier

// Whether `M` is among the modifiers of an instruction.
template <class M, class... Modifiers>
inline constexpr bool has = (cpu::same_as<M, Modifiers> || ...);

// The destination `_`.
struct Sink {};
inline constexpr Sink sink;

template <class R>
concept Immediate = cpu::same_as<R, int64_t> || cpu::same_as<R, double>;

// A number in the source.
constexpr int64_t constant(uint64_t value) {
  return static_cast<int64_t>(value);
}

// An operand as a `T`: a register of T's size, or a constant, which is int64_t if it is an integer and double if it is
// decimal.
template <class T, class R>
__forceinline__ T get(R from) {
  if constexpr (cpu::same_as<R, int64_t>) {
    static_assert(std::is_integral_v<T>, "PTX writes a constant of a floating-point type with a point, or as 0f…");
    return static_cast<T>(from);
  } else if constexpr (cpu::same_as<R, double>) {
    static_assert(!std::is_integral_v<T>, "the operand of an integer instruction of PTX is a real number");
    return static_cast<T>(from);
  } else {
    static_assert(sizeof(R) == sizeof(T), "an operand of this PTX instruction has not the size of its type");
    return cpu::bit_cast<T>(from);
  }
}

// The same for a register that may be wider: its low bits. (PTX ISA, "Operand Size Exceeding Instruction-Type Size")
template <class T, class R>
__forceinline__ T get_low(R from) {
  if constexpr (Immediate<R>) {
    return get<T>(from);
  } else {
    static_assert(sizeof(R) >= sizeof(T), "an operand of this PTX instruction is narrower than its type");
    return cpu::bit_cast<T>(static_cast<cpu::Word<sizeof(T)>>(from));
  }
}

template <class T, class R>
__forceinline__ void put(R& to, T value) {
  if constexpr (!cpu::same_as<R, const Sink>) {
    static_assert(sizeof(R) == sizeof(T), "the destination of this PTX instruction has not the size of its type");
    to = cpu::bit_cast<R>(value);
  }
}

// The same for a register that may be wider: extended by the sign for a signed type, else by zeros.
template <class T, class R>
__forceinline__ void put_wide(R& to, T value) {
  if constexpr (!cpu::same_as<R, const Sink>) {
    static_assert(sizeof(R) >= sizeof(T), "the destination of this PTX instruction is narrower than its type");
    if constexpr (std::is_integral_v<T>)
      to = static_cast<R>(value);
    else
      to = cpu::bit_cast<cpu::Word<sizeof(T)>>(value);
  }
}

// `{a, b, …}` of registers.
template <class... R>
__forceinline__ std::tuple<R&&...> pack(R&&... registers) {
  return {static_cast<R&&>(registers)...};
}

// Operands of asm: 'h', 'r' and 'l' are integers of 16, 32 and 64 bits, the last of which may be a pointer, 'f' and 'd'
// floats, and 'n' constants.
template <char constraint, class V>
__forceinline__ auto input(V value) {
  constexpr bool integer = std::is_integral_v<V> || std::is_enum_v<V> || std::is_pointer_v<V>;
  if constexpr (constraint == 'n') {
    static_assert(integer, "an operand of asm with the constraint n is an integer");
    return static_cast<int64_t>(value);
  } else if constexpr (constraint == 'f' || constraint == 'd') {
    static_assert(std::is_floating_point_v<V> && sizeof(V) == (constraint == 'f' ? 4 : 8),
                  "an operand of asm with the constraint f is a float, and with d a double");
    return cpu::bit_cast<cpu::Word<sizeof(V)>>(value);
  } else {
    static_assert(integer && sizeof(V) == (constraint == 'h'   ? 2
                                           : constraint == 'r' ? 4
                                                               : 8),
                  "an operand of asm with the constraint h, r or l is an integer of 16, 32 or 64 bits");
    return cpu::bit_cast<cpu::Word<sizeof(V)>>(value);
  }
}

// A register before its first write: its value is undefined, here all ones, which is a NaN.
template <char constraint>
__forceinline__ auto unwritten() {
  constexpr size_t bytes = constraint == 'h' ? 2 : constraint == 'r' || constraint == 'f' ? 4 : 8;
  return static_cast<cpu::Word<bytes>>(-1);
}

// Copies a register's bits to the variable that is an operand of asm.
template <class V, class R>
__forceinline__ void assign(V& place, R bits) {
  static_assert(sizeof(V) == sizeof(R), "an output of asm has not the size that its constraint says");
  place = cpu::bit_cast<std::remove_volatile_t<V>>(bits);
}

}  // namespace trifold::ptx
