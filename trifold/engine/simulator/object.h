// An owned Python reference, released at the end of the scope.
#pragma once

#include <Python.h>

#include <utility>

namespace trifold::simulator {

class Object {
 public:
  Object() = default;
  explicit Object(PyObject* owned) : object_(owned) {}
  Object(Object&& other) noexcept : object_(other.release()) {}
  Object& operator=(Object&& other) noexcept {
    PyObject* const old = std::exchange(object_, other.release());
    Py_XDECREF(old);
    return *this;
  }
  ~Object() { Py_XDECREF(object_); }

  static Object borrow(PyObject* object) { return Object(Py_XNewRef(object)); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// A static type to be initialised.
inline PyTypeObject blank_type(const char* name, const char* documentation) {
  static const PyVarObject head[] = {PyVarObject_HEAD_INIT(nullptr, 0)};
  PyTypeObject type{};
  type.ob_base = head[0];
  type.tp_name = name;
  type.tp_doc = documentation;
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  return type;
}

}  // namespace trifold::simulator
