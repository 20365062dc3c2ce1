// How a block's threads use the temporary storage of one of CUB's collectives, for all of them.
#pragma once

#include <trifold/cpu/cub/lanes.h>

#include <cstdio>

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_read4(void* address);
#endif

namespace cub::details {

// Storage with what the checks need: CUB lets it be used again only after a barrier, whichever of its bytes a
// collective leaves alone.
template <class Data>
struct Shared {
  unsigned use;
  Data data;
};

// One use of the storage: the first thread writes at its begin, and all threads read at its end, so that the next use
// races with the reads unless a barrier comes before it.
class Use {
 public:
  __forceinline__ Use(unsigned& storage, int rank) : storage_(storage) {
    if (trifold::cpu::checked && rank == 0) storage_ = 1;
  }
  __forceinline__ ~Use() {
#ifdef __SANITIZE_THREAD__
    __tsan_read4(&storage_);
#endif
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  unsigned& storage_;
};

// The block has as many threads as the collective was compiled for; or, if it counts valid items, as many as these.
inline void require_threads(const char* collective, int threads, int needed, Line line) {
  const int have = static_cast<int>(trifold::cpu::threads_of_block());
  if (have <= threads && have >= needed) [[likely]]
    return;
  char what[160];
  if (have > threads || needed == threads)
    snprintf(what, sizeof what, "a %s for blocks of %d threads in a block of %d", collective, threads, have);
  else
    snprintf(what, sizeof what, "a %s of %d valid items in a block of %d threads", collective, needed, have);
  trifold::cpu::stop_launch(what, line);
}

// A block of these extents, which the collectives are compiled for.
template <int x, int y, int z>
class Block {
 protected:
  static constexpr int threads = x * y * z;
  static constexpr int warps = (threads + 31) / 32;

  static int rank() { return RowMajorTid(x, y, z); }
};

}  // namespace cub::details
