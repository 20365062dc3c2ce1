// The front end for Python: each CUDA thread is a call of the kernel's function, or a generator that yields the
// operations at which it waits.
#pragma once

#include <Python.h>

#include "../core/execution.h"

namespace trifold::simulator {

// A Python exception is set; it ends the launch.
struct PythonError {};

// Operation numbers in a yield: those of engine::Operation, and these, which return a pair.
inline constexpr long shuffle_intrinsic = 64;
inline constexpr long vote_intrinsic = 65;

class PythonFront final : public engine::FrontEnd {
 public:
  // arguments: a tuple; both are borrowed.
  PythonFront(PyObject* function, bool generator, PyObject* arguments);

  engine::Outcome resume(engine::Thread& thread) override;
  void begin_block(engine::Block& block) override;
  void shuffle(engine::Warp& warp, uint32_t lanes) override;
  engine::Location locate(engine::Site site) override;
  void warn(const engine::Finding& finding) override;

  // Ends a thread that has not exited. No exception is set afterwards.
  static void abandon(engine::Thread& thread);

 private:
  PyObject* call() const;

  PyObject* function_;
  bool generator_;
  PyObject* arguments_;
};

}  // namespace trifold::simulator
