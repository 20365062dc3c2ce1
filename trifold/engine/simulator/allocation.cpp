// cuda.shared.array, cuda.local.array, cuda.const.array_like.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "array.h"
#include "array_request.h"
#include "sites.h"

namespace trifold::simulator {

std::vector<Py_ssize_t> contiguous_strides(std::span<const Py_ssize_t> shape, Py_ssize_t size) {
  std::vector<Py_ssize_t> strides(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = size;
    size *= shape[axis];
  }
  return strides;
}

namespace {

// Unwritten memory holds conspicuous values: a NaN in every floating type, or a large negative integer.
constexpr int poison_floating = 0xFF;
constexpr int poison_other = 0xCB;

// The calling instruction and its arguments: two calls on a line are two arrays, one call in a loop is one.
struct CallSite {
  PyCodeObject* code = nullptr;
  int instruction = 0;

  bool operator==(const CallSite&) const = default;
};

CallSite call_site() {
  PyFrameObject* const frame = PyEval_GetFrame();
  if (frame == nullptr) return {};
  PyCodeObject* const code = PyFrame_GetCode(frame);
  Py_DECREF(code);  // the running frame keeps it alive
  return {code, PyFrame_GetLasti(frame)};
}

struct SharedArray {
  CallSite site;
  ArrayRequest request;
  Object array;
  uint64_t block = 0;  // the block for which it was last reset
};

// The shared memory of a block; the next block in the same object reuses it.
struct BlockMemory {
  std::vector<SharedArray> arrays;
  size_t static_bytes = 0;
  Object dynamic;  // a Memory; allocated by the first array in dynamic shared memory
  uint64_t dynamic_block = 0;
  uint64_t block = 1;  // number of blocks that ran in this object
};

engine::Thread* running_thread(const char* what) {
  if (engine::current == nullptr) {
    PyErr_Format(PyExc_RuntimeError, "%s is called outside a kernel: only a CUDA thread has such memory", what);
  }
  return engine::current;
}

uint32_t checks_of(const engine::Thread& thread) {
  const engine::Launch& launch = *thread.block->launch;
  return launch.checker == nullptr ? 0 : launch.checks;
}

// Resets the contents: poisoned and unwritten.
void freshen(Memory* memory, int poison, const engine::Thread& thread) {
  memset(memory->begin, poison, memory->size);
  if (memory->buffer != nullptr) memory->buffer->restart(thread.block->launch->now);
}

size_t power_of_two_in(Py_ssize_t size) {
  return size_t{1} << std::countr_zero(static_cast<size_t>(size) | 64);
}

Object fresh_memory(engine::Space space, const ArrayRequest& request, size_t bytes, const engine::Thread& thread,
                    uint32_t watched_checks) {
  const size_t alignment = std::max(request.alignment, static_cast<size_t>(request.type.alignment));
  Object object(new_memory(space, bytes, alignment));
  if (!object) return object;
  auto* const memory = reinterpret_cast<Memory*>(object.get());
  const bool watched = bytes > 0 && (checks_of(thread) & watched_checks) != 0;
  if (watched && !watch(memory, power_of_two_in(request.type.size), false)) return Object();
  freshen(memory, poison_of(request.type), thread);
  return object;
}

Object array_over(const Object& memory, const ArrayRequest& request) {
  auto* const bytes = reinterpret_cast<Memory*>(memory.get());
  const std::vector<Py_ssize_t> strides = contiguous_strides(request.shape, request.type.size);
  return Object(new_array(bytes, request.type, bytes->begin, request.shape, strides, nullptr));
}

BlockMemory& memory_of(engine::Block& block) {
  if (block.front == nullptr) block.front = new BlockMemory;
  return *static_cast<BlockMemory*>(block.front);
}

bool within_limits(const BlockMemory& memory, const ArrayRequest& request, const engine::Launch& launch) {
  const size_t bytes = memory.static_bytes + request.bytes;
  const size_t all = bytes + launch.dynamic_shared_bytes;
  const size_t most_static = launch.limits.static_shared_bytes, most = launch.limits.shared_bytes;
  if (bytes <= most_static && all <= most) return true;
  if (bytes > most_static) {
    PyErr_Format(PyExc_RuntimeError,
                 "kernel %s declares %zu bytes of static shared memory: a block has at most %zu; use dynamic shared "
                 "memory (shape 0, and its size in the launch configuration) or a smaller array",
                 launch.kernel.c_str(), bytes, most_static);
  } else {
    PyErr_Format(PyExc_RuntimeError,
                 "kernel %s uses %zu bytes of shared memory (%zu static, %zu dynamic): a block has at most %zu",
                 launch.kernel.c_str(), all, bytes, size_t{launch.dynamic_shared_bytes}, most);
  }
  return false;
}

PyObject* dynamic_array(const ArrayRequest& request, engine::Thread& thread) {
  BlockMemory& memory = memory_of(*thread.block);
  const size_t bytes = thread.block->launch->dynamic_shared_bytes;
  if (!memory.dynamic) {
    memory.dynamic = fresh_memory(engine::Space::shared, request, bytes, thread, engine::check_all);
    if (!memory.dynamic) return nullptr;
  } else if (memory.dynamic_block != memory.block) {
    freshen(reinterpret_cast<Memory*>(memory.dynamic.get()), poison_of(request.type), thread);
  }
  memory.dynamic_block = memory.block;
  ArrayRequest whole = request;
  whole.shape[0] = static_cast<Py_ssize_t>(bytes) / request.type.size;
  return array_over(memory.dynamic, whole).release();
}

PyObject* new_shared_array(BlockMemory& memory, const CallSite& site, const ArrayRequest& request,
                           const engine::Thread& thread) {
  if (!within_limits(memory, request, *thread.block->launch)) return nullptr;
  const Object bytes = fresh_memory(engine::Space::shared, request, request.bytes, thread, engine::check_all);
  Object array = bytes ? array_over(bytes, request) : Object();
  if (!array) return nullptr;
  memory.static_bytes += request.bytes;
  memory.arrays.push_back({site, request, Object::borrow(array.get()), memory.block});
  return array.release();
}

PyObject* shared_array(PyObject*, PyObject* arguments, PyObject* keywords) {
  const ArrayRequest* const request = read_request("shared.array", arguments, keywords);
  engine::Thread* const thread = request == nullptr ? nullptr : running_thread("cuda.shared.array");
  if (thread == nullptr) return nullptr;
  if (request->dynamic()) return dynamic_array(*request, *thread);
  BlockMemory& memory = memory_of(*thread->block);
  const CallSite site = call_site();
  const auto known = std::ranges::find_if(
      memory.arrays, [&](const SharedArray& one) { return one.site == site && one.request.equals(*request); });
  if (known == memory.arrays.end()) return new_shared_array(memory, site, *request, *thread);
  if (known->block != memory.block) {
    freshen(as_array(known->array.get())->memory, poison_of(request->type), *thread);
    known->block = memory.block;
  }
  return Py_NewRef(known->array.get());
}

PyObject* local_array(PyObject*, PyObject* arguments, PyObject* keywords) {
  const ArrayRequest* const request = read_request("local.array", arguments, keywords);
  const engine::Thread* const thread = request == nullptr ? nullptr : running_thread("cuda.local.array");
  if (thread == nullptr) return nullptr;
  const Object bytes =
      fresh_memory(engine::Space::local, *request, request->bytes, *thread, engine::check_uninitialised);
  return bytes ? array_over(bytes, *request).release() : nullptr;
}

// A constant view of an array of the program.
PyObject* array_like(PyObject*, PyObject* value) {
  if (is_array(value)) {
    Array* const array = as_array(value);
    const Object object(new_array(array->memory, array->type, array->data, array->shape(), array->strides(), array));
    if (object) as_array(object.get())->read_only = true;
    return Py_XNewRef(object.get());
  }
  const Object numpy(PyImport_ImportModule("numpy"));
  const Object source(numpy ? PyObject_CallMethod(numpy.get(), "asarray", "O", value) : nullptr);
  if (!source) return nullptr;
  return constant_array(source.get());
}

// Not METH_FASTCALL: Python 3.11 specialises such a call after a few executions, which changes its instruction.
PyMethodDef define(const char* name, PyCFunctionWithKeywords function, const char* documentation) {
  const auto plain = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
  return {name, plain, METH_VARARGS | METH_KEYWORDS, documentation};
}

PyMethodDef shared_functions[] = {
    define("array", shared_array,
           "shared.array(shape, dtype, alignment=None): the block's array of this call; shape 0 is dynamic shared "
           "memory."),
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef local_functions[] = {
    define("array", local_array, "local.array(shape, dtype, alignment=None): an array of the thread's own."),
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef const_functions[] = {
    {"array_like", array_like, METH_O, "const.array_like(array): the array in constant memory."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int poison_of(const ElementType& type) {
  return is_floating(type.kind) || type.kind == Kind::other ? poison_floating : poison_other;
}

PyObject* namespace_of(PyMethodDef* functions) {
  const Object types(PyImport_ImportModule("types"));
  const Object made(types ? PyObject_CallMethod(types.get(), "SimpleNamespace", nullptr) : nullptr);
  for (PyMethodDef* function = functions; made && function->ml_name != nullptr; ++function) {
    const Object callable(PyCFunction_New(function, nullptr));
    if (!callable || PyObject_SetAttrString(made.get(), function->ml_name, callable.get()) != 0) return nullptr;
  }
  return Py_XNewRef(made.get());
}

void begin_block_memory(engine::Block& block) {
  if (block.front != nullptr) ++static_cast<BlockMemory*>(block.front)->block;
}

void free_block_memory(engine::Block& block) {
  delete static_cast<BlockMemory*>(block.front);
  block.front = nullptr;
  forget_lints();
}

int add_allocation(PyObject* module) {
  const Object shared(namespace_of(shared_functions));
  const Object local(namespace_of(local_functions));
  const Object constant(namespace_of(const_functions));
  if (!shared || !local || !constant) return -1;
  if (PyModule_AddObjectRef(module, "shared", shared.get()) != 0) return -1;
  if (PyModule_AddObjectRef(module, "local", local.get()) != 0) return -1;
  return PyModule_AddObjectRef(module, "const", constant.get());
}

}  // namespace trifold::simulator
