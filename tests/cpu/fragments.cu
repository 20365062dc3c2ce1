// nvcuda::wmma as users write it: for test_fragments.py.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>

using namespace nvcuda;

// d = 2·(a·b) + c, of one warp. d and c lie by columns where b does.
template <int m, int n, int k, typename Tag, typename T, typename C, typename D, typename A, typename B>
__device__ void product(const void* a, const void* b, const void* c, void* d, bool a_rows, bool b_rows) {
  wmma::fragment<wmma::matrix_a, m, n, k, Tag, A> left;
  wmma::fragment<wmma::matrix_b, m, n, k, Tag, B> right;
  wmma::fragment<wmma::accumulator, m, n, k, C> sums;
  wmma::fragment<wmma::accumulator, m, n, k, D> made;
  const wmma::layout_t layout = b_rows ? wmma::mem_row_major : wmma::mem_col_major;
  wmma::load_matrix_sync(left, static_cast<const T*>(a), a_rows ? k : m);
  wmma::load_matrix_sync(right, static_cast<const T*>(b), b_rows ? n : k);
  wmma::load_matrix_sync(sums, static_cast<const C*>(c), b_rows ? n : m, layout);
  wmma::mma_sync(made, left, right, sums);
  wmma::fill_fragment(sums, C(0.0f));
  wmma::mma_sync(sums, left, right, sums);
  for (int i = 0; i < made.num_elements; ++i) made.x[i] = D(float(made.x[i]) + float(sums.x[i]));
  wmma::store_matrix_sync(static_cast<D*>(d), made, b_rows ? n : m, layout);
}

template <int m, int n, int k, typename Tag, typename T, typename C, typename D>
__global__ void products(const void* a, const void* b, const void* c, void* d, int layouts) {
  if (layouts == 0) product<m, n, k, Tag, T, C, D, wmma::row_major, wmma::row_major>(a, b, c, d, true, true);
  if (layouts == 1) product<m, n, k, Tag, T, C, D, wmma::row_major, wmma::col_major>(a, b, c, d, true, false);
  if (layouts == 2) product<m, n, k, Tag, T, C, D, wmma::col_major, wmma::row_major>(a, b, c, d, false, true);
  if (layouts == 3) product<m, n, k, Tag, T, C, D, wmma::col_major, wmma::col_major>(a, b, c, d, false, false);
}

__global__ void saturating(const unsigned char* ones, const int* most, int* d) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, unsigned char, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, unsigned char, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> c;
  wmma::load_matrix_sync(a, ones, 16);
  wmma::load_matrix_sync(b, ones, 16);
  wmma::load_matrix_sync(c, most, 16, wmma::mem_row_major);
  wmma::mma_sync(c, a, b, c, true);
  wmma::store_matrix_sync(d, c, 16, wmma::mem_row_major);
}

// A tile in shared memory that is stored and read by others: with and without what orders the two; by half a warp; at
// an address that is no multiple of 32 bytes; by rows that lie past the end.
__global__ void mistakes(const half* x, float* y, int which) {
  __shared__ __align__(32) float tile[16 * 16];
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
  wmma::fill_fragment(sums, 0.0f);
  wmma::load_matrix_sync(a, which == 4 ? x + 8 : x, which == 3 ? 24 : 16);  // load
  wmma::load_matrix_sync(b, x, 16);
  if (which != 2 || threadIdx.x < 16) wmma::mma_sync(sums, a, b, sums);  // product
  wmma::store_matrix_sync(tile, sums, 16, wmma::mem_row_major);          // store
  if (which != 1) __syncwarp();
  for (int i = 0; i < 8; ++i) y[8 * threadIdx.x + i] = tile[255 - 8 * threadIdx.x - i];  // read
}
