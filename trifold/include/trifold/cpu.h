// What a port that g++ compiled asks of libtrifold_host, which runs its kernels on the CPU: launches, waiting, memory.
//
// Waiting threads have stacks of their own; one that never waits runs on the stack of the one before it. A port that is
// compiled with -fsanitize=thread is a checked one: the library watches each access of memory.
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
namespace trifold::host {

#ifdef __SANITIZE_THREAD__
inline constexpr bool checked = true;
#else
inline constexpr bool checked = false;
#endif

// What a thread can wait for: numbers of engine::Operation.
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
  // Of barriers in shared memory.
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

// An argument of a kernel; null where it is no pointer.
struct Argument {
  const void* pointer;
  uint32_t element_bytes;
};

struct Kernel {
  void (*block)(const void* closure);   // all threads of the current block, one after the other
  void (*thread)(const void* closure);  // the current thread
  const void* closure;                  // the arguments
  size_t closure_bytes;
  const void* code;  // the kernel's function
  const char* name;
  const Argument* arguments;
  int argument_count;
  dim3 grid, threads;
  size_t shared_bytes;          // dynamic
  const char* parameters;       // their names, with commas between them; null: the source at `code` tells
  dim3 cluster{0, 0, 0};        // blocks; zeros: as its __cluster_dims__ say, or else each block alone
  bool clusters_given = false;  // one of the two says so
  bool large_clusters = false;  // of more than 8 blocks, which not each device has
  bool cooperative = false;     // its threads may wait for the whole grid
  bool dependent = false;       // it may begin before the kernel before it in the stream has ended, if that lets it
  const void* stream = nullptr;
};

// The port's variables of thread storage: where they are for the block that runs on this OS thread.
struct Registers {
  uint3* thread;
  uint3* block;
  char* extern_shared;       // the array of all `extern __shared__` ones outside functions; null: the port has none
  const void** handed_over;  // not null: the running thread has waited, and whoever resumed it runs the others
  // Sets them for a launch, where they are at the time of the call.
  Registers (*enter)(const Kernel& kernel);
};

// The launch with its clusters' shape. Throws std::runtime_error where no device takes it.
Kernel with_clusters(Kernel kernel);
// Runs the blocks of clusters [begin, end). Throws what the kernel throws, and std::runtime_error where threads wait
// for ever.
void run_blocks(const Kernel& kernel, Registers registers, int64_t begin, int64_t end);
// Runs all blocks, in the order that a seed gives, with checks. A mistake ends the launch: std::runtime_error.
void run_checked(const Kernel& kernel, Registers registers);
// Ends the running thread.
[[noreturn]] void end_thread();

// Of a checked kernel: the running thread waits until the kernel before it in the stream has ended, which it may have
// begun before; and lets the next one begin.
void wait_for_earlier_grid();
void let_next_grid_begin();

// The call's own line: threads that wait at different ones have diverged.
struct Line {
  const char* file = __builtin_FILE();
  int line = __builtin_LINE();
};

void wait_at_barrier(Line line);
// Of the grid or the cluster.
void wait_at_wider_barrier(Wait operation, Line line);
unsigned wait_at_barrier(Wait operation, bool predicate, Line line);
// One of the block's barriers 1 to 15, at which so many threads come together, of which some only arrive. Returns how
// many predicates are true, to those that wait.
unsigned wait_at_named_barrier(Wait operation, unsigned number, unsigned threads, bool predicate, Line line);

struct WarpAnswer {
  uint64_t value;  // what was shuffled, a mask, or a ballot
  bool predicate;
};
WarpAnswer meet_warp(Wait operation, unsigned mask, bool predicate, uint64_t value, unsigned lane, unsigned clamp,
                     Line line);

// What a lane brings to an instruction of the whole warp, and gets from it: `run`, the same for all lanes, is called
// once when the last of them has come.
struct Together {
  void (*run)(Together* const (&lanes)[32]);
};
void meet_whole_warp(Wait operation, Together& own, Line line);

// An atomic left memory as it was: its thread may wait for another one to change it. And: the thread pauses.
void looked();
void pause(Line line);
// Ends the launch with an error that says what the running thread met at this line. Outside a kernel, ends the process.
[[noreturn]] void stop_launch(const char* what, Line line);
// The same for an assertion; outside a kernel, what the C library does.
[[noreturn]] void fail_assertion(const char* expression, const char* file, unsigned line, const char* function);
// The running thread's kernel has bounds that allow fewer threads than its blocks have: ends the launch.
[[noreturn]] void exceed_launch_bounds(unsigned threads);

// Whose atomics and fences these are for.
enum class Scope : uint8_t { block, device, system, cluster };

// What an atomic makes of a value; where it writes nothing, it only reads.
struct Made {
  uint64_t value;
  bool writes;
};
// Replaces the value of so many bytes by made(context, value), as one atomic access of the kernel's; returns the old
// one. compare: of a compare-and-swap, the bits that it compares memory with.
uint64_t checked_update(void* p, size_t bytes, Scope scope, Made (*made)(const void* context, uint64_t old),
                        const void* context, const uint64_t* compare = nullptr);

// A load and a store of so many bytes, as one atomic access of the kernel's.
uint64_t checked_load(const void* p, size_t bytes, Scope scope);
void checked_store(void* p, size_t bytes, Scope scope, uint64_t value);
// What these bytes held is lost, as if a store of nothing defined had been made.
void checked_discard(void* p, size_t bytes);

void fence(Scope scope);
// The running kernel's clusters: their shape, and whether the launch or the kernel gives one.
struct Clusters {
  dim3 shape;
  bool given;
};
Clusters clusters();
bool is_cooperative();
// Where what the running block has at this address of its shared memory lies in that block of its cluster, and in which
// block's memory the address lies.
void* map_shared(const void* address, unsigned rank, Line line);
unsigned rank_of_shared(const void* address, Line line);

// Addresses of shared memory in 32 bits. One of the block's own is an offset in its window, of which 0 to 1023 are
// nothing; one of another block of the cluster has that one's rank, plus 1, in the upper byte.
uint32_t shared_address(const void* memory, Line line);
// What lies there; own_only: where only the block's own memory will do.
void* shared_memory(uint32_t address, bool own_only, Line line);
// The same place in that block of the cluster; and the block that it is in.
uint32_t map_shared_address(uint32_t address, unsigned rank, Line line);
unsigned rank_of_shared_address(uint32_t address, Line line);
// Whether a pointer leads to shared memory of the running block, or of its cluster; to memory of the running thread.
bool is_shared(const void* memory, bool of_cluster, Line line);
bool is_local(const void* memory);
// Whether a number of 32 bits is an address of shared memory, and no pointer: where the heap follows a program that is
// loaded at a fixed address, pointers are as small.
bool is_in_window(uint32_t address, Line line);

// Operations on a barrier in shared memory (PTX's mbarrier). own_only: in the form for the block's own barriers.
struct MBarrierArrival {
  unsigned count = 1;
  unsigned bytes = 0;  // that are expected, if it `expects` some
  bool expects = false;
  bool drops = false;  // it comes no more, in later phases either
  bool must_not_complete = false;
  bool relaxed = false;
  bool of_cluster = false;  // the scope of its release
  bool own_only = true;
};
// How long a thread waits: not at all, until it loses its patience, or for ever.
enum class Patience : uint8_t { none, tries, waits };
struct MBarrierPhase {
  uint64_t of;  // its parity, or the state that an arrival in it has returned
  bool by_parity;
  Patience patience;
  bool of_cluster = false;  // the scope of its acquire
};
void init_mbarrier(void* barrier, unsigned count, Line line);
void invalidate_mbarrier(void* barrier, Line line);
// Returns the state of the phase before it. The upper half is the count of pending arrivals.
uint64_t arrive_at_mbarrier(void* barrier, const MBarrierArrival& arrival, Line line);
void expect_at_mbarrier(void* barrier, unsigned bytes, bool own_only, Line line);
void complete_at_mbarrier(void* barrier, unsigned bytes, bool own_only, Line line);
// Whether the phase has ended.
bool wait_at_mbarrier(void* barrier, const MBarrierPhase& phase, Line line);
// What the thread has initialised is so for all who pass the barrier of the cluster at which it arrives next.
void fence_mbarrier_inits(Line line);

// The block's dynamic shared memory, and the running thread's lane.
void* dynamic_shared();
unsigned lane();

// Whether this OS thread runs a thread of a kernel.
bool in_kernel();

// What an `extern __shared__` array in a function is bound to (trifold/build/shared_arrays.py).
struct DynamicShared {
  template <class Array>
  operator Array&() const {
    return *static_cast<Array*>(dynamic_shared());
  }
};

// A tensor whose elements lie in these bytes is about to be a kernel's argument.
void note_tensor(const void* begin, size_t bytes);
// These bytes were allocated, and nobody has written them; fills them with a pattern. What the kernels of checked
// launches write, or anybody else changes, counts as written from then on.
void note_fresh(const void* begin, size_t bytes, size_t element_bytes);

}  // namespace trifold::host
#pragma GCC visibility pop
