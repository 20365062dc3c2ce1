// Arrays as a kernel sees them: each access is checked, and an element has Numba's type.
//
// An Array is a view (data, shape, strides, type) into a Memory: the bytes, who owns them, and their shadow. All arrays
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
  bool allocated;          // the bytes belong to this object
  engine::Buffer* buffer;  // the shadow; null: no check but the bounds
  PyObject* owner;         // keeps foreign bytes alive
};

inline constexpr int max_dimensions = 32;  // Numba's and NumPy 1's

// What an element is.
struct ElementType {
  Kind kind = Kind::other;  // other: NumPy loads and stores it, or it is a record
  bool record = false;
  Py_ssize_t size = 0;  // bytes
  Py_ssize_t alignment = 1;
  PyObject* dtype = nullptr;  // numpy.dtype that lives as long as the process; bfloat16: that of uint16
};

struct Array {
  PyObject_VAR_HEAD  // ob_size: 2 * ndim
      char* data;
  engine::Buffer* buffer;  // memory->buffer
  ElementType type;
  int ndim;
  bool read_only;
  Memory* memory;
  PyObject* base;         // a NumPy array of the same elements; null until it is wanted
  Array* root;            // the array of which this is a view, and its root too; null: this is one
  PyObject* name;         // str: as the kernel's source calls it; null: not known
  PyObject* shape_tuple;  // null until it is wanted
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

// A block's shared memory hangs at Block::front. Execution calls:
void begin_block_memory(engine::Block& block);  // a block starts in this object: its shared memory is fresh again
void free_block_memory(engine::Block& block);   // the launch is over

// Adds Array, wrap_arguments, shared, local, const, atomic to the extension module; -1 with an exception.
int add_arrays(PyObject* module);

// ---- Below: between the files of this part ----

// The type of an element from anything that names one in a kernel: a dtype, a NumPy or Numba type, a class of this
// module. False with an exception.
bool element_type(PyObject* named, ElementType& type);

// New references; null with an exception.
PyObject* new_memory(engine::Space space, size_t bytes, size_t alignment);
PyObject* new_array(Memory* memory, const ElementType& type, char* data, std::span<const Py_ssize_t> shape,
                    std::span<const Py_ssize_t> strides, Array* root);
// A NumPy array of the same elements; borrowed from the Array.
PyObject* numpy_base(Array* array);
// The byte that fills what nobody has written.
int poison_of(const ElementType& type);
// Gives a Memory its shadow; false with an exception.
bool watch(Memory* memory, size_t width, bool initialised);

// Strides of a C-contiguous array whose elements have this size.
std::vector<Py_ssize_t> contiguous_strides(std::span<const Py_ssize_t> shape, Py_ssize_t size);
Py_ssize_t element_count(const Array& array);
bool is_contiguous(const Array& array);

// Checks of n bytes at p, and what they raise; -1 with an exception. Outside a kernel nothing is checked.
int check_access(Array* array, char* p, size_t n, engine::AccessType type);
// The element at p becomes this value, checked.
int write_element(Array* array, char* p, PyObject* value);
// A thread with undecided reads is about to access these bytes, all where it comes to a barrier or to its end; compare
// as in Checker::decide_reads(). False with an exception: one of them is wrong, and the launch does not go on.
bool decide_reads(engine::Thread& thread, uintptr_t address = 0, size_t n = ~size_t{0},
                  std::optional<uint64_t> compare = {});
// The launch is over.
void forget_undecided();
// Where threads have undecided reads, this array, which may be read by them, is kept for decide_reads().
void keep_undecided(Array* array, const engine::Checker& checker);
// The checker has refused an access, which `check` makes again: whether the launch goes on after each of its
// violations; else the exception is set.
bool goes_on_after(Array* array, engine::Checker& checker, const std::function<bool()>& check);
// The array's bytes do not start where this type may: whether the launch goes on; else the exception is set.
bool goes_on_misaligned(Array* array, const ElementType& type);
// A statement that someone typed at a debugger's prompt runs: its accesses are not the kernel's.
bool at_prompt();
// Lints are noted once a launch and line; a new launch begins.
void forget_lints();
// An integer of any sort as an index; false with an exception.
bool index_of(Array* array, PyObject* object, Py_ssize_t& index);
std::string name_of(Array* array);
// The index is outside: whether the launch goes on, and the access does not happen; else the exception is set.
bool goes_on_outside(Array* array, engine::AccessType type, std::span<const Py_ssize_t> index, int axis);
// What stands for elements that an array has not: memory of its own, of poison. Null with an exception.
Object elements_outside(const ElementType& type, std::span<const Py_ssize_t> shape);
int note_negative_index(Array* array, engine::AccessType type, std::span<const Py_ssize_t> index, int axis);

// Sets the exception for a write to an array that is read-only; -1.
int refuse_write(Array* array);
// The element at p, typed or a record, checked.
PyObject* read_element(Array* array, char* p);
// One that the array has not.
PyObject* read_outside(Array* array);
// The element at p, typed, without a check; and its assignment.
PyObject* load_element(Array* array, char* p);
int store_element(Array* array, char* p, PyObject* value);

enum class Found { element, view, outside, error };
// Where is the element that this key names? view: the key is not a complete index. outside: goes_on_outside().
Found find_element(Array* array, PyObject* key, engine::AccessType type, char*& p);

// Keys with slices, Ellipsis, None, field names, or fewer integers than axes.
PyObject* view_of(Array* array, PyObject* key);
int assign_view(Array* array, PyObject* key, PyObject* value);
// A field of an array; null without an exception if it has none of that name.
PyObject* field_of_array(Array* array, PyObject* name);
// The record at p; its fields are accesses of their own.
PyObject* new_record(Array* array, char* p);
// A record of this module as NumPy's, checked as a read; null with an exception.
Object record_for_numpy(PyObject* record);
bool is_record(PyObject* object);

extern PyMethodDef array_methods[];
extern PyGetSetDef array_attributes[];

// An Array as NumPy's, of values (bfloat16 as float32); a number of this module as Python's; others as they are.
Object for_numpy(PyObject* value);

// Calls f(p) for each element in C order, until it returns something other than 0, which is returned.
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
// The shadows of what it made: one for those that overlap.
std::set<engine::Buffer*> buffers_of(PyObject* wrapped);
// A NumPy array in constant memory; null with an exception.
PyObject* constant_array(PyObject* numpy_array);
// An object with these functions as its attributes.
PyObject* namespace_of(PyMethodDef* functions);
int add_allocation(PyObject* module);
int add_atomic(PyObject* module);
int add_records(PyObject* module);

}  // namespace trifold::simulator
