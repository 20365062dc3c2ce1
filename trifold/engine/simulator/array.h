// Arrays in a kernel: each access is checked, and an element has Numba's type.
//
// An Array is a view (data, shape, strides, type) into a Memory: the bytes, their owner, and their shadow. All arrays
// of one launch that overlap share one Memory, so an alias cannot hide a race.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "../core/checker.h"
#include "object.h"
#include "scalar.h"

namespace trifold::simulator {

// The bytes under one or more Arrays; exports them as a buffer, for NumPy.
struct Memory {
  PyObject_HEAD char* begin;
  size_t size;
  engine::Space space;
  bool read_only;
  bool allocated;          // the object owns the bytes
  engine::Buffer* buffer;  // the shadow; null: only bounds are checked
  PyObject* owner;         // keeps foreign bytes alive
};

inline constexpr int max_dimensions = 32;  // the limit of Numba and NumPy 1

// The type of an element.
struct ElementType {
  Kind kind = Kind::other;  // other: loaded and stored by NumPy, or a record
  bool record = false;
  Py_ssize_t size = 0;  // bytes
  Py_ssize_t alignment = 1;
  PyObject* dtype = nullptr;  // a numpy.dtype with static lifetime; for bfloat16 that of uint16
};

struct Array {
  PyObject_VAR_HEAD  // ob_size: 2 * ndim
      char* data;
  engine::Buffer* buffer;  // memory->buffer
  ElementType type;
  int ndim;
  bool read_only;
  Memory* memory;
  PyObject* base;         // a NumPy array of the same elements; null until needed
  Array* root;            // the array of which this and its base are views; null: not a view
  PyObject* name;         // str: as named in the kernel's source; null: unknown
  PyObject* shape_tuple;  // null until needed
  Py_ssize_t extents[1];  // shape, then strides in bytes

  std::span<const Py_ssize_t> shape() const { return {extents, static_cast<size_t>(ndim)}; }
  std::span<const Py_ssize_t> strides() const { return {extents + ndim, static_cast<size_t>(ndim)}; }
};

extern PyTypeObject array_type;
extern PyTypeObject memory_type;
inline bool is_array(PyObject* object) {
  return Py_TYPE(object) == &array_type;
}
inline Array* as_array(PyObject* object) {
  return reinterpret_cast<Array*>(object);
}

// A block's shared memory is at Block::front. Execution calls:
void begin_block_memory(engine::Block& block);  // a block starts in this object: its shared memory is reset
void free_block_memory(engine::Block& block);   // the launch has ended

// Adds Array, wrap_arguments, shared, local, const, atomic to the extension module; -1 with an exception.
int add_arrays(PyObject* module);

// ---- Below: shared by the files of this part ----

// The element type named by an object in a kernel: a dtype, a NumPy or Numba type, a class of this module. False with
// an exception.
bool element_type(PyObject* named, ElementType& type);

// New references; null with an exception.
PyObject* new_memory(engine::Space space, size_t bytes, size_t alignment);
PyObject* new_array(Memory* memory, const ElementType& type, char* data, std::span<const Py_ssize_t> shape,
                    std::span<const Py_ssize_t> strides, Array* root);
// A NumPy array of the same elements; the Array owns the reference.
PyObject* numpy_base(Array* array);
// The byte that fills unwritten memory.
int poison_of(const ElementType& type);
// Allocates the shadow of a Memory; false with an exception.
bool watch(Memory* memory, size_t width, bool initialised);

// Strides of a C-contiguous array whose elements have this size.
std::vector<Py_ssize_t> contiguous_strides(std::span<const Py_ssize_t> shape, Py_ssize_t size);
Py_ssize_t element_count(const Array& array);
bool is_contiguous(const Array& array);

// Check n bytes at p and raise findings; -1 with an exception. Outside a kernel nothing is checked.
int check_access(Array* array, char* p, size_t n, engine::AccessType type);
// Writes this value to the element at p, with checks.
int write_element(Array* array, char* p, PyObject* value);
// A thread with undecided reads is about to access these bytes, or all bytes if it arrives at a barrier or ends;
// compare as in Checker::decide_reads(). False with an exception: a read is wrong, and the launch ends.
bool decide_reads(engine::Thread& thread, uintptr_t address = 0, size_t n = ~size_t{0},
                  std::optional<uint64_t> compare = {});
// Called at the end of a launch.
void forget_undecided();
// If threads have undecided reads, this array, which may be one of those read, is kept for decide_reads().
void keep_undecided(Array* array, const engine::Checker& checker);
// The checker has refused an access, which `check` repeats: whether the launch continues after each of its violations;
// otherwise an exception is set.
bool goes_on_after(Array* array, engine::Checker& checker, const std::function<bool()>& check);
// The array's bytes are misaligned for this type: whether the launch continues; otherwise an exception is set.
bool goes_on_misaligned(Array* array, const ElementType& type);
// Whether a statement typed at a debugger's prompt runs: its accesses are not the kernel's.
bool at_prompt();
// Lints are reported once per launch and line; a new launch begins.
void forget_lints();
// An integer of any type as an index; false with an exception.
bool index_of(Array* array, PyObject* object, Py_ssize_t& index);
std::string name_of(Array* array);
// The index is out of bounds: whether the launch continues, without the access; otherwise an exception is set.
bool goes_on_outside(Array* array, engine::AccessType type, std::span<const Py_ssize_t> index, int axis);
// Poisoned memory in place of elements out of bounds. Null with an exception.
Object elements_outside(const ElementType& type, std::span<const Py_ssize_t> shape);
int note_negative_index(Array* array, engine::AccessType type, std::span<const Py_ssize_t> index, int axis);

// Sets the exception for a write to a read-only array; -1.
int refuse_write(Array* array);
// Reads the element at p, typed or a record, with checks.
PyObject* read_element(Array* array, char* p);
// The value of an element out of bounds.
PyObject* read_outside(Array* array);
// The element at p, typed, without checks; and its assignment.
PyObject* load_element(Array* array, char* p);
int store_element(Array* array, char* p, PyObject* value);

enum class Found { element, view, outside, error };
// Finds the element for a key. view: the key is not a complete index. outside: see goes_on_outside().
Found find_element(Array* array, PyObject* key, engine::AccessType type, char*& p);

// Keys with slices, Ellipsis, None, field names, or fewer integers than axes.
PyObject* view_of(Array* array, PyObject* key);
int assign_view(Array* array, PyObject* key, PyObject* value);
// A field of an array; null without an exception if it has no field of that name.
PyObject* field_of_array(Array* array, PyObject* name);
// The record at p; each access to a field is checked separately.
PyObject* new_record(Array* array, char* p);
// A record of this module as NumPy's, checked as a read; null with an exception.
Object record_for_numpy(PyObject* record);
bool is_record(PyObject* object);

extern PyMethodDef array_methods[];
extern PyGetSetDef array_attributes[];

// An Array as NumPy's, with values (bfloat16 as float32); a number of this module as Python's; others unchanged.
Object for_numpy(PyObject* value);

// Calls f(p) for each element in C order until it returns a value other than 0, which is returned.
template <typename F>
int for_each_element(char* data, std::span<const Py_ssize_t> shape, std::span<const Py_ssize_t> strides, F&& f) {
  if (shape.empty()) return f(data);
  for (Py_ssize_t i = 0; i < shape[0]; ++i) {
    const int result = for_each_element(data + i * strides[0], shape.subspan(1), strides.subspan(1), f);
    if (result != 0) return result;
  }
  return 0;
}

PyObject* wrap_arguments(PyObject* module, PyObject* arguments);
// The shadows of the arrays made by wrap_arguments: one for those that overlap.
std::set<engine::Buffer*> buffers_of(PyObject* wrapped);
// A NumPy array in constant memory; null with an exception.
PyObject* constant_array(PyObject* numpy_array);
// An object with these functions as its attributes.
PyObject* namespace_of(PyMethodDef* functions);
int add_allocation(PyObject* module);
int add_atomic(PyObject* module);
int add_records(PyObject* module);

}  // namespace trifold::simulator
