#include "traceback.h"

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch.h"

#include "exception.h"

namespace trifold::simulator {

namespace {

std::string place_of(const engine::Thread& thread) {
  const auto list = [](engine::Dim3 at) {
    return "[" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + "]";
  };
  return "tid=" + list(thread.block->launch->block.at(thread.index)) + " ctaid=" + list(thread.block->index);
}

// Findings name their threads themselves, and exceptions not derived from Exception (KeyboardInterrupt) do not concern
// the kernel.
bool names_its_thread(PyObject* exception) {
  return PyErr_GivenExceptionMatches(exception, PyExc_Exception) == 0 ||
         PyErr_GivenExceptionMatches(exception, PyExc_Warning) != 0 || PyObject_HasAttrString(exception, "findings");
}

// The same type of exception with another message, and the attributes of the old one. Null without an exception if the
// type cannot be constructed from a message.
PyObject* with_message(PyObject* exception, const std::string& message) {
  PyObject* const made = PyObject_CallFunction(reinterpret_cast<PyObject*>(Py_TYPE(exception)), "s", message.c_str());
  if (made == nullptr || Py_TYPE(made) != Py_TYPE(exception)) {
    PyErr_Clear();
    Py_XDECREF(made);
    return nullptr;
  }
  for (const char* name : {"__traceback__", "__cause__", "__context__", "__suppress_context__", "__dict__"}) {
    PyObject* const value = PyObject_GetAttrString(exception, name);
    if (value == nullptr || PyObject_SetAttrString(made, name, value) < 0) PyErr_Clear();
    Py_XDECREF(value);
  }
  return made;
}

void add_note(PyObject* exception, const std::string& note) {
  Py_XDECREF(PyObject_CallMethod(exception, "add_note", "s", note.c_str()));
  PyErr_Clear();
}

// ------------------------------------------------------------------------------------------------- seam

struct Seam {
  PyObject ob_base;
  PyObject* function;
  PyObject* folder;  // str: code in this folder is the simulator's; null: none is
};

PyTypeObject seam_type;

bool lies_in(PyObject* traceback, std::string_view folder) {
  PyCodeObject* const code = PyFrame_GetCode(reinterpret_cast<PyTracebackObject*>(traceback)->tb_frame);
  const char* const file = PyUnicode_AsUTF8(code->co_filename);
  if (file == nullptr) PyErr_Clear();
  const bool inside = file != nullptr && std::string_view(file).starts_with(folder);
  Py_DECREF(code);
  return inside;
}

// Removes the simulator's frames from the traceback of the current exception.
void strip(const Seam& seam) {
  const char* const folder = seam.folder != nullptr ? PyUnicode_AsUTF8(seam.folder) : nullptr;
  if (folder == nullptr || std::getenv("TRIFOLD_ENGINE_TRACEBACK") != nullptr) return;
  PyObject* const exception = take_exception();
  PyObject* const whole = PyException_GetTraceback(exception);
  std::vector<PyObject*> kept;  // borrowed from `whole`
  for (PyObject* part = whole; part != nullptr;
       part = reinterpret_cast<PyObject*>(reinterpret_cast<PyTracebackObject*>(part)->tb_next))
    if (!lies_in(part, folder)) kept.push_back(part);
  // Links the parts anew from the last to the first: each holds the one that follows it.
  for (PyObject* const part : kept) Py_INCREF(part);
  PyObject* next = Py_NewRef(Py_None);
  while (!kept.empty()) {
    PyObject* const part = kept.back();
    kept.pop_back();
    if (PyObject_SetAttrString(part, "tb_next", next) < 0) PyErr_Clear();
    Py_DECREF(next);
    next = part;
  }
  PyException_SetTraceback(exception, next);
  Py_DECREF(next);
  Py_XDECREF(whole);
  set_exception(exception);
}

// Runs a generator that yields the arguments of each launch(): while a kernel runs, a debugger finds no frame of the
// simulator below it. Steals the reference; returns the generator's result, null with an exception.
PyObject* run_launches(PyObject* generator) {
  PyObject* sent = Py_NewRef(Py_None);
  PyObject* request = nullptr;
  PySendResult state = PyIter_Send(generator, sent, &request);
  while (state == PYGEN_NEXT) {
    Py_SETREF(sent, launch(nullptr, request));
    Py_DECREF(request);
    if (sent != nullptr) {
      state = PyIter_Send(generator, sent, &request);
      continue;
    }
    PyObject* const exception = take_exception();
    request = PyObject_CallMethod(generator, "throw", "O", exception);
    Py_DECREF(exception);
    if (request == nullptr) state = PYGEN_ERROR;
  }
  Py_XDECREF(sent);
  Py_DECREF(generator);
  return state == PYGEN_RETURN ? request : nullptr;
}

PyObject* call_seam(PyObject* self, PyObject* arguments, PyObject* keywords) {
  const auto& seam = *reinterpret_cast<Seam*>(self);
  PyObject* result = PyObject_Call(seam.function, arguments, keywords);
  // Inside a kernel, a generator is the result of a device function, for its caller.
  if (result != nullptr && engine::current == nullptr && PyGen_CheckExact(result)) result = run_launches(result);
  if (result == nullptr) strip(seam);
  return result;
}

PyObject* bind_seam(PyObject* self, PyObject* object, PyObject*) {
  return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

void free_seam(PyObject* self) {
  auto& seam = *reinterpret_cast<Seam*>(self);
  PyObject_GC_UnTrack(self);
  Py_CLEAR(seam.function);
  Py_CLEAR(seam.folder);
  PyObject_GC_Del(self);
}

int traverse_seam(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<Seam*>(self)->function);
  return 0;
}

PyObject* seam_attribute(PyObject* self, PyObject* name) {
  PyObject* const own = PyObject_GenericGetAttr(self, name);
  if (own != nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return own;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<Seam*>(self)->function, name);
}

// The folder of a function's source with a trailing slash; null without an exception if it has none.
PyObject* source_folder(PyObject* function) {
  PyObject* const code = PyObject_GetAttrString(function, "__code__");
  PyObject* const file = code != nullptr ? PyObject_GetAttrString(code, "co_filename") : nullptr;
  Py_XDECREF(code);
  const char* const text = file != nullptr ? PyUnicode_AsUTF8(file) : nullptr;
  PyObject* folder = nullptr;
  if (text != nullptr) {
    const std::string_view path(text);
    const size_t length = path.rfind('/') + 1;  // 0 if there is no slash
    if (length != 0) folder = PyUnicode_FromStringAndSize(text, static_cast<Py_ssize_t>(length));
  }
  Py_XDECREF(file);
  PyErr_Clear();
  return folder;
}

PyObject* make_seam(PyObject*, PyObject* function) {
  auto* const seam = PyObject_GC_New(Seam, &seam_type);
  if (seam == nullptr) return nullptr;
  seam->function = Py_NewRef(function);
  seam->folder = source_folder(function);
  PyObject_GC_Track(seam);
  return reinterpret_cast<PyObject*>(seam);
}

PyTypeObject seam_definition() {
  PyTypeObject made = {PyVarObject_HEAD_INIT(nullptr, 0)};
  made.tp_name = "trifold._simulator.Seam";
  made.tp_doc = "A function that binds like a method and leaves no frames of the simulator in tracebacks.";
  made.tp_basicsize = sizeof(Seam);
  made.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  made.tp_dealloc = free_seam;
  made.tp_traverse = traverse_seam;
  made.tp_call = call_seam;
  made.tp_descr_get = bind_seam;
  made.tp_getattro = seam_attribute;
  return made;
}

PyMethodDef functions[] = {
    {"seam", make_seam, METH_O, "The function as a C callable that leaves no frames of the simulator in tracebacks."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void name_thread(const engine::Thread& thread) {
  PyObject* exception = take_exception();
  if (!names_its_thread(exception)) {
    const std::string place = place_of(thread);
    PyObject* const words = PyObject_Str(exception);
    const char* const text = words != nullptr ? PyUnicode_AsUTF8(words) : nullptr;
    if (text == nullptr) PyErr_Clear();
    const bool empty = text == nullptr || *text == '\0';
    PyObject* const named = with_message(exception, empty ? place : place + ": " + text);
    Py_XDECREF(words);
    if (named != nullptr) {
      Py_DECREF(std::exchange(exception, named));
    } else {
      add_note(exception, "in the CUDA thread " + place);
    }
  }
  set_exception(exception);
}

int add_traceback(PyObject* module) {
  seam_type = seam_definition();
  if (PyType_Ready(&seam_type) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace trifold::simulator
