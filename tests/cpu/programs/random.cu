// cuRAND's device API: numbers of each generator after skips, and of each distribution.
#include <curand.h>
#include <curand_kernel.h>

#include "check.h"

template <class State>
__global__ void draw(State* state, unsigned long long seed) {
  State& s = state[threadIdx.x];
  curand_init(seed, 77, 6, &s);
  for (int i = 0; i < 6; ++i) printf("%u ", curand(&s));
  printf("%a ", curand_uniform(&s));
  printf("%a ", curand_uniform_double(&s));
  skipahead(1000003ull, &s);
  printf("%u ", curand(&s));
  skipahead_sequence(12345678901ull, &s);
  printf("%u\n", curand(&s));
  for (int i = 0; i < 3; ++i) printf("%.3f ", curand_normal(&s));
  for (int i = 0; i < 2; ++i) printf("%.6f ", curand_normal_double(&s));
  const float2 pair = curand_normal2(&s);
  const double2 doubles = curand_normal2_double(&s);
  printf("%.3f %.3f %.6f %.6f ", pair.x, pair.y, doubles.x, doubles.y);
  for (int i = 0; i < 2; ++i) printf("%.3f ", curand_log_normal(&s, 1.0f, 0.5f));
  printf("%.6f ", curand_log_normal_double(&s, 0.0, 1.0));
  for (double mean : {3.0, 50.0, 5000.0}) printf("%u ", curand_poisson(&s, mean));
  printf("\n");
}

__global__ void fours() {
  curandStatePhilox4_32_10_t s;
  curand_init(5, 6, 7, &s);
  const uint4 words = curand4(&s);
  const float4 uniform = curand_uniform4(&s), normal = curand_normal4(&s);
  const double2 doubles = curand_uniform2_double(&s);
  const uint4 counts = curand_poisson4(&s, 5.0);
  printf("%u %u %u %u %a %a %.3f %.3f %a %a ", words.x, words.y, words.z, words.w, uniform.x, uniform.w, normal.x,
         normal.w, doubles.x, doubles.y);
  printf("%u %u %u %u\n", counts.x, counts.y, counts.z, counts.w);
}

// The mean of numbers whose distribution is a GPU's, though they are not.
__global__ void poisson(curandState* states, unsigned* sum) {
  curandState& s = states[threadIdx.x];
  curand_init(1, threadIdx.x, 0, &s);
  for (int i = 0; i < 50; ++i) atomicAdd(sum, curand_poisson(&s, 200.0));
}

template <class State>
void show() {
  State* state;
  CHECK(cudaMalloc(&state, sizeof(State)));
  draw<<<1, 1>>>(state, 1234);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(state));
}

int main() {
  show<curandStateXORWOW_t>();
  show<curandStatePhilox4_32_10_t>();
  show<curandStateMRG32k3a_t>();
  fours<<<1, 1>>>();
  curandState* states;
  unsigned* sum;
  CHECK(cudaMalloc(&states, 32 * sizeof(curandState)));
  CHECK(cudaMallocManaged(&sum, sizeof *sum));
  *sum = 0;
  poisson<<<1, 32>>>(states, sum);
  CHECK(cudaDeviceSynchronize());
  const double mean = *sum / 1600.0;
  printf("%s\n", mean > 199 && mean < 201 ? "about 200" : "wrong");
  CHECK(cudaFree(states));
  CHECK(cudaFree(sum));
}
