// Converts the engine's findings to Python's: trifold.findings.Finding, KernelFault, KernelWarning.
#pragma once

#include <Python.h>

#include "../core/finding.h"
#include "sites.h"

namespace trifold::simulator {

// A thread of the launch and its location, as an Access.
engine::Access access_of(const engine::Thread& thread, std::string operation, Site site);
// The location of a site, with its source line from linecache.
engine::Location locate(Site site);

// A trifold.findings.Finding; new reference, null with an exception.
PyObject* to_python(const engine::Finding& finding);

// Whether the launch continues after a finding of the running thread at these sites, which is then counted; otherwise
// it is raised.
bool goes_on(const engine::Finding& finding, Site site, Site other_site = 0);

// Sets KernelFault, or OutOfBounds if an index is outside an array.
void raise_fault(const engine::Finding& finding);
// A warning or a lint: recorded in trifold.findings and, except for lints, issued as a KernelWarning. -1 with an
// exception if warnings are errors.
int record(const engine::Finding& finding);

}  // namespace trifold::simulator
