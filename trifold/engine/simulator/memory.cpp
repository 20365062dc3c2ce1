// Types of elements, and the bytes under arrays.
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <unordered_map>

#include "array.h"

namespace trifold::simulator {
namespace {

// Element types by the objects that name them. The table keeps its keys alive.
std::unordered_map<PyObject*, ElementType> types;

bool long_attribute(PyObject* object, const char* name, Py_ssize_t& value) {
  const Object attribute(PyObject_GetAttrString(object, name));
  value = attribute ? PyLong_AsSsize_t(attribute.get()) : -1;
  return !(value == -1 && PyErr_Occurred() != nullptr);
}

Kind kind_of(char kind, Py_ssize_t size) {
  const int width = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : -1;
  if (width < 0) return Kind::other;
  constexpr Kind with_sign[] = {Kind::int8, Kind::int16, Kind::int32, Kind::int64};
  constexpr Kind without_sign[] = {Kind::uint8, Kind::uint16, Kind::uint32, Kind::uint64};
  constexpr Kind floating[] = {Kind::other, Kind::float16, Kind::float32, Kind::float64};
  switch (kind) {
    case 'b': return Kind::boolean;
    case 'i': return with_sign[width];
    case 'u': return without_sign[width];
    case 'f': return floating[width];
    default: return Kind::other;
  }
}

// The first dtype seen that equals this one; it has static lifetime.
PyObject* canonical(PyObject* dtype) {
  static PyObject* const known = PyDict_New();
  return known == nullptr ? nullptr : PyDict_SetDefault(known, dtype, dtype);
}

bool describe_dtype(PyObject* dtype, ElementType& type) {
  type.dtype = canonical(dtype);
  if (type.dtype == nullptr) return false;
  const Object kind(PyObject_GetAttrString(dtype, "kind"));
  const Object native(PyObject_GetAttrString(dtype, "isnative"));
  const Object fields(PyObject_GetAttrString(dtype, "names"));
  if (!kind || !native || !fields) return false;
  if (!long_attribute(dtype, "itemsize", type.size) || !long_attribute(dtype, "alignment", type.alignment))
    return false;
  type.record = fields.get() != Py_None;
  if (native.get() == Py_True) type.kind = kind_of(static_cast<char>(PyUnicode_ReadChar(kind.get(), 0)), type.size);
  return true;
}

std::string_view text(const Object& string) {
  const char* const characters = string ? PyUnicode_AsUTF8(string.get()) : nullptr;
  PyErr_Clear();
  return characters == nullptr ? std::string_view() : characters;
}

// Looks up a Numba type in Numba's own table: numba-cuda's if it is installed, else Numba's.
Object dtype_of_numba_type(PyObject* named) {
  for (const char* const module : {"numba.cuda.np.numpy_support", "numba.np.numpy_support"}) {
    PyErr_Clear();
    const Object support(PyImport_ImportModule(module));
    Object dtype(support ? PyObject_CallMethod(support.get(), "as_dtype", "O", named) : nullptr);
    if (dtype) return dtype;
  }
  return Object();
}

Object dtype_of(PyObject* named) {
  const Object numpy(PyImport_ImportModule("numpy"));
  if (!numpy) return Object();
  if (PyType_Check(named)) {
    const Object module(PyObject_GetAttrString(named, "__module__"));
    if (text(module) == "trifold._simulator") {  // a class of scalar.h, which has the name of NumPy's
      const Object name(PyObject_GetAttrString(named, "__name__"));
      return Object(name ? PyObject_CallMethod(numpy.get(), "dtype", "O", name.get()) : nullptr);
    }
  } else {
    const Object module(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(named)), "__module__"));
    if (text(module).starts_with("numba")) return dtype_of_numba_type(named);
  }
  PyErr_Clear();
  return Object(PyObject_CallMethod(numpy.get(), "dtype", "O", named));
}

bool is_bfloat16(PyObject* named) {
  const Object name(PyObject_Str(named));
  return text(name) == "bfloat16";
}

bool describe(PyObject* named, ElementType& type) {
  const bool bfloat16 = is_bfloat16(named);
  const Object stored_as(bfloat16 ? PyUnicode_FromString("uint16") : Py_NewRef(named));
  const Object dtype(stored_as ? dtype_of(stored_as.get()) : Object());
  if (!dtype || !describe_dtype(dtype.get(), type)) return false;
  if (bfloat16) type.kind = Kind::bfloat16;
  return true;
}

void memory_dealloc(PyObject* object) {
  auto* const memory = reinterpret_cast<Memory*>(object);
  delete memory->buffer;
  if (memory->allocated) free(memory->begin);
  Py_XDECREF(memory->owner);
  PyObject_Free(object);
}

int memory_getbuffer(PyObject* object, Py_buffer* view, int flags) {
  const auto* const memory = reinterpret_cast<Memory*>(object);
  return PyBuffer_FillInfo(view, object, memory->begin, static_cast<Py_ssize_t>(memory->size), memory->read_only,
                           flags);
}

PyBufferProcs memory_buffer = {.bf_getbuffer = memory_getbuffer, .bf_releasebuffer = nullptr};

}  // namespace

PyTypeObject memory_type = [] {
  PyTypeObject type = blank_type("trifold._simulator.Memory", "The bytes under an Array.");
  type.tp_basicsize = sizeof(Memory);
  type.tp_dealloc = memory_dealloc;
  type.tp_as_buffer = &memory_buffer;
  return type;
}();

bool element_type(PyObject* named, ElementType& type) {
  if (const auto found = types.find(named); found != types.end()) {
    type = found->second;
    return true;
  }
  ElementType described;
  if (!describe(named, described)) return false;
  type = described;
  // A dtype that equals a known one is not kept: programs create thousands.
  const bool is_record_dtype = described.record && Py_TYPE(named) == Py_TYPE(described.dtype);
  const bool lasts = !is_record_dtype || named == described.dtype;
  if (lasts) types.emplace(Py_NewRef(named), described);
  return true;
}

PyObject* new_memory(engine::Space space, size_t bytes, size_t alignment) {
  auto* const memory = PyObject_New(Memory, &memory_type);
  if (memory == nullptr) return nullptr;
  constexpr size_t least = 16;
  const size_t at = alignment < least ? least : alignment;
  memory->begin =
      static_cast<char*>(at == least ? malloc(bytes + (bytes == 0)) : aligned_alloc(at, (bytes + at) / at * at));
  memory->size = bytes;
  memory->space = space;
  memory->read_only = false;
  memory->allocated = true;
  memory->buffer = nullptr;
  memory->owner = nullptr;
  if (memory->begin != nullptr) return reinterpret_cast<PyObject*>(memory);
  Py_DECREF(memory);
  return PyErr_NoMemory();
}

bool watch(Memory* memory, size_t width, bool initialised) {
  try {
    memory->buffer =
        new engine::Buffer(memory->space, reinterpret_cast<uintptr_t>(memory->begin), memory->size, width, initialised);
    return true;
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return false;
  }
}

}  // namespace trifold::simulator
