// Skipping ahead in the sequences of cuRAND's generators. A step is a linear map of the state, and n steps are the
// product of those of its powers 1, 2, 4, … that sum to n.
#include <trifold/cpu/random_generators.h>

#include <array>
#include <cstdint>

namespace trifold::cpu {
namespace {

// XORWOW: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8 (14), 2003. Row i is the image of bit i.
constexpr int xorwow_bits = 160;
constexpr int xorwow_powers = 67 + 64;  // 64 bits of skipped sequences of 2^67 numbers
using XorwowMatrix = std::array<XorwowBits, xorwow_bits>;

XorwowBits product(const XorwowBits& bits, const XorwowMatrix& matrix) {
  XorwowBits sum{};
  for (int i = 0; i < xorwow_bits; ++i)
    if (bits[i / 32] >> (i % 32) & 1)
      for (size_t k = 0; k < sum.size(); ++k) sum[k] ^= matrix[i][k];
  return sum;
}

using XorwowPowers = std::array<XorwowMatrix, xorwow_powers>;

XorwowPowers make_xorwow_powers() {
  XorwowPowers powers{};
  for (int i = 0; i < xorwow_bits; ++i) {
    powers[0][i][i / 32] = 1u << (i % 32);
    xorwow_step(powers[0][i]);
  }
  for (int power = 1; power < xorwow_powers; ++power)
    for (int i = 0; i < xorwow_bits; ++i) powers[power][i] = product(powers[power - 1][i], powers[power - 1]);
  return powers;
}

// MRG32k3a: L'Ecuyer, "Good Parameters and Implementations for Combined Multiple Recursive Random Number Generators",
// Operations Research 47 (1), 1999.
constexpr int mrg_powers = 127 + 64;
using MrgMatrix = std::array<MrgWords, 3>;

MrgWords product(const MrgMatrix& matrix, const MrgWords& words, uint64_t modulus) {
  MrgWords result{};
  for (int i = 0; i < 3; ++i) {
    uint64_t sum = 0;
    for (int k = 0; k < 3; ++k) sum = (sum + uint64_t{matrix[i][k]} * words[k] % modulus) % modulus;
    result[i] = static_cast<uint32_t>(sum);
  }
  return result;
}

using MrgPowers = std::array<MrgMatrix, mrg_powers>;

MrgPowers make_mrg_powers(const MrgMatrix& step, uint64_t modulus) {
  MrgPowers powers{step};
  for (int power = 1; power < mrg_powers; ++power) {
    const MrgMatrix& root = powers[power - 1];
    for (int column = 0; column < 3; ++column) {
      const MrgWords square = product(root, {root[0][column], root[1][column], root[2][column]}, modulus);
      for (int row = 0; row < 3; ++row) powers[power][row][column] = square[row];
    }
  }
  return powers;
}

}  // namespace

XorwowBits skip_xorwow(XorwowBits bits, uint64_t count, int log2_unit) {
  static const XorwowPowers powers = make_xorwow_powers();
  for (; count != 0; count >>= 1, ++log2_unit)
    if (count & 1) bits = product(bits, powers[log2_unit]);
  return bits;
}

MrgState skip_mrg(MrgState state, uint64_t count, int log2_unit) {
  static const MrgPowers first =
      make_mrg_powers({{{0, 1, 0}, {0, 0, 1}, {mrg_moduli[0] - 810728, 1403580, 0}}}, mrg_moduli[0]);
  static const MrgPowers second =
      make_mrg_powers({{{0, 1, 0}, {0, 0, 1}, {mrg_moduli[1] - 1370589, 0, 527612}}}, mrg_moduli[1]);
  for (; count != 0; count >>= 1, ++log2_unit) {
    if ((count & 1) == 0) continue;
    state.first = product(first[log2_unit], state.first, mrg_moduli[0]);
    state.second = product(second[log2_unit], state.second, mrg_moduli[1]);
  }
  return state;
}

}  // namespace trifold::cpu
