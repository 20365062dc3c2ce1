// The extension module trifold._simulator: each part adds its own names.
#include <Python.h>

#include "array.h"
#include "builtins.h"
#include "fresh.h"
#include "launch.h"
#include "scalar.h"
#include "sites.h"
#include "traceback.h"
#include "undefined.h"
#include "writes.h"

namespace {

PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "trifold._simulator",
    .m_doc = "CUDA's execution model for Python kernels: launches, device functions, arrays, arithmetic.",
    .m_size = -1,
};

}  // namespace

PyMODINIT_FUNC PyInit__simulator() {
  using namespace trifold::simulator;
  PyObject* const module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
  for (auto* const add : {add_scalars, add_sites, add_undefined, add_builtins, add_waiting, add_arrays, add_traceback,
                          add_launch, add_writes, add_fresh}) {
    if (add(module) == 0) continue;
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
