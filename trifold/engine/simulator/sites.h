// Where in the user's source something happened: a site is a line, numbered within a launch.
#pragma once

#include <Python.h>

#include <string>

#include "../core/model.h"

namespace trifold::simulator {

using engine::Site;

struct SiteLocation {
  std::string file;  // empty: unknown
  int line = 0;
  std::string function;
};

// The site of a statement that someone types at a debugger's prompt: its accesses are not the kernel's.
inline constexpr Site prompt_site = 0xFFFF;

// The site of the Python frame that runs; 0 where there is none or the launch's table is full.
Site current_site();
// The launch's site for a number that register_site gave out; 0 where it gave out none such.
Site registered_site(long number);
// The number under which the running frame's line is registered now, if it was not before; 0 where there is no frame.
int current_number();
SiteLocation describe(Site site);

// Forgets all sites that a launch met; registered ones keep their numbers.
void forget_sites();

int add_sites(PyObject* module);

}  // namespace trifold::simulator
