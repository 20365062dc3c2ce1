#include "fault.h"

#include <memory>

#include "../core/tolerance.h"
#include "object.h"

namespace trifold::simulator {
namespace {

// trifold.findings, imported at the first finding.
Object findings_module() {
  return Object(PyImport_ImportModule("trifold.findings"));
}

Object tuple_of(engine::Dim3 at) {
  return Object(Py_BuildValue("(III)", at.x, at.y, at.z));
}

std::string source_line(const SiteLocation& location) {
  const Object linecache(PyImport_ImportModule("linecache"));
  const Object line(linecache
                        ? PyObject_CallMethod(linecache.get(), "getline", "si", location.file.c_str(), location.line)
                        : nullptr);
  const char* const text = line ? PyUnicode_AsUTF8(line.get()) : nullptr;
  PyErr_Clear();
  const std::string_view all = text == nullptr ? "" : text;
  const size_t first = all.find_first_not_of(" \t");
  if (first == all.npos) return "";
  const size_t last = all.find_last_not_of(" \t\r\n\f");
  return std::string(all.substr(first, last - first + 1));
}

Object access_to_python(PyObject* module, const engine::Access& access) {
  const Object thread = tuple_of(access.thread);
  const Object block = tuple_of(access.block);
  const Object interval(access.interval < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(access.interval));
  const Object type(PyObject_GetAttrString(module, "Access"));
  if (!thread || !block || !interval || !type) return Object();
  return Object(PyObject_CallFunction(type.get(), "OOOssis", thread.get(), block.get(), interval.get(),
                                      access.operation.c_str(), access.location.file.c_str(), access.location.line,
                                      access.location.function.c_str()));
}

Object finding_to_python(PyObject* module, const engine::Finding& finding) {
  const Object index(PyTuple_New(static_cast<Py_ssize_t>(finding.index.size())));
  const Object accesses(PyTuple_New(static_cast<Py_ssize_t>(finding.accesses.size())));
  const Object type(PyObject_GetAttrString(module, "Finding"));
  if (!index || !accesses || !type) return Object();
  for (size_t i = 0; i < finding.index.size(); ++i) {
    PyTuple_SET_ITEM(index.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(finding.index[i]));
  }
  for (size_t i = 0; i < finding.accesses.size(); ++i) {
    Object access = access_to_python(module, finding.accesses[i]);
    if (!access) return Object();
    PyTuple_SET_ITEM(accesses.get(), static_cast<Py_ssize_t>(i), access.release());
  }
  const std::string kind(engine::name(finding.kind));
  const std::string severity(engine::name(finding.severity));
  return Object(PyObject_CallFunction(
      type.get(), "sssssOsOKKss", kind.c_str(), severity.c_str(), finding.kernel.c_str(), finding.memory.c_str(),
      finding.array.c_str(), index.get(), finding.message.c_str(), accesses.get(),
      static_cast<unsigned long long>(finding.seed), static_cast<unsigned long long>(finding.count),
      finding.accepted.c_str(), finding.accepted_at.c_str()));
}

}  // namespace

engine::Location locate(Site site) {
  const SiteLocation location = describe(site);
  if (location.file.empty()) return {};
  return {location.file, location.line, location.function, source_line(location), {}};
}

engine::Access access_of(const engine::Thread& thread, std::string operation, Site site) {
  const engine::Launch& launch = *thread.block->launch;
  return {launch.block.at(thread.index), thread.block->index, thread.block->interval, std::move(operation),
          locate(site)};
}

PyObject* to_python(const engine::Finding& finding) {
  const Object module = findings_module();
  return module ? finding_to_python(module.get(), finding).release() : nullptr;
}

int record(const engine::Finding& finding) {
  const Object module = findings_module();
  const Object object = module ? finding_to_python(module.get(), finding) : Object();
  if (!object) return -1;
  const Object done(PyObject_CallMethod(module.get(), "record", "O", object.get()));
  return done ? 0 : -1;
}

bool goes_on(const engine::Finding& finding, Site site, Site other_site) {
  engine::Tally* const tally = engine::current == nullptr ? nullptr : engine::current->block->launch->tally;
  const engine::Tally::Place place{finding.kind, site, other_site, finding.array};
  if (tally != nullptr && tally->goes_on(place, finding)) return true;
  raise_fault(finding);
  return false;
}

void raise_fault(const engine::Finding& finding) {
  const Object module = findings_module();
  const Object object = module ? finding_to_python(module.get(), finding) : Object();
  if (!object) return;
  const Object recorded(PyObject_CallMethod(module.get(), "record", "O", object.get()));
  if (!recorded) return;
  const char* const name = finding.kind == engine::Kind::out_of_bounds ? "OutOfBounds" : "KernelFault";
  const Object type(PyObject_GetAttrString(module.get(), name));
  const Object fault(type ? PyObject_CallOneArg(type.get(), object.get()) : nullptr);
  if (fault) PyErr_SetObject(type.get(), fault.get());
}

}  // namespace trifold::simulator
