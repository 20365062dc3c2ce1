#include "front.h"

#include <bit>
#include <cstring>

#include "../core/tolerance.h"
#include "array.h"
#include "fault.h"
#include "scalar.h"
#include "sites.h"
#include "undefined.h"

namespace trifold::simulator {

using engine::Operation;
using engine::Outcome;
using engine::Request;
using engine::Thread;

namespace {

[[noreturn]] void fail(PyObject* type, const char* message) {
  PyErr_SetString(type, message);
  throw PythonError();
}

int64_t integer(PyObject* object, const char* what) {
  if (PyLong_CheckExact(object)) return static_cast<int64_t>(PyLong_AsUnsignedLongLongMask(object));
  int64_t value = 0;
  if (!read_index(object, value)) fail(PyExc_TypeError, what);
  return value;
}

uint32_t lane_mask(PyObject* object) {
  return static_cast<uint32_t>(integer(object, "the mask of a warp operation is an integer"));
}

bool truth(PyObject* object) {
  const int answer = PyObject_IsTrue(object);
  if (answer < 0) throw PythonError();
  return answer != 0;
}

// Numba's shuffles and matches support these four types; another operand becomes the first that holds it (by the typing
// rules of numba.cuda's shfl_sync_intrinsic: a uint64 becomes a float64).
Value operand_of(PyObject* object, const char* operation) {
  Value value;
  if (!read(object, value)) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "%s takes an integer or a floating-point number", operation);
    throw PythonError();
  }
  switch (value.kind) {
    case Kind::int32:
    case Kind::int64:
    case Kind::float32:
    case Kind::float64: return value;
    case Kind::uint32: return convert(value, Kind::int64);
    case Kind::uint64: return convert(value, Kind::float64);
    case Kind::float16:
    case Kind::bfloat16: return convert(value, Kind::float32);
    default: return convert(value, Kind::int32);
  }
}

PyObject* shuffled(PyObject* object) {
  if (PyFloat_CheckExact(object) || PyLong_CheckExact(object)) return Py_NewRef(object);
  if (is_undefined(object)) return Py_NewRef(object);
  return box(operand_of(object, "a shuffle"));
}

uint64_t bits(const Value& value) {
  if (value.kind == Kind::float32) return std::bit_cast<uint32_t>(value.f);
  return value.u;
}

// Parses what a thread yielded: a site, or (site, operation, operand, …).
class Yielded {
 public:
  explicit Yielded(PyObject* tuple) : tuple_(tuple) {}

  void expect(Py_ssize_t operands) const {
    if (PyTuple_GET_SIZE(tuple_) != operands + 2)
      fail(PyExc_TypeError, "a warp operation got too few or too many operands");
  }
  PyObject* operator[](Py_ssize_t i) const { return PyTuple_GET_ITEM(tuple_, i + 2); }
  Py_ssize_t size() const { return PyTuple_GET_SIZE(tuple_) - 2; }

 private:
  PyObject* tuple_;
};

void take_shuffle(Thread& thread, PyObject* mask, PyObject* value, PyObject* lane) {
  Request& request = thread.request;
  request.mask = lane_mask(mask);
  request.lane = static_cast<uint32_t>(integer(lane, "the lane of a shuffle is an integer"));
  request.clamp = static_cast<Operation>(request.operation) == Operation::shuffle_up ? 0 : 0x1f;
  thread.operand = shuffled(value);
  if (thread.operand == nullptr) throw PythonError();
}

long mode_of(PyObject* object) {
  const int64_t mode = integer(object, "the mode of a warp operation is an integer");
  if (mode < 0 || mode > 3) fail(PyExc_ValueError, "the mode of a warp operation is 0, 1, 2 or 3");
  return static_cast<long>(mode);
}

void take_intrinsic(Thread& thread, const Yielded& operands, long operation) {
  Request& request = thread.request;
  request.pair = true;
  const bool shuffles = operation == shuffle_intrinsic;
  operands.expect(shuffles ? 5 : 3);
  const auto first = shuffles ? Operation::shuffle : Operation::vote_all;
  request.operation = static_cast<uint8_t>(static_cast<long>(first) + mode_of(operands[1]));
  if (shuffles) {
    take_shuffle(thread, operands[0], operands[2], operands[3]);
    request.clamp = static_cast<uint32_t>(integer(operands[4], "the clamp of a shuffle is an integer"));
  } else {
    request.mask = lane_mask(operands[0]);
    request.predicate = truth(operands[2]);
  }
}

void take_operation(Thread& thread, const Yielded& operands, long operation) {
  Request& request = thread.request;
  request.pair = false;
  if (operation == shuffle_intrinsic || operation == vote_intrinsic) return take_intrinsic(thread, operands, operation);
  if (operation < 0 || operation > static_cast<long>(Operation::poll)) fail(PyExc_SystemError, "unknown operation");
  request.operation = static_cast<uint8_t>(operation);
  switch (static_cast<Operation>(operation)) {
    case Operation::barrier:
    case Operation::grid_barrier:
    case Operation::active_mask:
    case Operation::poll: request.predicate = false; return operands.expect(0);
    case Operation::barrier_count:
    case Operation::barrier_and:
    case Operation::barrier_or:
      operands.expect(1);
      request.predicate = truth(operands[0]);
      return;
    case Operation::sync_warp:
      if (operands.size() != 0) operands.expect(1);
      request.mask = operands.size() != 0 ? lane_mask(operands[0]) : ~0u;
      return;
    case Operation::shuffle:
    case Operation::shuffle_up:
    case Operation::shuffle_down:
    case Operation::shuffle_xor: operands.expect(3); return take_shuffle(thread, operands[0], operands[1], operands[2]);
    case Operation::match_any:
    case Operation::match_all:
      operands.expect(2);
      request.mask = lane_mask(operands[0]);
      request.value = bits(operand_of(operands[1], "a match"));
      return;
    default:
      operands.expect(2);
      request.mask = lane_mask(operands[0]);
      request.predicate = truth(operands[1]);
  }
}

void take_request(Thread& thread, PyObject* yielded) {
  if (PyLong_CheckExact(yielded)) {
    thread.request.operation = static_cast<uint8_t>(Operation::barrier);
    thread.request.predicate = false;
    thread.waiting_at = registered_site(PyLong_AsLong(yielded));
    return;
  }
  if (!PyTuple_CheckExact(yielded) || PyTuple_GET_SIZE(yielded) < 2 ||
      !PyLong_CheckExact(PyTuple_GET_ITEM(yielded, 0)) || !PyLong_CheckExact(PyTuple_GET_ITEM(yielded, 1)))
    fail(PyExc_SystemError, "a kernel yielded something else than a site or (site, operation, …)");
  thread.waiting_at = registered_site(PyLong_AsLong(PyTuple_GET_ITEM(yielded, 0)));
  take_operation(thread, Yielded(yielded), PyLong_AsLong(PyTuple_GET_ITEM(yielded, 1)));
}

PyObject* int32(uint64_t bits) {
  Value value;
  value.kind = Kind::int32;
  value.i = static_cast<int32_t>(bits);
  return box(value);
}

PyObject* uint32(uint64_t bits) {
  Value value;
  value.kind = Kind::uint32;
  value.u = bits;
  return box(value);
}

PyObject* pair(PyObject* first, bool second) {
  return first == nullptr ? nullptr : Py_BuildValue("NO", first, second ? Py_True : Py_False);
}

// The result of the operation that a thread waited for; a new reference.
PyObject* answer(Thread& thread) {
  const Request& request = thread.request;
  const engine::Block& block = *thread.block;
  switch (static_cast<Operation>(request.operation)) {
    case Operation::barrier_count: return PyLong_FromUnsignedLong(block.barrier_true);
    case Operation::barrier_and: return PyLong_FromLong(block.barrier_true == block.barrier_threads ? 1 : 0);
    case Operation::barrier_or: return PyLong_FromLong(block.barrier_true != 0 ? 1 : 0);
    case Operation::shuffle:
    case Operation::shuffle_up:
    case Operation::shuffle_down:
    case Operation::shuffle_xor: {
      auto* const value = static_cast<PyObject*>(std::exchange(thread.operand, nullptr));
      return request.pair ? pair(value, request.predicate) : value;
    }
    case Operation::vote_all:
    case Operation::vote_any:
    case Operation::vote_equal:
      return request.pair ? pair(int32(request.value), request.predicate) : PyBool_FromLong(request.predicate);
    case Operation::ballot: return request.pair ? pair(int32(request.value), request.predicate) : int32(request.value);
    case Operation::match_any: return int32(request.value);
    case Operation::match_all: return pair(int32(request.value), request.predicate);
    case Operation::active_mask: return uint32(request.value);
    default: return Py_NewRef(Py_None);
  }
}

// Called before a barrier, and at the thread's end.
inline void decide(Thread& thread) {
  if (thread.undecided == 0) [[likely]]
    return;
  if (!decide_reads(thread)) throw PythonError();
}

}  // namespace

PythonFront::PythonFront(PyObject* function, bool generator, PyObject* arguments)
    : function_(function), generator_(generator), arguments_(arguments) {}

PyObject* PythonFront::call() const {
  PyObject* const result = PyObject_Vectorcall(function_, &PyTuple_GET_ITEM(arguments_, 0),
                                               static_cast<size_t>(PyTuple_GET_SIZE(arguments_)), nullptr);
  if (result == nullptr) throw PythonError();
  return result;
}

Outcome PythonFront::resume(Thread& thread) {
  if (!generator_) {
    Py_DECREF(call());
    decide(thread);
    return Outcome::exited;
  }
  PyObject* sent = Py_None;
  if (thread.front == nullptr) {
    thread.front = call();
    Py_INCREF(sent);
  } else if (sent = answer(thread); sent == nullptr) {
    throw PythonError();
  }
  PyObject* yielded = nullptr;
  const PySendResult result = PyIter_Send(static_cast<PyObject*>(thread.front), sent, &yielded);
  Py_DECREF(sent);
  if (result == PYGEN_ERROR) throw PythonError();
  if (result == PYGEN_RETURN) {
    Py_DECREF(yielded);
    Py_DECREF(static_cast<PyObject*>(std::exchange(thread.front, nullptr)));
    decide(thread);
    return Outcome::exited;
  }
  struct Release {
    PyObject* object;
    ~Release() { Py_DECREF(object); }
  } const release{yielded};
  take_request(thread, yielded);
  if (operation_of(thread) <= Operation::grid_barrier) decide(thread);
  return Outcome::waits;
}

void PythonFront::begin_block(engine::Block& block) {
  begin_block_memory(block);
}

void PythonFront::shuffle(engine::Warp& warp, uint32_t lanes) {
  PyObject* values[engine::warp_size] = {};
  bool failed = false;
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    const Thread& thread = warp.lanes[std::countr_zero(left)];
    PyObject*& value = values[thread.lane];
    value = thread.request.undefined ? undefined_value(thread)
                                     : Py_NewRef(static_cast<PyObject*>(warp.lanes[thread.request.source].operand));
    failed |= value == nullptr;
  }
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    Thread& thread = warp.lanes[std::countr_zero(left)];
    Py_XDECREF(static_cast<PyObject*>(std::exchange(thread.operand, values[thread.lane])));
  }
  if (failed) throw PythonError();
}

engine::Location PythonFront::locate(engine::Site site) {
  return simulator::locate(site);
}

void PythonFront::warn(const engine::Finding& finding) {
  engine::Tally* const tally = engine::current->block->launch->tally;
  if (tally != nullptr && tally->accepts(finding)) return;
  if (record(finding) < 0) throw PythonError();
}

void PythonFront::abandon(Thread& thread) {
  if (auto* const generator = static_cast<PyObject*>(std::exchange(thread.front, nullptr)); generator != nullptr) {
    // Its finally clauses run as this thread. Their exceptions and waits are ignored.
    engine::current = &thread;
    if (PyObject_HasAttrString(generator, "close")) Py_XDECREF(PyObject_CallMethod(generator, "close", nullptr));
    PyErr_Clear();
    engine::current = nullptr;
    Py_DECREF(generator);
  }
  Py_XDECREF(static_cast<PyObject*>(std::exchange(thread.operand, nullptr)));
}

}  // namespace trifold::simulator
