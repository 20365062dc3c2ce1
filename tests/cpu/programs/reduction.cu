// A block's sum. Without arguments it lacks the barrier after the loads.
#include <cuda_runtime.h>
#include <stdio.h>

#include <vector>

template <bool synchronised>
__global__ void reduce(const int* in, int* out) {
  __shared__ int sdata[128];
  unsigned int tid = threadIdx.x;
  sdata[tid] = in[blockIdx.x * blockDim.x + tid];
  if (synchronised) __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = sdata[0];
}

int main(int argc, char** argv) {
  const int blocks = 4, n = blocks * 128;
  std::vector<int> h_in(n, 1), h_out(blocks, -1);
  int *d_in, *d_out;
  cudaMalloc((void**)&d_in, n * sizeof(int));
  cudaMalloc((void**)&d_out, blocks * sizeof(int));
  cudaMemcpy(d_in, h_in.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  if (argc > 1)
    reduce<true><<<blocks, 128>>>(d_in, d_out);
  else
    reduce<false><<<blocks, 128>>>(d_in, d_out);
  cudaMemcpy(h_out.data(), d_out, blocks * sizeof(int), cudaMemcpyDeviceToHost);
  printf("%d %d %d %d\n", h_out[0], h_out[1], h_out[2], h_out[3]);
  cudaFree(d_in);
  cudaFree(d_out);
}
