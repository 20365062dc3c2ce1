// A common pace for clusters that stream as many rows each (sm_90 on).
//
// What memory gives is not shared out evenly: clusters of small groups of multiprocessors have had their rows a tenth
// sooner than others, and for these the kernel then waits, while memory has less and less to do. So a cluster that is
// ahead of the others waits for them. Only time depends on that, no result.
#pragma once

#include <trifold/cluster.cuh>

#ifdef TRIFOLD_CLUSTERS

namespace trifold {

// What all clusters of a device have counted, since ever: each its steps. Where two kernels run at once, they count
// together, and hold each other back for a moment, or not at all.
static __device__ unsigned steps_of_all;

class Pace {
 public:
  // Before the first step of any cluster, and behind earlier kernels. One thread of a cluster `leads`.
  __device__ __forceinline__ Pace(bool leads, int clusters) : leads_(leads), clusters_(clusters) {
    if (leads_) first_ = seen_ = now();
  }

  // Before the cluster's first warp tells others about step i, for which all then wait. A cluster is never more than a
  // step ahead of the mean, as it was known a step ago or is asked for now. If that takes too long, some cluster does
  // not run yet, and there is no pace to keep.
  __device__ __forceinline__ void step(int i) {
    if (leads_) {
      const int enough = (i - 1) * clusters_;
      for (int asked = 0; static_cast<int>(seen_ - first_) < enough; ++asked) {
        if (asked == most_asked) {
          leads_ = false;
          break;
        }
        seen_ = now();
      }
      asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(&steps_of_all) : "memory");
      seen_ = now();
    }
    __syncwarp();
  }

 private:
  static constexpr int most_asked = 32;  // some 30 µs
  bool leads_;
  int clusters_;
  unsigned first_ = 0, seen_ = 0;

  static __device__ __forceinline__ unsigned now() {
    unsigned steps;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(steps) : "l"(&steps_of_all) : "memory");
    return steps;
  }
};

}  // namespace trifold

#endif
