// Waiting and fences in code that the rewriter could not see: elsewhere it replaces the calls that wait.
#include <string>

#include "../core/checker.h"
#include "../core/execution.h"
#include "builtins.h"
#include "front.h"
#include "sites.h"

namespace trifold::simulator {

using engine::Operation;
using engine::Thread;

namespace {

// ------------------------------------------------------------------------------------------------- fences

template <engine::Scope scope>
PyObject* fence(PyObject*, PyObject*) {
  if (running("threadfence()") == nullptr) return nullptr;
  Thread& thread = *engine::current;
  if (engine::Checker* const checker = thread.block->launch->checker; checker != nullptr) checker->fence(thread, scope);
  Py_RETURN_NONE;
}

// ------------------------------------------------------------------------------------------------- waiting

// Called by code that is not rewritten to wait, with what a rewritten kernel would yield; null: such code cannot wait.
PyObject* switch_function = nullptr;

PyObject* set_switch(PyObject*, PyObject* function) {
  PyObject* const before = switch_function != nullptr ? switch_function : Py_NewRef(Py_None);
  switch_function = function == Py_None ? nullptr : Py_NewRef(function);
  return before;
}

constexpr long number(Operation operation) {
  return static_cast<long>(operation);
}

std::string name_of(long operation) {
  if (operation == shuffle_intrinsic) return "shfl_sync_intrinsic";
  if (operation == vote_intrinsic) return "vote_sync_intrinsic";
  return std::string(name(static_cast<Operation>(operation)));
}

template <long operation>
PyObject* wait(PyObject*, PyObject* const* operands, Py_ssize_t count) {
  const std::string name = name_of(operation);
  const Thread* const thread = running((name + "()").c_str());
  if (thread == nullptr) return nullptr;
  if (switch_function == nullptr)
    return PyErr_Format(
        PyExc_RuntimeError,
        "cuda.%s() is called from code that the simulator could not rewrite, so this thread cannot wait "
        "for the others: call it from the kernel or from a device function whose source can be read",
        name.c_str());
  PyObject* const request = PyTuple_New(count + 2);
  if (request == nullptr) return nullptr;
  PyTuple_SET_ITEM(request, 0, PyLong_FromLong(current_number()));
  PyTuple_SET_ITEM(request, 1, PyLong_FromLong(operation));
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(request, i + 2, Py_NewRef(operands[i]));
  PyObject* const answer = PyObject_CallOneArg(switch_function, request);
  Py_DECREF(request);
  return answer;
}

// Simulated time does not pass. If the thread can wait, others run; a rewritten loop that polls waits by itself.
PyObject* nanosleep(PyObject*, PyObject*) {
  if (running("nanosleep()") == nullptr) return nullptr;
  if (switch_function != nullptr) return wait<number(Operation::poll)>(nullptr, nullptr, 0);
  Py_RETURN_NONE;
}

using FastFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

// METH_FASTCALL functions are kept under the type of METH_NOARGS ones.
PyCFunction method(FastFunction function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyTypeObject grid_group_type;

PyMethodDef grid_group_methods[] = {
    {"sync", method(wait<number(Operation::grid_barrier)>), METH_FASTCALL, "Waits for the whole grid."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject grid_group_definition() {
  PyTypeObject made = {PyVarObject_HEAD_INIT(nullptr, 0)};
  made.tp_name = "trifold._simulator.GridGroup";
  made.tp_doc = "All threads of a cooperative launch.";
  made.tp_basicsize = sizeof(PyObject);
  made.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  made.tp_dealloc = [](PyObject* object) { PyObject_Free(object); };
  made.tp_methods = grid_group_methods;
  return made;
}

PyObject* this_grid(PyObject*, PyObject*) {
  if (running("cg.this_grid()") == nullptr) return nullptr;
  return reinterpret_cast<PyObject*>(PyObject_New(PyObject, &grid_group_type));
}

template <long operation>
PyMethodDef waiting(const char* name, const char* documentation) {
  return {name, method(wait<operation>), METH_FASTCALL, documentation};
}

PyMethodDef functions[] = {
    {"threadfence", fence<engine::Scope::device>, METH_NOARGS, "Orders memory for all threads of the launch."},
    {"threadfence_block", fence<engine::Scope::block>, METH_NOARGS, "Orders memory for the block's threads."},
    {"threadfence_system", fence<engine::Scope::system>, METH_NOARGS, "Orders memory for all threads and the host."},
    {"nanosleep", nanosleep, METH_O, "Lets other threads run; no time passes."},
    {"this_grid", this_grid, METH_NOARGS, "The group of all threads of a cooperative launch."},
    {"set_switch", set_switch, METH_O, "What waits for code that was not rewritten: see trifold/_simulator.pyi."},
    waiting<number(Operation::barrier)>("syncthreads", "Waits for the block's threads."),
    waiting<number(Operation::barrier_count)>("syncthreads_count", "Waits, and counts the true predicates."),
    waiting<number(Operation::barrier_and)>("syncthreads_and", "Waits, and returns whether all predicates are true."),
    waiting<number(Operation::barrier_or)>("syncthreads_or", "Waits, and returns whether any predicate is true."),
    waiting<number(Operation::grid_barrier)>("grid_sync", "Waits for the whole grid."),
    waiting<number(Operation::sync_warp)>("syncwarp", "Waits for the lanes of the mask."),
    waiting<number(Operation::shuffle)>("shfl_sync", "The value of a lane."),
    waiting<number(Operation::shuffle_up)>("shfl_up_sync", "The value of the lane that is delta below."),
    waiting<number(Operation::shuffle_down)>("shfl_down_sync", "The value of the lane that is delta above."),
    waiting<number(Operation::shuffle_xor)>("shfl_xor_sync", "The value of the lane whose number differs in the bits."),
    waiting<shuffle_intrinsic>("shfl_sync_intrinsic", "A value, and whether its lane is in range."),
    waiting<number(Operation::vote_all)>("all_sync", "Whether all predicates are true."),
    waiting<number(Operation::vote_any)>("any_sync", "Whether any predicate is true."),
    waiting<number(Operation::vote_equal)>("eq_sync", "Whether all predicates are the same."),
    waiting<number(Operation::ballot)>("ballot_sync", "The lanes whose predicate is true."),
    waiting<vote_intrinsic>("vote_sync_intrinsic", "The lanes whose predicate is true, and the answer of the mode."),
    waiting<number(Operation::match_any)>("match_any_sync", "The lanes that have the same value."),
    waiting<number(Operation::match_all)>("match_all_sync", "The mask and True where all lanes have the same value."),
    waiting<number(Operation::active_mask)>("activemask", "The lanes that run this line together."),
    {nullptr, nullptr, 0, nullptr},
};

constexpr struct {
  const char* name;
  long number;
} operations[] = {
    {"OP_SYNCTHREADS_COUNT", number(Operation::barrier_count)},
    {"OP_SYNCTHREADS_AND", number(Operation::barrier_and)},
    {"OP_SYNCTHREADS_OR", number(Operation::barrier_or)},
    {"OP_GRID_SYNC", number(Operation::grid_barrier)},
    {"OP_SYNCWARP", number(Operation::sync_warp)},
    {"OP_SHFL", number(Operation::shuffle)},
    {"OP_SHFL_UP", number(Operation::shuffle_up)},
    {"OP_SHFL_DOWN", number(Operation::shuffle_down)},
    {"OP_SHFL_XOR", number(Operation::shuffle_xor)},
    {"OP_SHFL_INTRINSIC", shuffle_intrinsic},
    {"OP_ALL", number(Operation::vote_all)},
    {"OP_ANY", number(Operation::vote_any)},
    {"OP_EQ", number(Operation::vote_equal)},
    {"OP_BALLOT", number(Operation::ballot)},
    {"OP_VOTE_INTRINSIC", vote_intrinsic},
    {"OP_MATCH_ANY", number(Operation::match_any)},
    {"OP_MATCH_ALL", number(Operation::match_all)},
    {"OP_ACTIVEMASK", number(Operation::active_mask)},
    {"OP_POLL", number(Operation::poll)},
};

}  // namespace

int add_waiting(PyObject* module) {
  grid_group_type = grid_group_definition();
  if (PyType_Ready(&grid_group_type) < 0) return -1;
  for (const auto& [name, number] : operations)
    if (PyModule_AddIntConstant(module, name, number) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace trifold::simulator
