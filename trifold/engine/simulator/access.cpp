// The address of an element, the checks of its access, and the exceptions they raise.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
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
using engine::WrittenBits;

namespace {

// The kernel's own name for an array: the variable that holds it in the outermost frame that has one. "" if none has.
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
    index = PyNumber_AsSsize_t(object, nullptr);  // integers beyond 64 bits are clamped, and out of bounds
    return !(index == -1 && PyErr_Occurred() != nullptr);
  }
  const std::string name = name_of(array);
  PyErr_Format(PyExc_TypeError, "array %s is indexed with %R, a %s: an index is an integer; use int(...)",
               name.empty() ? "here" : name.c_str(), object, Py_TYPE(object)->tp_name);
  return false;
}

namespace {

// The index of the element that contains an address.
std::vector<int64_t> index_at(const Array& array, uintptr_t address) {
  std::vector<int> axes(static_cast<size_t>(array.ndim));
  std::iota(axes.begin(), axes.end(), 0);
  const auto stride = [&](int axis) { return std::abs(array.strides()[static_cast<size_t>(axis)]); };
  std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return stride(a) > stride(b); });
  auto offset = static_cast<int64_t>(address - reinterpret_cast<uintptr_t>(array.data));
  for (const int axis : axes) {  // make the offset relative to the array's lowest address
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

// A finding for the checker's violation, without its text.
engine::Finding start_finding_of(Array* root, const engine::Thread& thread, const engine::Violation& violation) {
  engine::Finding finding = start_finding(violation.kind, thread, root);
  finding.index = index_at(*root, violation.address);
  const auto& past = violation.past;
  finding.accesses.push_back(
      access_of(thread, std::string(engine::name(violation.type)), past ? past->site : current_site()));
  if (past) finding.accesses[0].interval = past->interval;
  if (violation.kind == engine::Kind::race) {
    const engine::Launch& launch = *thread.block->launch;
    finding.accesses.push_back({launch.thread_index(violation.other_thread), launch.block_index(violation.other_thread),
                                violation.other_interval, std::string(engine::name(violation.other_type)),
                                locate(violation.other_site)});
  }
  if (past && past->earlier) std::swap(finding.accesses[0], finding.accesses[1]);
  return finding;
}

engine::Finding finding_of(Array* root, const engine::Thread& thread, const engine::Violation& violation) {
  engine::Finding finding = start_finding_of(root, thread, violation);
  if (violation.kind == engine::Kind::race) {
    engine::describe_race(finding);
  } else {
    engine::describe_uninitialised(finding);
  }
  return finding;
}

Array* root_of(Array* array) {
  return array->root != nullptr ? array->root : array;
}

engine::Tally::Place place_of(Array* root, const engine::Violation& violation,
                              engine::Severity severity = engine::Severity::error) {
  const Site site = violation.past ? violation.past->site : current_site();
  return {violation.kind, site, violation.other_site, name_of(root), severity};
}

// Decides whether the launch continues after the violations of one access.
class AccessJudge final : public engine::Judge {
 public:
  AccessJudge(Array* array, const engine::Thread& thread) : root_(root_of(array)), thread_(thread) {}

  bool goes_on(const engine::Violation& violation) override {
    const engine::Tally::Place place = place_of(root_, violation);
    if (place == last_) return true;  // another byte of the same access
    last_ = place;
    return thread_.block->launch->tally->count_again(place) ||
           simulator::goes_on(finding_of(root_, thread_, violation), place.site, place.other_site);
  }

 private:
  Array* root_;
  const engine::Thread& thread_;
  std::optional<engine::Tally::Place> last_;
};

// The arrays of undecided reads, by their shadow.
std::map<const engine::Buffer*, Object> undecided_arrays;

// Calls the Checker's `decide` for one read after the other. False with an exception: one of them is wrong, and the
// launch ends.
template <typename Decide>
bool go_on_after_reads(engine::Thread& thread, Decide decide) {
  const engine::Checker& checker = *thread.block->launch->checker;
  while ((thread.undecided & engine::undecided_reads) != 0 && !decide()) {
    const auto has_bytes = [&](const auto& entry) {
      return checker.violation.address - entry.first->begin() < entry.first->size();
    };
    Array* const array = as_array(std::ranges::find_if(undecided_arrays, has_bytes)->second.get());
    if (!AccessJudge(array, thread).goes_on(checker.violation)) return false;
  }
  return true;
}

}  // namespace

bool goes_on_after(Array* array, engine::Checker& checker, const std::function<bool()>& check) {
  engine::Thread& thread = *engine::current;
  if (thread.undecided != 0 && checker.violation.kind == engine::Kind::race) {
    const uint32_t other = checker.violation.other_thread;
    if (!go_on_after_reads(thread, [&] { return checker.decide_reads_of(thread, other); })) return false;
  }
  AccessJudge judge(array, thread);
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

namespace {

// undecided: a write that has left a violation only among writes.
enum class Checked { right, undecided, wrong };

Checked check(Array* array, char* p, size_t n, AccessType type) {
  engine::Thread* const thread = engine::current;
  if (array->buffer == nullptr || thread == nullptr) return Checked::right;
  engine::Checker* const checker = thread->block->launch->checker;
  if (checker == nullptr) return Checked::right;
  const auto address = reinterpret_cast<uintptr_t>(p);
  engine::Buffer& buffer = *array->buffer;
  const bool reads = type == AccessType::read;
  if (reads ? checker->reads_again(buffer, address, n, *thread) : checker->writes_again(buffer, address, n, *thread)) {
    return Checked::right;
  }
  const Site site = current_site();
  if (site == prompt_site) return Checked::right;
  try {
    if (thread->undecided != 0 && !decide_reads(*thread, address, n)) [[unlikely]]
      return Checked::wrong;
    const auto access = [&] {
      return reads ? checker->read(buffer, address, n, *thread, site)
                   : checker->write(buffer, address, n, *thread, site);
    };
    const bool right = access();
    if (right && thread->undecided != 0) keep_undecided(array, *checker);
    if (right) [[likely]]
      return Checked::right;
    if (checker->violation.among_writes) return Checked::undecided;
    if (goes_on_after(array, *checker, access)) return Checked::right;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return Checked::wrong;
}

// Counts writes of the same bits; `before`: the same lines have already written this memory so. -1 with an exception.
int note_same_bits(Array* root, const engine::Thread& thread, const engine::Violation& violation, bool before) {
  engine::Tally& tally = *thread.block->launch->tally;
  if (before && !tally.tolerates_any()) return 0;
  const engine::Tally::Place place = place_of(root, violation, engine::Severity::warning);
  if (before) {
    tally.count_again(place);
    return 0;
  }
  engine::Finding finding = start_finding_of(root, thread, violation);
  engine::describe_same_bits(finding);
  return tally.goes_on(place, finding) ? 0 : record(finding);
}

// Writes this value to the element at p, in a write that only races with writes.
int write_undecided(Array* array, char* p, PyObject* value) {
  const auto n = static_cast<size_t>(array->type.size);
  const engine::Thread& thread = *engine::current;
  engine::Checker& checker = *thread.block->launch->checker;
  const std::string before(p, n);
  if (store_element(array, p, value) != 0) return -1;
  const auto address = reinterpret_cast<uintptr_t>(p);
  const auto compare = [&] {
    return checker.compare_write(*array->buffer, address, n, before.data(), thread, current_site());
  };
  const WrittenBits written = compare();
  if (written != WrittenBits::other)
    return note_same_bits(root_of(array), thread, checker.violation, written == WrittenBits::same_again);
  return goes_on_after(array, checker, [&] { return compare() != WrittenBits::other; }) ? 0 : -1;
}

}  // namespace

int check_access(Array* array, char* p, size_t n, AccessType type) {
  const Checked checked = check(array, p, n, type);
  if (checked == Checked::right) [[likely]]
    return 0;
  if (checked == Checked::wrong) return -1;
  engine::Thread& thread = *engine::current;
  engine::Checker& checker = *thread.block->launch->checker;
  const auto write = [&] {
    return checker.write(*array->buffer, reinterpret_cast<uintptr_t>(p), n, thread, current_site());
  };
  return goes_on_after(array, checker, write) ? 0 : -1;
}

int write_element(Array* array, char* p, PyObject* value) {
  const Checked checked = check(array, p, static_cast<size_t>(array->type.size), AccessType::write);
  if (checked == Checked::right) [[likely]]
    return store_element(array, p, value);
  return checked == Checked::undecided ? write_undecided(array, p, value) : -1;
}

void keep_undecided(Array* array, const engine::Checker& checker) {
  if (!checker.has_undecided_reads() || undecided_arrays.contains(array->buffer)) return;
  name_of(array);  // caches the variable's name while there is one
  undecided_arrays.emplace(array->buffer, Object::borrow(reinterpret_cast<PyObject*>(array)));
}

bool decide_reads(engine::Thread& thread, uintptr_t address, size_t n, std::optional<uint64_t> compare) {
  engine::Checker& checker = *thread.block->launch->checker;
  return go_on_after_reads(thread, [&] { return checker.decide_reads(thread, address, n, compare); });
}

void forget_undecided() {
  undecided_arrays.clear();
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

// Lines and axes at which an index wrapped: a loop would repeat the lint without end.
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

// The element of a key with an index for each axis.
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

// A Python int or a number of scalar.h as an index, if it is within bounds; false: use the general path.
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
