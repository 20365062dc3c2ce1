#include "undefined.h"

#include <string>

#include "../core/execution.h"
#include "fault.h"
#include "sites.h"

namespace trifold::simulator {

namespace {

struct Undefined {
  PyObject ob_base;
  engine::Dim3 thread, block;
  uint32_t interval;
  uint32_t mask;
  uint8_t lane, source, operation;
  Site site;
};

PyTypeObject type;

void fault(PyObject* object) {
  const auto& value = *reinterpret_cast<Undefined*>(object);
  engine::Finding finding;
  finding.kind = engine::Kind::warp_divergence;
  std::string use = "a thread uses";
  if (engine::current != nullptr) {
    finding.kernel = engine::current->block->launch->kernel;
    finding.seed = engine::current->block->launch->seed;
    finding.accesses.push_back(access_of(*engine::current, "use", current_site()));
    use = who(finding.accesses[0], false) + " uses at " + where(finding.accesses[0].location);
  }
  engine::Access access;
  access.thread = value.thread;
  access.block = value.block;
  access.interval = value.interval;
  access.operation = engine::name(static_cast<engine::Operation>(value.operation));
  access.location = locate(value.site);
  const std::string source = "lane " + std::to_string(value.source);
  finding.message =
      "warp divergence in kernel " + finding.kernel + ": " + use + " what comes from a lane that took no part in a " +
      "call: " + who(access, false) + ", as lane " + std::to_string(value.lane) + ", asked " + source + " by " +
      access.operation + " at " + where(access.location) + ", but " + source +
      (value.mask >> value.source & 1 ? " was not there: it has exited, or the block's last warp has no such lane."
                                      : " is not in the call's mask.") +
      "\nCUDA leaves such a value undefined: let " + source +
      " take part in the call, or use the result only where the source lane does.";
  finding.accesses.push_back(std::move(access));
  raise_fault(finding);
}

// Arithmetic with an undefined value is undefined, and so is a comparison.
PyObject* pass_on(PyObject* left, PyObject* right) {
  return Py_NewRef(is_undefined(left) ? left : right);
}
PyObject* pass_on_power(PyObject* left, PyObject* right, PyObject*) {
  return pass_on(left, right);
}
PyObject* pass_on_unary(PyObject* object) {
  return Py_NewRef(object);
}
PyObject* compare(PyObject* left, PyObject*, int) {
  return Py_NewRef(left);
}

int fault_as_truth(PyObject* object) {
  fault(object);
  return -1;
}

PyObject* fault_as_number(PyObject* object) {
  fault(object);
  return nullptr;
}

PyObject* represent(PyObject*) {
  return PyUnicode_FromString("<undefined: from a lane that took no part>");
}

PyNumberMethods number_methods() {
  PyNumberMethods methods = {};
  for (auto* const slot : {&methods.nb_add, &methods.nb_subtract, &methods.nb_multiply, &methods.nb_remainder,
                           &methods.nb_lshift, &methods.nb_rshift, &methods.nb_and, &methods.nb_xor, &methods.nb_or,
                           &methods.nb_floor_divide, &methods.nb_true_divide})
    *slot = pass_on;
  methods.nb_power = pass_on_power;
  for (auto* const slot : {&methods.nb_negative, &methods.nb_positive, &methods.nb_absolute, &methods.nb_invert})
    *slot = pass_on_unary;
  for (auto* const slot : {&methods.nb_int, &methods.nb_float, &methods.nb_index}) *slot = fault_as_number;
  methods.nb_bool = fault_as_truth;
  return methods;
}

PyNumberMethods numbers = number_methods();

PyTypeObject type_definition() {
  PyTypeObject made = {PyVarObject_HEAD_INIT(nullptr, 0)};
  made.tp_name = "trifold._simulator.Undefined";
  made.tp_doc = "The value of a shuffle from a lane that took no part. To use it is a fault.";
  made.tp_basicsize = sizeof(Undefined);
  made.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  made.tp_dealloc = [](PyObject* object) { PyObject_Free(object); };
  made.tp_repr = represent;
  made.tp_as_number = &numbers;
  made.tp_richcompare = compare;
  made.tp_hash = PyObject_HashNotImplemented;
  return made;
}

}  // namespace

bool is_undefined(PyObject* object) {
  return Py_TYPE(object) == &type;
}

bool refuse_undefined(PyObject* object) {
  if (!is_undefined(object)) return false;
  fault(object);
  return true;
}

PyObject* undefined_among(PyObject* const* arguments, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_undefined(arguments[i])) continue;
    PyErr_Clear();
    return Py_NewRef(arguments[i]);
  }
  return nullptr;
}

PyObject* undefined_value(const engine::Thread& thread) {
  auto* const value = PyObject_New(Undefined, &type);
  if (value == nullptr) return nullptr;
  const engine::Launch& launch = *thread.block->launch;
  value->thread = launch.block.at(thread.index);
  value->block = thread.block->index;
  value->interval = thread.block->interval;
  value->mask = thread.request.mask;
  value->lane = thread.lane;
  value->source = thread.request.source;
  value->operation = thread.request.operation;
  value->site = thread.waiting_at;
  return reinterpret_cast<PyObject*>(value);
}

int add_undefined(PyObject* module) {
  type = type_definition();
  if (PyType_Ready(&type) < 0) return -1;
  return PyModule_AddObjectRef(module, "Undefined", reinterpret_cast<PyObject*>(&type));
}

}  // namespace trifold::simulator
