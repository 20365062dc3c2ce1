// cuda.atomic: the functions, with the checks of the elements that they change.
#include <array>
#include <bit>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "arithmetic.h"
#include "array.h"
#include "sites.h"

namespace trifold::simulator {
namespace {

using engine::AccessType;

constexpr const char* names[] = {"add",  "sub", "and_", "or_",    "xor",    "inc", "dec",
                                 "exch", "max", "min",  "nanmax", "nanmin", "cas"};

// The bits with which a compare-and-swap compares an element; none if `compare` is not a number, which it will refuse.
std::optional<uint64_t> bits_of(PyObject* compare, Kind kind) {
  Value value;
  if (compare == nullptr || !read(compare, value)) return std::nullopt;
  std::array<char, sizeof(uint64_t)> bytes{};
  store_value(kind, bytes.data(), convert(value, kind));
  return std::bit_cast<uint64_t>(bytes);
}

bool ordered(Array* array, char* p, const engine::AtomicAccess& access, PyObject* compare, engine::Checker& checker,
             engine::Thread& thread) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  const auto n = static_cast<size_t>(array->type.size);
  const bool undecided = (thread.undecided & engine::undecided_reads) != 0;
  if (undecided && !decide_reads(thread, address, n, bits_of(compare, array->type.kind))) return false;
  const auto check = [&] { return checker.check_atomic(*array->buffer, address, n, thread, access); };
  if (!check() && !goes_on_after(array, checker, check)) return false;
  keep_undecided(array, checker);
  return true;
}

PyObject* checked_atomic(AtomicOp operation, Array* array, char* p, PyObject* value, PyObject* compare) {
  engine::Thread* const thread = engine::current;
  engine::Checker* const checker = thread == nullptr ? nullptr : thread->block->launch->checker;
  const bool watched = checker != nullptr && array->buffer != nullptr && !at_prompt();
  engine::AtomicAccess access{.reads = operation != AtomicOp::exchange, .compares = compare != nullptr};
  if (watched) access.site = current_site();
  try {
    if (watched && !ordered(array, p, access, compare, *checker, *thread)) return nullptr;
    bool changed = false;
    const std::string before(p, item_size(array->type.kind));
    PyObject* const old = atomic(operation, array->type.kind, p, value, compare, changed);
    if (old == nullptr) return nullptr;
    // A loop that polls by adding 0 makes no change.
    if (changed && before != std::string_view(p, before.size())) ++engine::changes;
    if (watched) {
      checker->note_atomic(*array->buffer, reinterpret_cast<uintptr_t>(p), static_cast<size_t>(array->type.size),
                           *thread, access, changed);
    }
    return old;
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
}

// key null: the first element.
PyObject* run(AtomicOp operation, PyObject* object, PyObject* key, PyObject* value, PyObject* compare) {
  const char* const name = names[static_cast<int>(operation)];
  if (!is_array(object)) {
    PyErr_Format(PyExc_TypeError, "atomic.%s works on an array, not on %R", name, object);
    return nullptr;
  }
  Array* const array = as_array(object);
  if (array->read_only) {
    refuse_write(array);
    return nullptr;
  }
  Object first;
  if (key == nullptr) {
    first = Object(PyTuple_New(array->ndim));
    for (int axis = 0; axis < array->ndim; ++axis) PyTuple_SET_ITEM(first.get(), axis, PyLong_FromLong(0));
    key = first.get();
    if (array->ndim == 1) key = PyTuple_GET_ITEM(first.get(), 0);
  }
  char* p = nullptr;
  switch (find_element(array, key, AccessType::atomic, p)) {
    case Found::element: return checked_atomic(operation, array, p, value, compare);
    case Found::view:
      PyErr_Format(PyExc_TypeError, "atomic.%s: %R is not a complete index of array %s, which has %d axes", name, key,
                   name_of(array).c_str(), array->ndim);
      return nullptr;
    case Found::outside: return read_outside(array);
    case Found::error: return nullptr;
  }
  return nullptr;
}

bool count_is(const char* name, Py_ssize_t given, Py_ssize_t wanted, const char* parameters) {
  if (given == wanted) return true;
  PyErr_Format(PyExc_TypeError, "atomic.%s%s takes %zd arguments, not %zd", name, parameters, wanted, given);
  return false;
}

template <AtomicOp operation>
PyObject* function(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (!count_is(names[static_cast<int>(operation)], count, 3, "(array, index, value)")) return nullptr;
  return run(operation, arguments[0], arguments[1], arguments[2], nullptr);
}

PyObject* compare_and_swap(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (!count_is("compare_and_swap", count, 3, "(array, old, value)")) return nullptr;
  return run(AtomicOp::compare_and_swap, arguments[0], nullptr, arguments[2], arguments[1]);
}

PyObject* cas(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (!count_is("cas", count, 4, "(array, index, old, value)")) return nullptr;
  return run(AtomicOp::compare_and_swap, arguments[0], arguments[1], arguments[3], arguments[2]);
}

using Fast = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

PyMethodDef define(const char* name, Fast fast, const char* documentation) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(fast)), METH_FASTCALL, documentation};
}

PyMethodDef functions[] = {
    define("add", function<AtomicOp::add>, "array[index] += value; the old value."),
    define("sub", function<AtomicOp::sub>, "array[index] -= value; the old value."),
    define("and_", function<AtomicOp::bit_and>, "array[index] &= value; the old value."),
    define("or_", function<AtomicOp::bit_or>, "array[index] |= value; the old value."),
    define("xor", function<AtomicOp::bit_xor>, "array[index] ^= value; the old value."),
    define("inc", function<AtomicOp::inc>, "Counts up, to 0 after value; the old value."),
    define("dec", function<AtomicOp::dec>, "Counts down, to value after 0; the old value."),
    define("exch", function<AtomicOp::exchange>, "array[index] = value; the old value."),
    define("max", function<AtomicOp::max>, "array[index] = max(array[index], value); the old value."),
    define("min", function<AtomicOp::min>, "array[index] = min(array[index], value); the old value."),
    define("nanmax", function<AtomicOp::nanmax>, "max, where a NaN counts as missing; the old value."),
    define("nanmin", function<AtomicOp::nanmin>, "min, where a NaN counts as missing; the old value."),
    define("compare_and_swap", compare_and_swap, "array[0] = value where array[0] == old; the old value."),
    define("cas", cas, "array[index] = value where array[index] == old; the old value."),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_atomic(PyObject* module) {
  const Object atomic(namespace_of(functions));
  return atomic ? PyModule_AddObjectRef(module, "atomic", atomic.get()) : -1;
}

}  // namespace trifold::simulator
