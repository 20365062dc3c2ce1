#include "builtins.h"

#include "scalar.h"

namespace trifold::simulator {

using engine::Dim3;
using engine::Launch;
using engine::Thread;

namespace {

const Launch& launch_of(const Thread& thread) {
  return *thread.block->launch;
}

PyObject* int64(uint64_t number) {
  Value value;
  value.kind = Kind::int64;
  value.i = static_cast<int64_t>(number);
  return box(value);
}

PyObject* uint32(uint32_t number) {
  Value value;
  value.kind = Kind::uint32;
  value.u = number;
  return box(value);
}

// ------------------------------------------------------------------------------------------------- threadIdx & co.

// One of four objects, identified by its index in the table.
struct Index3 {
  PyObject ob_base;
  const char* name;
  Dim3 (*of)(const Thread& thread);
};

PyTypeObject index3_type;

Dim3 thread_index(const Thread& thread) {
  return thread.place;
}
Dim3 block_index(const Thread& thread) {
  return thread.block->index;
}
Dim3 block_dim(const Thread& thread) {
  return launch_of(thread).block;
}
Dim3 grid_dim(const Thread& thread) {
  return launch_of(thread).grid;
}

const Index3& index3(PyObject* object) {
  return *reinterpret_cast<Index3*>(object);
}

template <uint32_t Dim3::* axis>
PyObject* component(PyObject* self, void*) {
  const Index3& index = index3(self);
  const Thread* const thread = running(index.name);
  return thread != nullptr ? PyLong_FromUnsignedLong(index.of(*thread).*axis) : nullptr;
}

PyObject* iterate_index3(PyObject* self) {
  const Thread* const thread = running(index3(self).name);
  if (thread == nullptr) return nullptr;
  const Dim3 at = index3(self).of(*thread);
  PyObject* const numbers = Py_BuildValue("(III)", at.x, at.y, at.z);
  PyObject* const iterator = numbers != nullptr ? PyObject_GetIter(numbers) : nullptr;
  Py_XDECREF(numbers);
  return iterator;
}

// In a kernel the values, for debuggers.
PyObject* represent_index3(PyObject* self) {
  const Index3& index = index3(self);
  if (engine::current == nullptr) return PyUnicode_FromFormat("cuda.%s", index.name);
  const Dim3 at = index.of(*engine::current);
  return PyUnicode_FromFormat("cuda.%s(%u, %u, %u)", index.name, at.x, at.y, at.z);
}

PyObject* print_index3(PyObject* self) {
  if (engine::current == nullptr) return represent_index3(self);
  const Dim3 at = index3(self).of(*engine::current);
  return PyUnicode_FromFormat("(%u, %u, %u)", at.x, at.y, at.z);
}

PyGetSetDef index3_components[] = {
    {"x", component<&Dim3::x>, nullptr, nullptr, nullptr},
    {"y", component<&Dim3::y>, nullptr, nullptr, nullptr},
    {"z", component<&Dim3::z>, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject index3_definition() {
  PyTypeObject made = {PyVarObject_HEAD_INIT(nullptr, 0)};
  made.tp_name = "trifold._simulator.Index3";
  made.tp_doc = "threadIdx, blockIdx, blockDim or gridDim of the CUDA thread that runs.";
  made.tp_basicsize = sizeof(Index3);
  made.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  made.tp_dealloc = [](PyObject* object) { PyObject_Free(object); };
  made.tp_getset = index3_components;
  made.tp_iter = iterate_index3;
  made.tp_repr = represent_index3;
  made.tp_str = print_index3;
  return made;
}

int add_index3(PyObject* module, const char* name, Dim3 (*of)(const Thread&)) {
  auto* const index = PyObject_New(Index3, &index3_type);
  if (index == nullptr) return -1;
  index->name = name;
  index->of = of;
  return PyModule_AddObject(module, name, reinterpret_cast<PyObject*>(index));
}

// ------------------------------------------------------------------------------------------------- laneid

// cuda.laneid is a number, not a call: an object that acts as the running thread's lane wherever a number is used.
PyTypeObject lane_type;

PyObject* lane_number(PyObject*) {
  const Thread* const thread = running("laneid");
  return thread != nullptr ? PyLong_FromUnsignedLong(thread->lane) : nullptr;
}

PyObject* call_lane(PyObject* self, PyObject*, PyObject*) {
  return lane_number(self);
}

PyObject* as_number(PyObject* object) {
  return Py_TYPE(object) == &lane_type ? lane_number(object) : Py_NewRef(object);
}

template <binaryfunc operation>
PyObject* lane_binary(PyObject* left, PyObject* right) {
  PyObject* const a = as_number(left);
  PyObject* const b = a != nullptr ? as_number(right) : nullptr;
  PyObject* const result = b != nullptr ? operation(a, b) : nullptr;
  Py_XDECREF(a);
  Py_XDECREF(b);
  return result;
}

template <unaryfunc operation>
PyObject* lane_unary(PyObject* self) {
  PyObject* const number = lane_number(self);
  PyObject* const result = number != nullptr ? operation(number) : nullptr;
  Py_XDECREF(number);
  return result;
}

PyObject* power(PyObject* base, PyObject* exponent) {
  return PyNumber_Power(base, exponent, Py_None);
}

PyObject* lane_power(PyObject* base, PyObject* exponent, PyObject*) {
  return lane_binary<power>(base, exponent);
}

PyObject* compare_lane(PyObject* self, PyObject* other, int operation) {
  PyObject* const number = lane_number(self);
  PyObject* const result = number != nullptr ? PyObject_RichCompare(number, other, operation) : nullptr;
  Py_XDECREF(number);
  return result;
}

int lane_is_true(PyObject*) {
  const Thread* const thread = running("laneid");
  return thread != nullptr ? thread->lane != 0 : -1;
}

PyObject* represent_lane(PyObject* self) {
  return engine::current != nullptr ? lane_unary<PyObject_Repr>(self) : PyUnicode_FromString("cuda.laneid");
}

PyNumberMethods lane_methods() {
  PyNumberMethods methods = {};
  methods.nb_add = lane_binary<PyNumber_Add>;
  methods.nb_subtract = lane_binary<PyNumber_Subtract>;
  methods.nb_multiply = lane_binary<PyNumber_Multiply>;
  methods.nb_remainder = lane_binary<PyNumber_Remainder>;
  methods.nb_divmod = lane_binary<PyNumber_Divmod>;
  methods.nb_power = lane_power;
  methods.nb_negative = lane_unary<PyNumber_Negative>;
  methods.nb_positive = lane_unary<PyNumber_Positive>;
  methods.nb_absolute = lane_unary<PyNumber_Absolute>;
  methods.nb_bool = lane_is_true;
  methods.nb_invert = lane_unary<PyNumber_Invert>;
  methods.nb_lshift = lane_binary<PyNumber_Lshift>;
  methods.nb_rshift = lane_binary<PyNumber_Rshift>;
  methods.nb_and = lane_binary<PyNumber_And>;
  methods.nb_xor = lane_binary<PyNumber_Xor>;
  methods.nb_or = lane_binary<PyNumber_Or>;
  methods.nb_int = lane_number;
  methods.nb_float = lane_unary<PyNumber_Float>;
  methods.nb_floor_divide = lane_binary<PyNumber_FloorDivide>;
  methods.nb_true_divide = lane_binary<PyNumber_TrueDivide>;
  methods.nb_index = lane_number;
  return methods;
}

PyNumberMethods lane_numbers = lane_methods();

PyTypeObject lane_definition() {
  PyTypeObject made = {PyVarObject_HEAD_INIT(nullptr, 0)};
  made.tp_name = "trifold._simulator.LaneId";
  made.tp_doc = "The running CUDA thread's lane in its warp.";
  made.tp_basicsize = sizeof(PyObject);
  made.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  made.tp_dealloc = [](PyObject* object) { PyObject_Free(object); };
  made.tp_as_number = &lane_numbers;
  made.tp_richcompare = compare_lane;
  made.tp_hash = PyObject_HashNotImplemented;
  made.tp_call = call_lane;
  made.tp_repr = represent_lane;
  return made;
}

// ------------------------------------------------------------------------------------------------- grid, gridsize

// A number for one dimension, a tuple for two and three.
template <typename Component>
PyObject* for_dimensions(PyObject* argument, const char* name, Component component) {
  const Thread* const thread = running(name);
  if (thread == nullptr) return nullptr;
  int64_t dimensions = 0;
  if (!read_index(argument, dimensions) || dimensions < 1 || dimensions > 3)
    return PyErr_Format(PyExc_ValueError, "cuda.%s takes the number of dimensions, 1, 2 or 3, not %R", name, argument);
  if (dimensions == 1) return int64(component(*thread, &Dim3::x));
  PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(dimensions));
  if (tuple == nullptr) return nullptr;
  constexpr uint32_t Dim3::* axes[] = {&Dim3::x, &Dim3::y, &Dim3::z};
  for (Py_ssize_t axis = 0; axis < dimensions; ++axis)
    PyTuple_SET_ITEM(tuple, axis, int64(component(*thread, axes[axis])));
  return tuple;
}

PyObject* grid(PyObject*, PyObject* dimensions) {
  return for_dimensions(dimensions, "grid", [](const Thread& thread, uint32_t Dim3::* axis) {
    return uint64_t{thread.block->index.*axis} * (launch_of(thread).block.*axis) + thread_index(thread).*axis;
  });
}

PyObject* gridsize(PyObject*, PyObject* dimensions) {
  return for_dimensions(dimensions, "gridsize", [](const Thread& thread, uint32_t Dim3::* axis) {
    return uint64_t{launch_of(thread).grid.*axis} * (launch_of(thread).block.*axis);
  });
}

PyObject* lanemask_lt(PyObject*, PyObject*) {
  const Thread* const thread = running("lanemask_lt()");
  return thread != nullptr ? uint32((1u << thread->lane) - 1) : nullptr;
}

PyMethodDef functions[] = {
    {"grid", grid, METH_O, "The running thread's place in the grid."},
    {"gridsize", gridsize, METH_O, "The grid's extent in threads."},
    {"lanemask_lt", lanemask_lt, METH_NOARGS, "The lanes below the running thread's."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

const Thread* running(const char* name) {
  if (engine::current == nullptr)
    PyErr_Format(PyExc_RuntimeError, "cuda.%s has no meaning outside a kernel: no CUDA thread runs here", name);
  return engine::current;
}

int add_builtins(PyObject* module) {
  index3_type = index3_definition();
  lane_type = lane_definition();
  if (PyType_Ready(&index3_type) < 0 || PyType_Ready(&lane_type) < 0) return -1;
  if (add_index3(module, "threadIdx", thread_index) < 0 || add_index3(module, "blockIdx", block_index) < 0 ||
      add_index3(module, "blockDim", block_dim) < 0 || add_index3(module, "gridDim", grid_dim) < 0)
    return -1;
  if (PyModule_AddObject(module, "laneid", reinterpret_cast<PyObject*>(PyObject_New(PyObject, &lane_type))) < 0)
    return -1;
  if (PyModule_AddIntConstant(module, "warpsize", engine::warp_size) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace trifold::simulator
