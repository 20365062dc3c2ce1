// ldmatrix, stmatrix and movmatrix, right and wrong: for test_matrices.py.
#include <stdint.h>

// The address of shared memory, as ldmatrix wants it.
__device__ uint64_t shared(const void* pointer) {
  uint64_t address;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(pointer));
  return address;
}

// Four matrices of 8×8, whose element at row r and column c of matrix m is 64·m + 8·r + c.
__device__ void fill(uint16_t (&tile)[32][8]) {
  const int lane = threadIdx.x;
  for (int i = 0; i < 8; ++i) tile[lane][i] = static_cast<uint16_t>(8 * lane + i);
}

// made: 16 words a lane.
__global__ void moves(uint32_t* made) {
  __shared__ __align__(16) uint16_t tile[32][8], copy[32][8];
  const int lane = threadIdx.x;
  fill(tile);
  for (int i = 0; i < 8; ++i) copy[lane][i] = 0;
  __syncwarp();
  uint32_t one, two[2], four[4], turned[4], moved;
  const uint64_t row = shared(tile[lane]), to = shared(copy[31 - lane]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(one) : "l"(lane < 8 ? row : 0));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(two[0]), "=r"(two[1]) : "l"(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(four[0]), "=r"(four[1]), "=r"(four[2]), "=r"(four[3])
               : "l"(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(turned[0]), "=r"(turned[1]), "=r"(turned[2]), "=r"(turned[3])
               : "l"(row));
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(moved) : "r"(one));
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(four[0]),
               "r"(four[1]), "r"(four[2]), "r"(four[3])
               : "memory");
  __syncwarp();
  const uint32_t all[] = {one,
                          two[0],
                          two[1],
                          four[0],
                          four[1],
                          four[2],
                          four[3],
                          turned[0],
                          turned[1],
                          turned[2],
                          turned[3],
                          moved,
                          copy[lane][0] | uint32_t{copy[lane][1]} << 16,
                          copy[lane][2] | uint32_t{copy[lane][3]} << 16,
                          copy[lane][4] | uint32_t{copy[lane][5]} << 16,
                          copy[lane][6] | uint32_t{copy[lane][7]} << 16};
  for (int i = 0; i < 16; ++i) made[16 * lane + i] = all[i];
}

// The first registers of ldmatrix and mma, by half a warp, in two branches, after lanes have exited; and of a read
// that a store of another lane follows with nothing between.
__global__ void mistakes(uint32_t* made, int which) {
  __shared__ __align__(16) uint16_t tile[32][8];
  const int lane = threadIdx.x;
  uint32_t got = 0;
  fill(tile);
  __syncthreads();
  const uint64_t row = shared(tile[lane]);
  if (which == 1 && lane < 16)
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(got) : "r"(1));  // half
  if (which == 1) __syncwarp();
  if (which == 2) {
    if (lane % 2 == 0)
      asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(got) : "l"(row));  // even
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(got) : "l"(row));  // odd
  }
  if (which == 3) {
    if (lane >= 30) return;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(got) : "l"(row));  // exited
  }
  if (which == 4) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(got) : "l"(row));  // read
    tile[(lane + 8) % 32][0] = 0;                                                                 // write
  }
  made[lane] = got;
}
