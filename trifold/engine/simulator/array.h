// Arrays as a kernel sees them: each access is checked, and an element has Numba's type.
//
// An Array is a view (data, shape, strides, type) into a Memory: the bytes, who owns them, and their shadow. All arrays
// that overlap share one Memory, so an alias cannot hide a race.
#pragma once

#include <Python.h>

#include <cstdint>

#include "../core/checker.h"
#include "scalar.h"

namespace trifold::simulator {

// The bytes under one or more Arrays. Counted; freed with the last Array.
struct Memory {
  engine::Buffer buffer;
  uint32_t references = 1;
  bool watched = false;       // the checker looks at accesses
  char* owned = nullptr;      // bytes that this object allocated; null: someone else's, kept alive by the Arrays' base
};

inline constexpr int max_dimensions = 32;  // NumPy 1's limit and Numba's

struct Array {
  PyObject_VAR_HEAD            // ob_size: 2 * ndim; shape and strides (bytes) follow the fields
  char* data;
  Memory* memory;
  Py_ssize_t size;             // elements
  Py_ssize_t item_size;        // bytes of an element
  Kind kind;                   // Kind::other: through `base`
  bool read_only;
  bool constant;
  bool contiguous;             // C order
  int ndim;
  PyObject* dtype;             // numpy.dtype; bfloat16: that of uint16
  PyObject* base;              // a NumPy array of the same elements; null until someone asks for it
  PyObject* owner;             // what keeps foreign memory alive; may be null
  PyObject* name;              // str: as the kernel's source calls it; null: not known yet
  Py_ssize_t extents[1];       // ndim of shape, then ndim of strides
};

extern PyTypeObject array_type;
inline bool is_array(PyObject* object) { return Py_TYPE(object) == &array_type; }

// A typed array of fresh memory, poisoned and watched for reads of what nobody wrote. `site` tells two calls apart.
//   shared: the running block's, the same for every thread that comes to this call; shape 0 is dynamic shared memory
//   local:  the running thread's, fresh at each call
// New references; null with an exception. (builtins.cpp wraps none of this: shared.array & co. are added by add_arrays.)

// A block's shared memory hangs at Block::front. Execution calls:
void begin_block_memory(engine::Block& block);  // a block starts in this object: its shared memory is fresh again
void free_block_memory(engine::Block& block);   // the launch is over

// Adds Array, wrap_arguments, shared, local, const, atomic to the extension module; -1 with an exception.
int add_arrays(PyObject* module);

}  // namespace trifold::simulator
