// CUDA's header of this name, for g++: the constants that kernels use.
#pragma once

#include <limits>

namespace trifold::cpu::numbers {

// Of C++20, which a program need not have.
template <class T>
inline constexpr T pi_v = static_cast<T>(3.141592653589793238462643383279502884L);
template <class T>
inline constexpr T sqrt2_v = static_cast<T>(1.414213562373095048801688724209698079L);
template <class T>
inline constexpr T log2e_v = static_cast<T>(1.442695040888963407359924681001892137L);
template <class T>
inline constexpr T log10e_v = static_cast<T>(0.434294481903251827651128918916605082L);
template <class T>
inline constexpr T ln2_v = static_cast<T>(0.693147180559945309417232121458176568L);
template <class T>
inline constexpr T ln10_v = static_cast<T>(2.302585092994045684017991454684364208L);
inline constexpr double pi = pi_v<double>, sqrt2 = sqrt2_v<double>, log2e = log2e_v<double>, ln2 = ln2_v<double>;
inline constexpr double log10e = log10e_v<double>, ln10 = ln10_v<double>;
inline constexpr double inv_sqrtpi = 0.564189583547756286948079451560772586;

}  // namespace trifold::cpu::numbers

inline constexpr float CUDART_INF_F = std::numeric_limits<float>::infinity();
inline constexpr float CUDART_NAN_F = std::numeric_limits<float>::quiet_NaN();
inline constexpr float CUDART_MIN_DENORM_F = std::numeric_limits<float>::denorm_min();
inline constexpr float CUDART_MAX_NORMAL_F = std::numeric_limits<float>::max();
inline constexpr float CUDART_NORM_HUGE_F = std::numeric_limits<float>::max();
inline constexpr float CUDART_NEG_ZERO_F = -0.0f;
inline constexpr float CUDART_ZERO_F = 0.0f;
inline constexpr float CUDART_ONE_F = 1.0f;
inline constexpr float CUDART_SQRT_HALF_F = trifold::cpu::numbers::sqrt2_v<float> / 2;
inline constexpr float CUDART_SQRT_TWO_F = trifold::cpu::numbers::sqrt2_v<float>;
inline constexpr float CUDART_THIRD_F = 1.0f / 3.0f;
inline constexpr float CUDART_PI_F = trifold::cpu::numbers::pi_v<float>;
inline constexpr float CUDART_PIO2_F = trifold::cpu::numbers::pi_v<float> / 2;
inline constexpr float CUDART_PIO4_F = trifold::cpu::numbers::pi_v<float> / 4;
inline constexpr float CUDART_3PIO4_F = static_cast<float>(3 * trifold::cpu::numbers::pi / 4);
inline constexpr float CUDART_2_OVER_PI_F = static_cast<float>(2 / trifold::cpu::numbers::pi);
inline constexpr float CUDART_SQRT_2_OVER_PI_F =
    static_cast<float>(trifold::cpu::numbers::sqrt2 * trifold::cpu::numbers::inv_sqrtpi);
inline constexpr float CUDART_L2E_F = trifold::cpu::numbers::log2e_v<float>;
inline constexpr float CUDART_L2T_F = static_cast<float>(trifold::cpu::numbers::ln10 / trifold::cpu::numbers::ln2);
inline constexpr float CUDART_LG2_F = static_cast<float>(trifold::cpu::numbers::ln2 / trifold::cpu::numbers::ln10);
inline constexpr float CUDART_LGE_F = trifold::cpu::numbers::log10e_v<float>;
inline constexpr float CUDART_LN2_F = trifold::cpu::numbers::ln2_v<float>;
inline constexpr float CUDART_LNT_F = trifold::cpu::numbers::ln10_v<float>;
inline constexpr float CUDART_TWO_TO_M126_F = 0x1p-126f;
inline constexpr float CUDART_TWO_TO_126_F = 0x1p126f;
inline constexpr float CUDART_TWO_TO_23_F = 0x1p23f;
inline constexpr float CUDART_TWO_TO_24_F = 0x1p24f;
inline constexpr float CUDART_TWO_TO_31_F = 0x1p31f;
inline constexpr float CUDART_TWO_TO_32_F = 0x1p32f;

inline constexpr double CUDART_INF = std::numeric_limits<double>::infinity();
inline constexpr double CUDART_NAN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double CUDART_MIN_DENORM = std::numeric_limits<double>::denorm_min();
inline constexpr double CUDART_NEG_ZERO = -0.0;
inline constexpr double CUDART_ZERO = 0.0;
inline constexpr double CUDART_ONE = 1.0;
inline constexpr double CUDART_SQRT_TWO = trifold::cpu::numbers::sqrt2;
inline constexpr double CUDART_SQRT_HALF = trifold::cpu::numbers::sqrt2 / 2;
inline constexpr double CUDART_THIRD = 1.0 / 3.0;
inline constexpr double CUDART_TWOTHIRD = 2.0 / 3.0;
inline constexpr double CUDART_PI = trifold::cpu::numbers::pi;
inline constexpr double CUDART_PIO2 = trifold::cpu::numbers::pi / 2;
inline constexpr double CUDART_PIO4 = trifold::cpu::numbers::pi / 4;
inline constexpr double CUDART_3PIO4 = 2.3561944901923449;
inline constexpr double CUDART_2_OVER_PI = 2 / trifold::cpu::numbers::pi;
inline constexpr double CUDART_SQRT_2PI = 2.5066282746310005;
inline constexpr double CUDART_SQRT_PIO2 = 1.2533141373155003;
inline constexpr double CUDART_SQRT_2OPI = 0.79788456080286536;
inline constexpr double CUDART_L2E = trifold::cpu::numbers::log2e;
inline constexpr double CUDART_L2T = 3.3219280948873623;
inline constexpr double CUDART_LG2 = 0.30102999566398120;
inline constexpr double CUDART_LGE = trifold::cpu::numbers::log10e;
inline constexpr double CUDART_LN2 = trifold::cpu::numbers::ln2;
inline constexpr double CUDART_LNT = trifold::cpu::numbers::ln10;
