#include "complex.h"

#include <complex>
#include <cstring>

#include "number.h"
#include "object.h"

namespace trifold::simulator {
namespace {

struct Operand {
  std::complex<double> value;
  bool single;  // representable as complex64
};

// Null with an exception.
PyObject* attribute_of(const char* module_name, const char* name) {
  const Object module(PyImport_ImportModule(module_name));
  return module ? PyObject_GetAttrString(module.get(), name) : nullptr;
}
PyObject* complex64_type() {
  static PyObject* const type = attribute_of("trifold.simulator.complex_numbers", "Complex64");
  return type;
}
PyObject* complex128_type() {
  static PyObject* const type = attribute_of("numpy", "complex128");
  return type;
}

bool read_operand(PyObject* object, Operand& operand) {
  Value value;
  if (is_complex(object)) {
    const Py_complex parts = PyComplex_AsCComplex(object);
    operand = {{parts.real, parts.imag}, is_complex64(object)};
    return !PyErr_Occurred();
  }
  if (!read(object, value)) return false;
  operand = {{as_double(value), 0}, promotes_to_float32(value.kind)};
  return true;
}

// numba/cpython/numbers.py, complex_div_impl; a divisor of zero results in NaN, where Numba's thread would end.
template <typename T>
std::complex<T> quotient(std::complex<T> a, std::complex<T> b) {
  if (std::fabs(b.real()) >= std::fabs(b.imag())) {
    const T ratio = b.imag() / b.real(), scale = b.real() + b.imag() * ratio;
    return {(a.real() + a.imag() * ratio) / scale, (a.imag() - a.real() * ratio) / scale};
  }
  const T ratio = b.real() / b.imag(), scale = b.real() * ratio + b.imag();
  return {(a.real() * ratio + a.imag()) / scale, (a.imag() * ratio - a.real()) / scale};
}

// numba/cuda/mathimpl.py, cpow_implement.
template <typename T>
std::complex<T> power(std::complex<T> a, std::complex<T> b) {
  if (b == std::complex<T>(0)) return 1;
  if (a.real() == 0 && b.real() == 0) return 0;
  const T size = std::hypot(a.real(), a.imag()), angle = std::atan2(a.imag(), a.real());
  T length = std::pow(size, b.real()), phase = angle * b.real();
  if (b.imag() != 0) {
    length /= std::exp(angle * b.imag());
    phase += b.imag() * std::log(size);
  }
  return {length * std::cos(phase), length * std::sin(phase)};
}

template <typename T>
bool compute_complex(Operator op, std::complex<T> a, std::complex<T> b, std::complex<T>& result) {
  switch (op) {
    case Operator::add: result = a + b; return true;
    case Operator::sub: result = a - b; return true;
    case Operator::mul:
      result = {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
      return true;
    case Operator::truediv: result = quotient(a, b); return true;
    case Operator::pow: result = power(a, b); return true;
    default: return false;
  }
}

PyObject* make_complex(std::complex<double> value, bool single) {
  PyObject* const type = single ? complex64_type() : complex128_type();
  const Object plain(type == nullptr ? nullptr : PyComplex_FromDoubles(value.real(), value.imag()));
  return plain ? PyObject_CallOneArg(type, plain.get()) : nullptr;
}

}  // namespace

bool is_complex64(PyObject* object) {
  const PyTypeObject* const type = Py_TYPE(object);
  return std::strcmp(type->tp_name, "numpy.complex64") == 0 ||
         reinterpret_cast<const PyObject*>(type) == complex64_type();
}

PyObject* as_complex64(PyObject* value) {
  PyObject* const type = complex64_type();
  return type == nullptr ? nullptr : PyObject_CallOneArg(type, value);
}

bool is_complex(PyObject* object) {
  return PyComplex_Check(object) || is_complex64(object);
}

PyObject* operate_complex(Operator op, PyObject* left, PyObject* right) {
  Operand a, b;
  if (!read_operand(left, a) || !read_operand(right, b)) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NOTIMPLEMENTED;
  }
  if (a.single && b.single) {
    std::complex<float> result;
    if (!compute_complex<float>(op, std::complex<float>(a.value), std::complex<float>(b.value), result))
      Py_RETURN_NOTIMPLEMENTED;
    return make_complex(std::complex<double>(result), true);
  }
  std::complex<double> result;
  if (!compute_complex<double>(op, a.value, b.value, result)) Py_RETURN_NOTIMPLEMENTED;
  return make_complex(result, false);
}

}  // namespace trifold::simulator
