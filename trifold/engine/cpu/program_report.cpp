#include "program_report.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "arenas.h"
#include "device_memory.h"
#include "front.h"
#include "report.h"
#include "settings.h"
#include "sites.h"
#include "stream_accesses.h"

namespace trifold::cpu {
namespace {

// TRIFOLD_PROGRAM has the fields of ProgramOptions, and the device; trifold/sanitize/program.py sets it.
ProgramOptions read_options() {
  ProgramOptions options;
  const char* const text = getenv("TRIFOLD_PROGRAM");
  unsigned long long seed = 0;
  int keep_going = 0;
  char capability[16];
  uint32_t limit[6];
  if (text == nullptr ||
      sscanf(text, "%d %llu %d %d %15s %u %u %u %u %u %u", &options.pipe, &seed, &options.schedules, &keep_going,
             capability, &limit[0], &limit[1], &limit[2], &limit[3], &limit[4], &limit[5]) != 11)
    return {};
  set_device(capability, limit);
  options.seed = seed;
  options.keep_going = policy().keep_going = keep_going != 0;
  if (const char* const lines = getenv("TRIFOLD_ACCEPTED")) policy().accept(lines);
  return options;
}

void tell(std::string_view kind, std::string text) {
  const int pipe = program_options().pipe;
  if (pipe < 0) return;
  std::ranges::replace(text, '\n', ' ');
  text = std::string(kind) + '\t' + text + '\n';
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(pipe, text.data() + at, text.size() - at);
    if (n <= 0) return;
    at += static_cast<size_t>(n);
  }
}

const void* program_base = nullptr;

const void* base_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) == 0 ? nullptr : info.dli_fbase;
}

const char* instruction(const void* context) {
#ifdef __x86_64__
  return reinterpret_cast<const char*>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#else
  static_cast<void>(context);
  return nullptr;
#endif
}

// Whether the access that faulted is a write, where the processor tells; else false.
bool is_write(const void* context) {
#ifdef __x86_64__
  // error code of the page fault
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  static_cast<void>(context);
  return false;
#endif
}

const char* access_verb(const void* context) {
#ifdef __x86_64__
  return is_write(context) ? " writes " : " reads ";
#else
  static_cast<void>(context);
  return " touches ";
#endif
}

// The innermost line in the program's own sources.
engine::Location crash_location(const void* context) {
  void* frames[64];
  const int count = backtrace(frames, 64);
  for (int i = 0; i < count; ++i) {
    if (base_of(frames[i]) != program_base) continue;
    // Look up a call by an address before its return address, but the instruction that crashed by its own.
    const char* const behind = static_cast<char*>(frames[i]) + (frames[i] == instruction(context) ? 1 : 0);
    const engine::Location location = location_of(site_of_address(behind));
    if (location.line != 0) return location;
  }
  return {};
}

std::string crash_line(const void* context) {
  const engine::Location location = crash_location(context);
  return location.line == 0 ? "an unknown line" : engine::where(location);
}

// Pages that are open for the one instruction of the host's code that this OS thread executes now.
thread_local std::array<uintptr_t, 4> opened;
thread_local size_t opened_count = 0;

// After so many instructions on pages of which operations use other bytes, such a page stays open until the next
// operation: each of them takes two signals.
constexpr int most_steps = 10000;
int steps = 0;

// Lets the instruction that faulted access the page, and no other one, where the processor can stop after it.
void step_over(uintptr_t address, void* context) {
  open_page(address);
#ifdef __x86_64__
  constexpr greg_t trap_flag = 0x100;
  if (opened_count == opened.size() || steps == most_steps) return;
  ++steps;
  opened[opened_count++] = address;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] |= trap_flag;
#else
  static_cast<void>(context);
#endif
}

void on_step(int signal, siginfo_t*, void* context) {
  if (opened_count == 0) {
    ::signal(signal, SIG_DFL);
    raise(signal);
    return;
  }
#ifdef __x86_64__
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~greg_t{0x100};
#else
  static_cast<void>(context);
#endif
  while (opened_count > 0) close_page(opened[--opened_count]);
}

// Whether the host touches a page that operations may still access. If it touches the same byte, that is reported. The
// program goes on.
bool may_go_on(uintptr_t address, void* context) {
  const Allocation* const touched = allocation_near(address);
  if (touched == nullptr || !touched->live || !touched->is_in_flight()) return false;
  if (address < touched->begin || address >= touched->begin + whole_pages(touched->bytes)) return false;
  note_host_access(address, is_write(context), [&] { return crash_location(context); });
  step_over(address, context);
  return true;
}

// Reports what is known, and lets the program die. It runs on its own stack. What it calls may fail, but the program is
// lost in any case.
void on_crash(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool in_kernel = turn != nullptr && turn->front != nullptr && turn->front->running != nullptr;
  if (signal != SIGFPE && !in_kernel && may_go_on(address, context)) return;
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  sigaction(signal, &usual, nullptr);
  const std::string who = in_kernel ? "the kernel " + std::string(turn->kernel.name) : "the program's host code";
  const Allocation* const device = signal == SIGFPE || in_kernel ? nullptr : allocation_near(address);
  if (device != nullptr) {
    const bool inside = address >= device->begin && address < device->end();
    problem(who + access_verb(context) +
            (inside ? "byte " + std::to_string(address - device->begin) + " of " : "outside of ") +
            device->description() + ", at " + crash_line(context) +
            ". Only kernels and CUDA's own functions may touch it: copy with cudaMemcpy, or use cudaMallocManaged");
  } else {
    char number[32];
    snprintf(number, sizeof number, "%#zx", static_cast<size_t>(address));
    problem(who + " crashes at " + crash_line(context) + ": " +
            (signal == SIGFPE ? "a division by zero" : "no memory is at address " + std::string(number)));
  }
  raise(signal);
}

void catch_crashes() {
  static char stack[256 << 10];
  const stack_t alternate{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&alternate, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(signal, &action, nullptr);
  action.sa_sigaction = on_step;
  sigaction(SIGTRAP, &action, nullptr);
  void* frame = nullptr;
  backtrace(&frame, 1);  // its first call loads a library
}

void tell_leaks() {
  if (last_error(false) != Error::success) return;  // after an error, a program usually exits without freeing
  for (const Allocation* const allocation : allocations())
    if (allocation->live) remark("never freed: " + allocation->description());
}

}  // namespace

std::string place(Line line) {
  const std::string_view file = line.file == nullptr ? "an unknown file" : line.file;
  return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(line.line);
}

void problem(const std::string& text) {
  tell("problem", text);
}

void remark(const std::string& text) {
  tell("remark", text);
}

void tell_findings(const std::string& lines) {
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at);
    tell("finding", lines.substr(at, end - at));
    at = end + 1;
  }
}

const ProgramOptions& program_options() {
  static const ProgramOptions options = read_options();
  return options;
}

void begin_program(const void* variable) {
  if (program_options().pipe < 0 || program_base != nullptr) return;
  program_base = base_of(variable);
  for (const char* const variable : {"TRIFOLD_PROGRAM", "TRIFOLD_ACCEPTED"})
    unsetenv(variable);  // programs that this one starts must not write to the pipe
  fcntl(program_options().pipe, F_SETFD, FD_CLOEXEC);
  protect_device_memory();
  catch_crashes();
  atexit(tell_leaks);
}

}  // namespace trifold::cpu
