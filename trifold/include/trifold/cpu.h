// The interface of libtrifold_cpu, which runs ports compiled by g++ on the CPU: launches, waiting, memory.
//
// Threads that wait have their own stacks; a thread that never waits runs on the stack of the previous one. A port
// compiled with -fsanitize=thread is checked: the library sees each memory access.
#pragma once

#include <cstddef>
#include <cstdint>

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

#pragma GCC visibility push(default)
namespace trifold::cpu {

#ifdef __SANITIZE_THREAD__
inline constexpr bool checked = true;
#else
inline constexpr bool checked = false;
#endif

// The operations at which a thread can wait; the values are those of engine::Operation.
enum class Wait : uint8_t {
  barrier = 0,
  barrier_count,
  barrier_and,
  barrier_or,
  grid_barrier,
  sync_warp,
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  vote_all,
  vote_any,
  vote_equal,
  ballot,
  match_any,
  match_all,
  active_mask,
  named_barrier = 18,
  named_arrive,
  cluster_barrier,
  cluster_arrive,
  cluster_arrive_relaxed,
  cluster_wait,
  // On mbarriers in shared memory.
  mbarrier_init,
  mbarrier_inval,
  mbarrier_arrive,
  mbarrier_expect,
  mbarrier_complete,
  mbarrier_test,
  mbarrier_wait,
  shared_address,
  async_start,
  group_wait,
  // Instructions of the whole warp.
  mma,
  ldmatrix,
  stmatrix,
  movmatrix,
  load_matrix,
  store_matrix,
  multiply_matrices,
};

// An argument of a kernel; null unless it is a pointer.
struct Argument {
  const void* pointer;
  uint32_t element_bytes;
};

struct Kernel {
  void (*block)(const void* closure);   // runs all threads of the current block, one after the other
  void (*thread)(const void* closure);  // runs the current thread
  const void* closure;                  // the arguments
  size_t closure_bytes;
  const void* code;  // the kernel's function
  const char* name;
  const Argument* arguments;
  int argument_count;
  dim3 grid, threads;
  size_t shared_bytes;          // dynamic shared memory
  const char* parameters;       // their names, separated by commas; null: find them in the source, by `code`
  dim3 cluster{0, 0, 0};        // in blocks; zeros: as in its __cluster_dims__, or else one block per cluster
  bool clusters_given = false;  // by the launch or by __cluster_dims__
  bool large_clusters = false;  // allows more than 8 blocks, which not every device supports
  bool cooperative = false;     // its threads may wait for the whole grid
  bool dependent = false;       // may begin before the previous kernel in the stream has ended, if that one allows it
  const void* stream = nullptr;
};

// The addresses of the port's thread-local variables, for the block that runs on this OS thread.
struct Registers {
  uint3* thread;
  uint3* block;
  char* extern_shared;       // start of all `extern __shared__` arrays outside functions; null: the port has none
  const void** handed_over;  // not null: the running thread has waited, and whoever resumed it runs the rest
  // Sets the variables for a launch, and returns their addresses in the calling OS thread.
  Registers (*enter)(const Kernel& kernel);
};

// The launch with the shape of its clusters. Throws std::runtime_error if no device accepts it.
Kernel with_clusters(Kernel kernel);
// Runs the blocks of clusters [begin, end). Throws what the kernel throws, and std::runtime_error on a deadlock.
void run_blocks(const Kernel& kernel, Registers registers, int64_t begin, int64_t end);
// Runs all blocks with checks, in an order given by a seed. An error ends the launch with std::runtime_error.
void run_checked(const Kernel& kernel, Registers registers);
// Ends the running thread.
[[noreturn]] void end_thread();

// In a checked kernel: waits until the previous kernel in the stream has ended, which may overlap with this one; and
// allows the next kernel to begin.
void wait_for_earlier_grid();
void let_next_grid_begin();

// The line of the call: threads that wait at different lines have diverged.
struct Line {
  const char* file = __builtin_FILE();
  int line = __builtin_LINE();
};

void wait_at_barrier(Line line);
// A barrier of the grid or of the cluster.
void wait_at_wider_barrier(Wait operation, Line line);
unsigned wait_at_barrier(Wait operation, bool predicate, Line line);
// One of the block's barriers 1 to 15, for a stated number of threads, some of which may only arrive. Returns to those
// that wait how many predicates are true.
unsigned wait_at_named_barrier(Wait operation, unsigned number, unsigned threads, bool predicate, Line line);

struct WarpAnswer {
  uint64_t value;  // a shuffled value, a mask, or a ballot
  bool predicate;
};
WarpAnswer meet_warp(Wait operation, unsigned mask, bool predicate, uint64_t value, unsigned lane, unsigned clamp,
                     Line line);

// A lane's inputs and outputs of an instruction of the whole warp. `run`, the same for all lanes, is called once, when
// the last lane has arrived.
struct Together {
  void (*run)(Together* const (&lanes)[32]);
};
void meet_whole_warp(Wait operation, Together& own, Line line);

// looked(): an atomic did not change memory, so that its thread may be polling. pause(): lets other threads run.
void looked();
void pause(Line line);
// Ends the launch with an error at this line of the running thread. Outside a kernel, ends the process.
[[noreturn]] void stop_launch(const char* what, Line line);
// The same for an assertion; outside a kernel, fails as the C library's assert does.
[[noreturn]] void fail_assertion(const char* expression, const char* file, unsigned line, const char* function);
// Ends the launch: the kernel's __launch_bounds__ allow fewer threads than its blocks have.
[[noreturn]] void exceed_launch_bounds(unsigned threads);

// The scope of an atomic or a fence.
enum class Scope : uint8_t { block, device, system, cluster };

// The result of an atomic's operation on a value; if `writes` is false, the atomic only reads.
struct Made {
  uint64_t value;
  bool writes;
};
// Replaces the value of this many bytes by made(context, value), as one atomic access of the kernel; returns the old
// value. compare: for a compare-and-swap, the bits that memory is compared with.
uint64_t checked_update(void* p, size_t bytes, Scope scope, Made (*made)(const void* context, uint64_t old),
                        const void* context, const uint64_t* compare = nullptr);

// A load and a store of this many bytes, each one atomic access of the kernel.
uint64_t checked_load(const void* p, size_t bytes, Scope scope);
void checked_store(void* p, size_t bytes, Scope scope, uint64_t value);
// The contents of these bytes become undefined, as after a store of an undefined value.
void checked_discard(void* p, size_t bytes);

void fence(Scope scope);
// The running kernel's clusters: their shape, and whether the launch or the kernel states one.
struct Clusters {
  dim3 shape;
  bool given;
};
Clusters clusters();
bool is_cooperative();
// map_shared: the address in block `rank` of the cluster that corresponds to this one in the running block's shared
// memory. rank_of_shared: the rank of the block whose shared memory contains the address.
void* map_shared(const void* address, unsigned rank, Line line);
unsigned rank_of_shared(const void* address, Line line);

// 32-bit addresses of shared memory. One in the running block is an offset in its window, of which 0 to 1023 are
// invalid; one in another block of the cluster has that block's rank plus 1 in the upper byte.
uint32_t shared_address(const void* memory, Line line);
// The memory at an address; own_only: it must be in the block's own shared memory.
void* shared_memory(uint32_t address, bool own_only, Line line);
// The corresponding address in block `rank` of the cluster; and the rank of the block that an address is in.
uint32_t map_shared_address(uint32_t address, unsigned rank, Line line);
unsigned rank_of_shared_address(uint32_t address, Line line);
// Whether a pointer is into shared memory of the running block, or of its cluster; into local memory of the running
// thread.
bool is_shared(const void* memory, bool of_cluster, Line line);
bool is_local(const void* memory);
// Whether a 32-bit number is an address of shared memory rather than a pointer: pointers are as small if the heap
// follows a program that is loaded at a fixed address.
bool is_in_window(uint32_t address, Line line);

// Operations on a barrier in shared memory (PTX's mbarrier). own_only: forms that accept only the block's own barriers.
struct MBarrierArrival {
  unsigned count = 1;
  unsigned bytes = 0;  // expected bytes, if it `expects` some
  bool expects = false;
  bool drops = false;  // drops out: does not arrive in later phases either
  bool must_not_complete = false;
  bool relaxed = false;
  bool of_cluster = false;  // scope of its release
  bool own_only = true;
};
// How long a thread waits: not at all, for a limited time, or until the phase ends.
enum class Patience : uint8_t { none, tries, waits };
struct MBarrierPhase {
  uint64_t of;  // the parity of the phase, or the state that an arrival in it returned
  bool by_parity;
  Patience patience;
  bool of_cluster = false;  // scope of its acquire
};
void init_mbarrier(void* barrier, unsigned count, Line line);
void invalidate_mbarrier(void* barrier, Line line);
// Returns the state of the phase before the arrival. The upper half is the count of pending arrivals.
uint64_t arrive_at_mbarrier(void* barrier, const MBarrierArrival& arrival, Line line);
void expect_at_mbarrier(void* barrier, unsigned bytes, bool own_only, Line line);
void complete_at_mbarrier(void* barrier, unsigned bytes, bool own_only, Line line);
// Whether the phase has ended.
bool wait_at_mbarrier(void* barrier, const MBarrierPhase& phase, Line line);
// Makes the thread's initialisations visible to all that pass the cluster barrier at which it arrives next.
void fence_mbarrier_inits(Line line);

// The block's dynamic shared memory, and the running thread's lane.
void* dynamic_shared();
unsigned lane();

// Whether this OS thread runs a thread of a kernel.
bool in_kernel();

// An `extern __shared__` array in a function becomes a reference that is initialised from this
// (trifold/build/shared_arrays.py).
struct DynamicShared {
  template <class Array>
  operator Array&() const {
    return *static_cast<Array*>(dynamic_shared());
  }
};

// malloc and free of the running thread, in the heap of the device. Null: it is full.
void* allocate_on_heap(size_t bytes, Line line);
void free_on_heap(void* memory, Line line);

// The tensor whose elements are in these bytes is about to be a kernel's argument.
void note_tensor(const void* begin, size_t bytes);
// These bytes were allocated and are unwritten; fills them with a pattern. From then on, bytes that kernels of checked
// launches or anything else change count as written.
void note_fresh(const void* begin, size_t bytes, size_t element_bytes);

}  // namespace trifold::cpu
#pragma GCC visibility pop
