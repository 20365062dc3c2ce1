// CUDA's functions of real numbers for kernels in C++: the simulator's.
#include "../simulator/real_functions.h"

#include <trifold/cpu/math.h>

namespace trifold::host {

double sin_of_pi_times(double x) {
  return simulator::sin_of_pi_times(x);
}
double cos_of_pi_times(double x) {
  return simulator::cos_of_pi_times(x);
}
double inverse_erf(double y) {
  return simulator::inverse_erf(y);
}
double inverse_erfc(double y) {
  return simulator::inverse_erfc(y);
}
double inverse_normal_cdf(double p) {
  return simulator::inverse_normal_cdf(p);
}
double normal_cdf(double x) {
  return simulator::normal_cdf(x);
}
double scaled_erfc(double x) {
  return simulator::scaled_erfc(x);
}
double power_of_10(double x) {
  return simulator::exp10_of(x);
}
double reciprocal_cube_root(double x) {
  return simulator::rcbrt_of(x);
}

}  // namespace trifold::host
