#include "sites.h"

#include <array>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace trifold::simulator {

namespace {

// A site of the launch: an instruction of a code object, or a registered line.
struct Entry {
  PyCodeObject* code = nullptr;  // owned; null: a registered line
  int instruction = 0;           // offset in bytes, or the registered number
};

std::vector<Entry> entries(1);  // entry 0 is the unknown site
std::map<std::pair<PyCodeObject*, int>, Site> known;

std::vector<SiteLocation> locations(1);  // of registered numbers
std::vector<Site> site_of_number(1);     // in this launch; 0: not used yet

// The last instruction and result of current_site().
struct Recent {
  PyCodeObject* code = nullptr;
  int instruction = 0;
  Site site = 0;
};
std::array<Recent, 256> recent;

Site add(Entry entry) {
  if (entries.size() >= prompt_site) return 0;
  entries.push_back(entry);
  return static_cast<Site>(entries.size() - 1);
}

// Typed code is a module's; a kernel's is a function's.
bool is_typed(const PyCodeObject* code) {
  return PyUnicode_CompareWithASCIIString(code->co_name, "<module>") == 0;
}

Site intern(PyCodeObject* code, int instruction) {
  if (is_typed(code)) return prompt_site;
  const auto [at, fresh] = known.try_emplace({code, instruction}, Site{0});
  if (!fresh) return at->second;
  at->second = add({code, instruction});
  if (at->second == 0) {
    known.erase(at);  // the table is full, and the code object may be freed
    return 0;
  }
  Py_INCREF(code);
  return at->second;
}

std::string text(PyObject* string) {
  const char* const characters = PyUnicode_AsUTF8(string);
  if (characters != nullptr) return characters;
  PyErr_Clear();
  return {};
}

SiteLocation location_of(PyCodeObject* code, int instruction) {
  return {text(code->co_filename), PyCode_Addr2Line(code, instruction), text(code->co_name)};
}

int number_of(const SiteLocation& location) {
  static std::map<std::tuple<std::string, int, std::string>, int> numbers;
  const auto [at, fresh] =
      numbers.try_emplace({location.file, location.line, location.function}, static_cast<int>(locations.size()));
  if (fresh) {
    locations.push_back(location);
    site_of_number.push_back(0);
  }
  return at->second;
}

PyObject* register_site(PyObject*, PyObject* arguments) {
  const char *file = nullptr, *function = nullptr;
  int line = 0;
  if (PyArg_ParseTuple(arguments, "sis:register_site", &file, &line, &function) == 0) return nullptr;
  return PyLong_FromLong(number_of({file, line, function}));
}

PyMethodDef functions[] = {
    {"register_site", register_site, METH_VARARGS, "The number by which a yield names this line."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

Site current_site() {
  PyFrameObject* const frame = PyEval_GetFrame();
  if (frame == nullptr) return 0;
  PyCodeObject* const code = PyFrame_GetCode(frame);
  Py_DECREF(code);  // the running frame keeps it alive
  const int instruction = PyFrame_GetLasti(frame);
  const auto hash = reinterpret_cast<uintptr_t>(code) / 64 + static_cast<uintptr_t>(instruction) / 2;
  Recent& last = recent[hash % recent.size()];
  if (last.code == code && last.instruction == instruction) return last.site;
  const Site site = intern(code, instruction);
  if (site != prompt_site) last = {code, instruction, site};  // typed code is freed soon, and its address reused
  return site;
}

int current_number() {
  PyFrameObject* const frame = PyEval_GetFrame();
  if (frame == nullptr) return 0;
  PyCodeObject* const code = PyFrame_GetCode(frame);
  const int number = number_of(location_of(code, PyFrame_GetLasti(frame)));
  Py_DECREF(code);
  return number;
}

Site registered_site(long number) {
  if (number <= 0 || static_cast<size_t>(number) >= site_of_number.size()) return 0;
  Site& site = site_of_number[static_cast<size_t>(number)];
  if (site == 0) site = add({nullptr, static_cast<int>(number)});
  return site;
}

SiteLocation describe(Site site) {
  if (site == 0 || site >= entries.size()) return {};
  const auto [code, instruction] = entries[site];
  return code != nullptr ? location_of(code, instruction) : locations[static_cast<size_t>(instruction)];
}

void forget_sites() {
  for (const auto& [code, instruction] : entries) {
    if (code != nullptr) {
      Py_DECREF(code);
    } else {
      site_of_number[static_cast<size_t>(instruction)] = 0;
    }
  }
  entries.resize(1);
  known.clear();
  recent.fill({});
}

int add_sites(PyObject* module) {
  return PyModule_AddFunctions(module, functions);
}

}  // namespace trifold::simulator
