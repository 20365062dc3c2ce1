#include "launch.h"

#include <initializer_list>
#include <optional>
#include <string>

#include "../core/checker.h"
#include "../core/execution.h"
#include "../core/tolerance.h"
#include "array.h"
#include "exception.h"
#include "fault.h"
#include "front.h"
#include "object.h"
#include "sites.h"
#include "traceback.h"
#include "writes.h"

namespace trifold::simulator {

using engine::Dim3;
using engine::Launch;
using engine::Thread;

namespace {

// One launch at a time: sites, shared memory and the state that device code accesses are global.
PyThread_type_lock launch_lock = nullptr;

// The frame that called launch(), on the OS thread that launches.
constinit thread_local PyObject* launching_frame = nullptr;
constinit thread_local bool launching = false;

void raise_launch_error(const std::string& problem, const std::string& remedy) {
  PyObject* const errors = PyImport_ImportModule("trifold.errors");
  PyObject* const type = errors != nullptr ? PyObject_GetAttrString(errors, "LaunchError") : nullptr;
  PyObject* const error =
      type != nullptr ? PyObject_CallFunction(type, "ss", problem.c_str(), remedy.c_str()) : nullptr;
  if (error != nullptr) PyErr_SetObject(type, error);
  Py_XDECREF(error);
  Py_XDECREF(type);
  Py_XDECREF(errors);
}

// Holds the launch lock, the launching frame and the remaining state of a launch.
class Turn {
 public:
  // False with an exception.
  bool begin(const std::string& kernel) {
    if (launching) {
      raise_launch_error("kernel " + kernel + " is launched while another kernel runs",
                         "launch it after that kernel, from the host; a kernel calls other code as a device function");
      return false;
    }
    while (PyThread_acquire_lock(launch_lock, NOWAIT_LOCK) == 0) {
      PyLockStatus status;
      Py_BEGIN_ALLOW_THREADS;
      status = PyThread_acquire_lock_timed(launch_lock, -1, 1);
      Py_END_ALLOW_THREADS;
      if (status == PY_LOCK_ACQUIRED) break;
      if (PyErr_CheckSignals() < 0) return false;
    }
    holds_ = launching = true;
    launching_frame = Py_XNewRef(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
    forget_sites();
    // The garbage collector would search each thread's generator and tuples, none of which is part of a cycle.
    collects_ = PyGC_Disable() != 0;
    return true;
  }

  ~Turn() {
    if (!holds_) return;
    if (collects_) PyGC_Enable();
    engine::current = nullptr;
    Py_CLEAR(launching_frame);
    forget_sites();
    launching = false;
    PyThread_release_lock(launch_lock);
  }

 private:
  bool holds_ = false;
  bool collects_ = false;  // whether the process's garbage collector is enabled
};

// Ends the threads that a failed launch leaves and frees the blocks' memory, without touching the exception.
void clean_up(const engine::Execution& execution) {
  PyObject* const exception = take_exception();
  for (const auto& block : execution.blocks()) {
    for (Thread& thread : block->threads) PythonFront::abandon(thread);
    engine::current = nullptr;
    free_block_memory(*block);
  }
  forget_undecided();
  set_exception(exception);
}

// A waiting thread of this block, to show a fault of several threads at a line of the kernel.
Thread* waiting_thread(Thread& running) {
  if (running.front != nullptr) return &running;
  for (Thread& thread : running.block->threads)
    if (thread.front != nullptr) return &thread;
  return nullptr;
}

// Raises the current exception at the line where a thread waits, so that tracebacks and debuggers show it.
void raise_at_waiting_thread() {
  Thread* const thread = engine::current != nullptr ? waiting_thread(*engine::current) : nullptr;
  if (thread == nullptr) return;
  engine::current = thread;
  PyObject* const exception = take_exception();
  Py_XDECREF(PyObject_CallMethod(static_cast<PyObject*>(thread->front), "throw", "O", exception));
  PyObject* const raised = take_exception();
  if (raised == exception) {
    Py_DECREF(exception);
    set_exception(raised);
  } else {
    Py_XDECREF(raised);  // the kernel caught it, but the launch ends nevertheless
    set_exception(exception);
  }
}

engine::Policy policy;

// Whether a finding has ended the launch, but the program continues.
bool is_passed_over(PyObject* exception) {
  if (!policy.keep_going) return false;
  const Object findings(PyImport_ImportModule("trifold.findings"));
  const Object type(findings ? PyObject_GetAttrString(findings.get(), "KernelFault") : nullptr);
  return type && PyErr_GivenExceptionMatches(exception, type.get()) != 0;
}

// Records the findings after which the launch continued. False with an exception: one is a warning, and warnings are
// errors.
bool record_all(const engine::Tally& tally) {
  PyObject* first = nullptr;
  for (const engine::Finding& finding : tally.findings()) {
    if (record(finding) == 0) continue;
    PyObject* const error = take_exception();
    if (first == nullptr) {
      first = error;
    } else {
      Py_DECREF(error);
    }
  }
  if (first == nullptr) return true;
  set_exception(first);
  return false;
}

// False with an exception.
bool run(Launch& launch, PythonFront& front) {
  engine::Tally tally(policy);
  launch.tally = &tally;
  engine::Execution execution(launch, front);
  bool succeeded = false;
  try {
    execution.run();
    succeeded = true;
  } catch (const PythonError&) {
    if (engine::current != nullptr) name_thread(*engine::current);
  } catch (const engine::Fault& fault) {
    raise_fault(fault.finding);
    raise_at_waiting_thread();
  } catch (const engine::LaunchMistake& mistake) {
    raise_launch_error(mistake.problem, mistake.remedy);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  clean_up(execution);
  if (succeeded) return record_all(tally);
  PyObject* const exception = take_exception();
  const bool recorded = record_all(tally);
  if (is_passed_over(exception)) {
    Py_DECREF(exception);
    return recorded;
  }
  PyErr_Clear();
  set_exception(exception);
  return false;
}

// ------------------------------------------------------------------------------------------------- arguments

bool read_extent(PyObject* object, const char* what, Dim3& extent) {
  long long x = 0, y = 0, z = 0;
  if (!PyTuple_Check(object) || PyArg_ParseTuple(object, "LLL", &x, &y, &z) == 0) {
    PyErr_Format(PyExc_TypeError, "%s must be a tuple of three integers", what);
    return false;
  }
  for (const long long axis : {x, y, z}) {
    if (axis >= 1 && axis <= UINT32_MAX) continue;
    PyErr_Format(PyExc_ValueError, "%s must contain numbers from 1 to 2^32 - 1, not %lld", what, axis);
    return false;
  }
  extent = {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)};
  return true;
}

bool read_limits(PyObject* object, engine::Limits& limits) {
  return object == Py_None ||
         (PyTuple_Check(object) &&
          PyArg_ParseTuple(object, "IIIIII", &limits.static_shared_bytes, &limits.shared_bytes, &limits.multiprocessors,
                           &limits.threads, &limits.blocks, &limits.multiprocessor_shared_bytes) != 0);
}

// The largest number of threads in a block that any compute capability has.
constexpr uint64_t block_limit = 1024;

bool product_within(std::initializer_list<uint32_t> factors, uint64_t limit) {
  uint64_t product = 1;
  for (const uint32_t factor : factors)
    if ((product *= factor) > limit) return false;  // limit and factors have 32 bits, so this cannot overflow
  return true;
}

bool check_size(const Launch& launch) {
  const auto [x, y, z] = launch.block;
  const std::string shape = "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
  if (!product_within({x, y, z}, block_limit)) {
    raise_launch_error("kernel " + launch.kernel + " is launched with blocks of " + shape + " threads",
                       "use at most " + std::to_string(block_limit) + " threads a block");
    return false;
  }
  if (!product_within({x * y * z, launch.grid.x, launch.grid.y, launch.grid.z}, UINT32_MAX)) {
    raise_launch_error("kernel " + launch.kernel + " is launched with more threads than the simulator can number",
                       "launch fewer than 2^32 threads");
    return false;
  }
  return true;
}

}  // namespace

PyObject* launch(PyObject*, PyObject* arguments) {
  PyObject *function = nullptr, *grid = nullptr, *block = nullptr, *values = nullptr, *limits = Py_None;
  int generator = 0, cooperative = 0;
  const char* kernel = nullptr;
  unsigned dynamic_shared_bytes = 0, checks = 0;
  unsigned long long seed = 0;
  if (PyArg_ParseTuple(arguments, "OpsOOIO!IK|Op:launch", &function, &generator, &kernel, &grid, &block,
                       &dynamic_shared_bytes, &PyTuple_Type, &values, &checks, &seed, &limits, &cooperative) == 0)
    return nullptr;
  Launch state;
  state.kernel = kernel;
  state.dynamic_shared_bytes = dynamic_shared_bytes;
  state.checks = checks;
  state.seed = seed;
  state.cooperative = cooperative != 0;
  if (!read_extent(grid, "the grid", state.grid) || !read_extent(block, "the block", state.block) ||
      !read_limits(limits, state.limits) || !check_size(state))
    return nullptr;

  Turn turn;
  if (!turn.begin(state.kernel)) return nullptr;
  std::optional<engine::Checker> checker;
  const bool checked = (checks & (engine::check_race | engine::check_uninitialised)) != 0;
  if (checked || records_writes()) state.checker = &checker.emplace(state);
  PythonFront front(function, generator != 0, values);
  if (!run(state, front)) return nullptr;
  Py_RETURN_NONE;
}

namespace {

PyObject* set_policy(PyObject*, PyObject* arguments) {
  const char* lines = nullptr;
  int keep_going = 0;
  if (PyArg_ParseTuple(arguments, "sp:set_policy", &lines, &keep_going) == 0) return nullptr;
  policy.accept(lines);
  policy.keep_going = keep_going != 0;
  Py_RETURN_NONE;
}

PyObject* current(PyObject*, PyObject*) {
  const Thread* const thread = engine::current;
  if (thread == nullptr) Py_RETURN_NONE;
  const Dim3 index = thread->block->launch->block.at(thread->index), block = thread->block->index;
  return Py_BuildValue("(III)(III)", index.x, index.y, index.z, block.x, block.y, block.z);
}

PyObject* launcher(PyObject*, PyObject*) {
  return Py_NewRef(launching_frame != nullptr ? launching_frame : Py_None);
}

const char* state_of(const Thread& thread) {
  const uint32_t lane = 1u << thread.lane;
  if (&thread == engine::current) return "runs";
  if ((thread.warp->live & lane) == 0) return "has ended";
  if (thread.front == nullptr) return "has not begun";
  return (thread.warp->ready & lane) != 0 ? "may go on" : "waits";
}

PyObject* threads(PyObject*, PyObject*) {
  const Thread* const running = engine::current;
  if (running == nullptr) return PyList_New(0);
  const std::vector<Thread>& all = running->block->threads;
  PyObject* const list = PyList_New(static_cast<Py_ssize_t>(all.size()));
  for (size_t i = 0; list != nullptr && i < all.size(); ++i) {
    const Thread& thread = all[i];
    const Dim3 index = thread.block->launch->block.at(thread.index);
    const SiteLocation at = describe(thread.front != nullptr && &thread != running ? thread.waiting_at : 0);
    PyObject* const entry =
        Py_BuildValue("(III)ssi", index.x, index.y, index.z, state_of(thread), at.file.c_str(), at.line);
    if (entry == nullptr) {
      Py_DECREF(list);
      return nullptr;
    }
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), entry);
  }
  return list;
}

PyMethodDef functions[] = {
    {"launch", launch, METH_VARARGS, "Runs a kernel: see trifold/_simulator.pyi."},
    {"set_policy", set_policy, METH_VARARGS, "Which findings end no launch: see trifold/_simulator.pyi."},
    {"current", current, METH_NOARGS, "threadIdx and blockIdx of the CUDA thread that runs; None outside a kernel."},
    {"launcher", launcher, METH_NOARGS, "The frame that called launch(); None outside a launch."},
    {"threads", threads, METH_NOARGS, "What each thread of the running block does: see trifold/_simulator.pyi."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_launch(PyObject* module) {
  if (launch_lock == nullptr) launch_lock = PyThread_allocate_lock();
  if (launch_lock == nullptr) {
    PyErr_NoMemory();
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}

}  // namespace trifold::simulator
