// CUDA's functions of real numbers for kernels in C++.
#include "../core/real_functions.h"

#include <trifold/cpu/math.h>

namespace trifold::cpu {

double sin_of_pi_times(double x) {
  return engine::sin_of_pi_times(x);
}
double cos_of_pi_times(double x) {
  return engine::cos_of_pi_times(x);
}
double inverse_erf(double y) {
  return engine::inverse_erf(y);
}
double inverse_erfc(double y) {
  return engine::inverse_erfc(y);
}
double inverse_normal_cdf(double p) {
  return engine::inverse_normal_cdf(p);
}
double normal_cdf(double x) {
  return engine::normal_cdf(x);
}
double scaled_erfc(double x) {
  return engine::scaled_erfc(x);
}
double power_of_10(double x) {
  return engine::exp10_of(x);
}
double reciprocal_cube_root(double x) {
  return engine::rcbrt_of(x);
}

}  // namespace trifold::cpu
