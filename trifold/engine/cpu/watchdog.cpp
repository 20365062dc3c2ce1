#include "watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "front.h"
#include "interrupted.h"
#include "module.h"
#include "settings.h"
#include "sites.h"

namespace trifold::cpu {

constinit thread_local volatile uint32_t overdue = 0;

namespace {

constexpr auto between_looks = std::chrono::milliseconds(20);
constexpr int looks_before_sleep = 50;  // looks that find no launch
// Seconds of the OS thread's processor time between two signals.
constexpr double seconds_between_signals = 0.010;

constexpr int tick = SIGURG;
struct sigaction action_before;

class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

// The watchdog's data for an OS thread that launches kernels.
struct Watch {
  pid_t thread = 0;
  clockid_t processor_time = 0;
  volatile uint32_t* overdue = nullptr;

  // protects the next two; signals are sent while it is held, so that they arrive within the launch
  SpinLock lock;
  uint64_t launch = 0;  // its number; 0: none runs
  const void* code = nullptr;
  uint64_t launches = 0;

  // Used by the watchdog only: the launch that it saw last, and the thread's processor time then.
  uint64_t seen = 0;
  double since = 0;
  double signalled = 0;  // its processor time at the last signal
  // The address range of the code of that launch's library.
  std::atomic<uintptr_t> text_begin{0}, text_end{0};
};

// Never destroyed: the watchdog runs as long as the process. A forked child has no watchdog, and starts a new one.
struct State {
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<Watch*> watches;
  bool runs = false;
  std::atomic<bool> asleep{false};
};
State* state = new State;

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Whether a launch runs in this OS thread.
bool look_at(Watch& watch) {
  watch.lock.lock();
  const uint64_t launch = watch.launch;
  const void* const code = watch.code;
  watch.lock.unlock();
  if (launch == 0) return false;
  if (launch != watch.seen) {
    watch.seen = launch;
    watch.since = watch.signalled = seconds_of(watch.processor_time);
    const Range text = text_of(code);
    watch.text_begin.store(text.begin);
    watch.text_end.store(text.end);
    return true;
  }
  const double limit = kernel_seconds(), now = seconds_of(watch.processor_time);
  const bool late = limit > 0 && now - watch.since > limit;
  if (!late && now - watch.signalled < seconds_between_signals) return true;
  watch.signalled = now;
  const std::lock_guard<SpinLock> locked(watch.lock);
  if (watch.launch != launch) return true;
  if (late) *watch.overdue = *watch.overdue + 1;
  syscall(SYS_tgkill, getpid(), watch.thread, tick);
  return true;
}

void watch_launches(State& all) {
  int idle = 0;
  std::unique_lock<std::mutex> locked(all.mutex);
  for (;;) {
    bool any = false;
    for (Watch* const watch : all.watches) any |= look_at(*watch);
    idle = any ? 0 : idle + 1;
    if (idle < looks_before_sleep) {
      all.wake.wait_for(locked, between_looks);
      continue;
    }
    all.asleep = true;
    // A launch that began before it could see `asleep` is found here.
    any = std::ranges::any_of(all.watches, [](Watch* watch) { return look_at(*watch); });
    if (!any) all.wake.wait(locked, [&] { return !all.asleep; });
    all.asleep = false;
    idle = 0;
  }
}

Watch& own_watch();

void on_tick(int signal, siginfo_t* info, void* context) {
  Turn* const now = turn;
  if (now == nullptr || info->si_code != SI_TKILL) {
    if ((action_before.sa_flags & SA_SIGINFO) != 0) {
      action_before.sa_sigaction(signal, info, context);
    } else if (action_before.sa_handler != SIG_DFL && action_before.sa_handler != SIG_IGN) {
      action_before.sa_handler(signal);
    }
    return;
  }
  Fiber* const fiber = now->running();
  const uintptr_t address = interrupted(context).instruction;
  const Watch& watch = own_watch();
  if (fiber == nullptr || address < watch.text_begin || address >= watch.text_end) return;
  const auto* const next = reinterpret_cast<const void*>(address + 1);
  const bool polls = std::exchange(now->polls_seen, now->polls) != now->polls && overdue <= overdue_polls;
  if (polls) return;
  if (overdue != 0) now->stop_thread(Stop::time, next);
  // The thread waits like one that polls memory, and others run. Not before any thread has waited, since there is no
  // other thread to run. Not with checks, since an access would be between the engine's look at it and the kernel's
  // own: there only the calls can do it.
  if (now->front == nullptr || engine::current->block->launch->checker != nullptr) return;
  const int saved_errno = errno;
  engine::Thread& thread = *engine::current;
  thread.request.operation = static_cast<uint8_t>(engine::Operation::poll);
  thread.waiting_at = site_of_address(next);
  now->front->wait();
  errno = saved_errno;
}

void install_handler() {
  struct sigaction action{};
  action.sa_sigaction = on_tick;
  // The handler may leave by another stack, for a long time: the signal must not stay blocked.
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;
  sigaction(tick, &action, &action_before);
  pthread_atfork(nullptr, nullptr, [] { state = new State; });
}

// The watchdog must not receive signals that are meant for other threads of the process.
void start_watchdog(State& all) {
  sigset_t every, before;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &before);
  std::thread([&all] { watch_launches(all); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  all.runs = true;
}

// A Watch in the list of the process's state.
class Registered {
 public:
  explicit Registered(State* in) : in_(in) {
    static const bool installed = (install_handler(), true);
    static_cast<void>(installed);
    watch.thread = static_cast<pid_t>(syscall(SYS_gettid));
    watch.overdue = &overdue;
    pthread_getcpuclockid(pthread_self(), &watch.processor_time);
    const std::lock_guard<std::mutex> locked(in_->mutex);
    in_->watches.push_back(&watch);
    if (!in_->runs) start_watchdog(*in_);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() {
    if (in_ != state) return;  // created in the process that forked this one
    const std::lock_guard<std::mutex> locked(in_->mutex);
    std::erase(in_->watches, &watch);
  }
  bool holds() const { return in_ == state; }

  Watch watch;

 private:
  State* in_;
};

// On the heap: the library's static thread storage, which is set aside when a thread starts, is limited.
thread_local std::unique_ptr<Registered> own;

Watch& own_watch() {
  return own->watch;
}

}  // namespace

Watched::Watched(const Kernel& kernel) {
  if (own == nullptr || !own->holds()) own = std::make_unique<Registered>(state);
  Watch& watch = own->watch;
  overdue = 0;
  watch.lock.lock();
  watch.launch = ++watch.launches;
  watch.code = kernel.code;
  watch.lock.unlock();
  std::atomic_thread_fence(std::memory_order_seq_cst);  // either this sees that it sleeps, or it sees the launch
  if (!state->asleep.load(std::memory_order_relaxed)) return;
  {
    const std::lock_guard<std::mutex> locked(state->mutex);
    state->asleep = false;
  }
  state->wake.notify_one();
}

Watched::~Watched() {
  const std::lock_guard<SpinLock> locked(own->watch.lock);
  own->watch.launch = 0;
}

}  // namespace trifold::cpu
