// Sites: lines of the user's source, numbered within a launch.
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

// The site of a statement typed at a debugger's prompt: its accesses are not the kernel's.
inline constexpr Site prompt_site = 0xFFFF;

// The site of the running Python frame; 0 if there is none or the launch's table is full.
Site current_site();
// The launch's site for a number returned by register_site; 0 for other numbers.
Site registered_site(long number);
// Registers the running frame's line, unless it already is, and returns its number; 0 if there is no frame.
int current_number();
SiteLocation describe(Site site);

// Forgets all sites of a launch; registered ones keep their numbers.
void forget_sites();

int add_sites(PyObject* module);

}  // namespace trifold::simulator
