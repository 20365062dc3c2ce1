// The arguments of a call of array(shape, dtype, alignment=None).
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "array.h"

namespace trifold::simulator {

struct ArrayRequest {
  ElementType type;
  std::vector<Py_ssize_t> shape;
  size_t alignment = 0;  // 0: the type's alignment
  size_t bytes = 0;
  uint64_t number = 0;  // serial number: requests with the same one are equal

  bool dynamic() const { return shape.size() == 1 && shape[0] == 0; }
  bool equals(const ArrayRequest& other) const {
    return number == other.number || (type.dtype == other.type.dtype && type.kind == other.type.kind &&
                                      shape == other.shape && alignment == other.alignment);
  }
};

// Parses a call's arguments; valid until the next call. Null with an exception.
const ArrayRequest* read_request(const char* function, PyObject* arguments, PyObject* keywords);

}  // namespace trifold::simulator
