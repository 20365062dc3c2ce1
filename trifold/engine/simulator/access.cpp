// Where an element is, whether the access is right, and what is raised if it is not.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "../core/tolerance.h"
#include "array.h"
#include "fault.h"
#include "sites.h"

namespace trifold::simulator {
using engine::AccessType;

namespace {

// The kernel's own name for an array: the outermost frame that has it in a variable. "" if none has.
std::string variable_name(PyObject* array) {
  std::string name;
  for (Object frame = Object::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame())); frame;) {
    auto* const current = reinterpret_cast<PyFrameObject*>(frame.get());
    const Object locals(PyFrame_GetLocals(current));
    const Object items(locals ? PyMapping_Items(locals.get()) : nullptr);
    PyErr_Clear();
    for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
      PyObject* const item = PyList_GET_ITEM(items.get(), i);
      if (PyTuple_GET_ITEM(item, 1) != array) continue;
      const char* const text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(item, 0));
      if (text != nullptr && text[0] != '.') name = text;
      break;
    }
    frame = Object(reinterpret_cast<PyObject*>(PyFrame_GetBack(current)));
  }
  return name;
}

}  // namespace

bool at_prompt() {
  return current_site() == prompt_site;
}

std::string name_of(Array* array) {
  if (array->name == nullptr) {
    const std::string name = variable_name(reinterpret_cast<PyObject*>(array));
    if (!name.empty()) array->name = PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
  }
  const char* const text = array->name == nullptr ? nullptr : PyUnicode_AsUTF8(array->name);
  PyErr_Clear();
  if (text != nullptr) return text;
  return array->root != nullptr ? name_of(array->root) : "";
}

bool index_of(Array* array, PyObject* object, Py_ssize_t& index) {
  int64_t value = 0;
  if (!PyBool_Check(object) && read_index(object, value)) {
    index = static_cast<Py_ssize_t>(value);
    return true;
  }
  if (!PyBool_Check(object) && PyIndex_Check(object)) {
    index = PyNumber_AsSsize_t(object, nullptr);  // beyond 64 bits: the largest, which is out of bounds
    return !(index == -1 && PyErr_Occurred() != nullptr);
  }
  const std::string name = name_of(array);
  PyErr_Format(PyExc_TypeError, "array %s is indexed with %R, a %s: an index is an integer; use int(...)",
               name.empty() ? "here" : name.c_str(), object, Py_TYPE(object)->tp_name);
  return false;
}

namespace {

// The index of the element that an address is in.
std::vector<int64_t> index_at(const Array& array, uintptr_t address) {
  std::vector<int> axes(static_cast<size_t>(array.ndim));
  std::iota(axes.begin(), axes.end(), 0);
  const auto stride = [&](int axis) { return std::abs(array.strides()[static_cast<size_t>(axis)]); };
  std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return stride(a) > stride(b); });
  auto offset = static_cast<int64_t>(address - reinterpret_cast<uintptr_t>(array.data));
  for (const int axis : axes) {  // from the lowest address of the array
    const Py_ssize_t signed_stride = array.strides()[static_cast<size_t>(axis)];
    if (signed_stride < 0) offset -= signed_stride * (array.shape()[static_cast<size_t>(axis)] - 1);
  }
  std::vector<int64_t> index(static_cast<size_t>(array.ndim));
  for (const int axis : axes) {
    const Py_ssize_t extent = array.shape()[static_cast<size_t>(axis)];
    const int64_t step = stride(axis);
    const int64_t steps = step == 0 ? 0 : std::clamp<int64_t>(offset / step, 0, std::max<Py_ssize_t>(extent - 1, 0));
    offset -= steps * step;
    index[static_cast<size_t>(axis)] = array.strides()[static_cast<size_t>(axis)] < 0 ? extent - 1 - steps : steps;
  }
  return index;
}

engine::Finding start_finding(engine::Kind kind, const engine::Thread& thread, Array* array) {
  const engine::Launch& launch = *thread.block->launch;
  engine::Finding finding;
  finding.kind = kind;
  finding.kernel = launch.kernel;
  finding.memory = engine::name(array->memory->space);
  finding.array = name_of(array);
  finding.seed = launch.seed;
  return finding;
}

std::vector<int64_t> shape_of(const Array& array) {
  return {array.shape().begin(), array.shape().end()};
}

engine::Finding index_finding(engine::Kind kind, const engine::Thread& thread, Array* array, AccessType type,
                              std::span<const Py_ssize_t> index) {
  engine::Finding finding = start_finding(kind, thread, array);
  finding.index.assign(index.begin(), index.end());
  finding.accesses.push_back(access_of(thread, std::string(engine::name(type)), current_site()));
  return finding;
}

}  // namespace

namespace {

engine::Finding finding_of(Array* root, const engine::Thread& thread, const engine::Violation& violation) {
  engine::Finding finding = start_finding(violation.kind, thread, root);
  finding.index = index_at(*root, violation.address);
  finding.accesses.push_back(access_of(thread, std::string(engine::name(violation.type)), current_site()));
  if (violation.kind == engine::Kind::race) {
    const engine::Launch& launch = *thread.block->launch;
    finding.accesses.push_back({launch.thread_index(violation.other_thread), launch.block_index(violation.other_thread),
                                violation.other_interval, std::string(engine::name(violation.other_type)),
                                locate(violation.other_site)});
    engine::describe_race(finding);
  } else {
    engine::describe_uninitialised(finding);
  }
  return finding;
}

// Says whether the launch goes on after the violations of one access.
class AccessJudge final : public engine::Judge {
 public:
  AccessJudge(Array* array, const engine::Thread& thread)
      : root_(array->root != nullptr ? array->root : array), thread_(thread) {}

  bool goes_on(const engine::Violation& violation) override {
    const engine::Tally::Place place{violation.kind, current_site(), violation.other_site, name_of(root_)};
    if (place == last_) return true;  // several bytes of one access
    last_ = place;
    return thread_.block->launch->tally->count_again(place) ||
           simulator::goes_on(finding_of(root_, thread_, violation), place.site, place.other_site);
  }

 private:
  Array* root_;
  const engine::Thread& thread_;
  std::optional<engine::Tally::Place> last_;
};

}  // namespace

bool goes_on_after(Array* array, engine::Checker& checker, const std::function<bool()>& check) {
  AccessJudge judge(array, *engine::current);
  checker.judge = &judge;
  const bool right = check();
  checker.judge = nullptr;
  return right;
}

bool goes_on_misaligned(Array* array, const ElementType& type) {
  engine::Finding finding = index_finding(engine::Kind::misaligned, *engine::current, array, AccessType::read, {});
  const Object dtype(PyObject_Str(type.dtype));
  const char* const text = dtype ? PyUnicode_AsUTF8(dtype.get()) : nullptr;
  PyErr_Clear();
  engine::describe_misaligned(
      finding, text == nullptr ? "" : text, type.alignment,
      reinterpret_cast<uintptr_t>(array->data) - reinterpret_cast<uintptr_t>(array->memory->begin));
  return goes_on(finding, current_site());
}

int check_access(Array* array, char* p, size_t n, AccessType type) {
  const engine::Thread* const thread = engine::current;
  if (array->buffer == nullptr || thread == nullptr) return 0;
  engine::Checker* const checker = thread->block->launch->checker;
  if (checker == nullptr) return 0;
  const auto address = reinterpret_cast<uintptr_t>(p);
  engine::Buffer& buffer = *array->buffer;
  const bool reads = type == AccessType::read;
  if (reads ? checker->reads_again(buffer, address, n, *thread) : checker->writes_again(buffer, address, n, *thread)) {
    return 0;
  }
  const Site site = current_site();
  if (site == prompt_site) return 0;
  try {
    const auto check = [&] {
      return reads ? checker->read(buffer, address, n, *thread, site)
                   : checker->write(buffer, address, n, *thread, site);
    };
    if (check()) [[likely]]
      return 0;
    if (goes_on_after(array, *checker, check)) return 0;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return -1;
}

bool goes_on_outside(Array* array, AccessType type, std::span<const Py_ssize_t> index, int axis) {
  const engine::Thread* const thread = engine::current;
  const Py_ssize_t wrong = index[static_cast<size_t>(axis)];
  if (thread == nullptr) {
    PyErr_Format(PyExc_IndexError, "index %zd is out of bounds for axis %d with size %zd", wrong, axis,
                 array->extents[axis]);
    return false;
  }
  engine::Finding finding = index_finding(engine::Kind::out_of_bounds, *thread, array, type, index);
  engine::describe_out_of_bounds(finding, axis, wrong, shape_of(*array));
  if (!at_prompt()) return goes_on(finding, current_site());
  raise_fault(finding);
  return false;
}

Object elements_outside(const ElementType& type, std::span<const Py_ssize_t> shape) {
  Py_ssize_t count = 1;
  for (const Py_ssize_t extent : shape) count *= extent;
  const auto bytes = static_cast<size_t>(count * type.size);
  const Object object(new_memory(engine::Space::local, bytes, static_cast<size_t>(type.alignment)));
  if (!object) return Object();
  auto* const memory = reinterpret_cast<Memory*>(object.get());
  memset(memory->begin, poison_of(type), bytes);
  return Object(new_array(memory, type, memory->begin, shape, contiguous_strides(shape, type.size), nullptr));
}

namespace {

// Lines and axes that wrapped: a loop would repeat the lint without end.
std::set<std::pair<Site, int>> noted;

}  // namespace

void forget_lints() {
  noted.clear();
}

int note_negative_index(Array* array, AccessType type, std::span<const Py_ssize_t> index, int axis) {
  const engine::Thread* const thread = engine::current;
  if (thread == nullptr || (thread->block->launch->checks & engine::check_lint) == 0) return 0;
  if (at_prompt() || !noted.emplace(current_site(), axis).second) return 0;
  engine::Finding finding = index_finding(engine::Kind::negative_index, *thread, array, type, index);
  finding.severity = engine::Severity::lint;
  engine::describe_negative_index(finding, axis, index[static_cast<size_t>(axis)], shape_of(*array));
  return record(finding);
}

namespace {

bool is_integer_object(PyObject* object) {
  int64_t value = 0;
  return PyLong_Check(object) || read_index(object, value) || PyIndex_Check(object) || PyFloat_Check(object) ||
         (!PySlice_Check(object) && object != Py_Ellipsis && object != Py_None && !PyUnicode_Check(object));
}

// All of the key's indices, one for each axis.
Found locate(Array* array, PyObject* const* keys, AccessType type, char*& p) {
  std::array<Py_ssize_t, max_dimensions> index;
  for (int axis = 0; axis < array->ndim; ++axis) {
    if (!index_of(array, keys[axis], index[static_cast<size_t>(axis)])) return Found::error;
  }
  const std::span<const Py_ssize_t> all(index.data(), static_cast<size_t>(array->ndim));
  p = array->data;
  for (int axis = 0; axis < array->ndim; ++axis) {
    const Py_ssize_t extent = array->extents[axis];
    Py_ssize_t at = index[static_cast<size_t>(axis)];
    if (at >= extent || at < -extent) {
      return goes_on_outside(array, type, all, axis) ? Found::outside : Found::error;
    }
    if (at < 0) {
      if (note_negative_index(array, type, all, axis) != 0) return Found::error;
      at += extent;
    }
    p += at * array->extents[array->ndim + axis];
  }
  return Found::element;
}

Found find_any(Array* array, PyObject* key, AccessType type, char*& p) {
  if (!PyTuple_Check(key)) {
    if (array->ndim != 1 || !is_integer_object(key)) return Found::view;
    return locate(array, &key, type, p);
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(key);
  if (count != array->ndim) return Found::view;
  PyObject* const* const keys = &PyTuple_GET_ITEM(key, 0);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_integer_object(keys[i])) return Found::view;
  }
  return locate(array, keys, type, p);
}

// A Python int or one of scalar.h's as an index that is inside; false: look closer.
inline bool quick_index(PyObject* key, Py_ssize_t extent, Py_ssize_t& index) {
  if (PyLong_CheckExact(key)) {
    int overflow = 0;
    index = PyLong_AsLongAndOverflow(key, &overflow);
    return overflow == 0 && static_cast<size_t>(index) < static_cast<size_t>(extent);
  }
  int64_t value = 0;
  if (PyBool_Check(key) || !read_index(key, value)) return false;
  index = static_cast<Py_ssize_t>(value);
  return static_cast<size_t>(index) < static_cast<size_t>(extent);
}

}  // namespace

Found find_element(Array* array, PyObject* key, AccessType type, char*& p) {
  const int ndim = array->ndim;
  Py_ssize_t index = 0;
  if (ndim == 1) {
    if (!quick_index(key, array->extents[0], index)) return find_any(array, key, type, p);
    p = array->data + index * array->extents[1];
    return Found::element;
  }
  if (!PyTuple_CheckExact(key) || PyTuple_GET_SIZE(key) != ndim) return find_any(array, key, type, p);
  char* at = array->data;
  for (int axis = 0; axis < ndim; ++axis) {
    if (!quick_index(PyTuple_GET_ITEM(key, axis), array->extents[axis], index)) {
      return find_any(array, key, type, p);
    }
    at += index * array->extents[ndim + axis];
  }
  p = at;
  return Found::element;
}

}  // namespace trifold::simulator
