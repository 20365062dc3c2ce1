// From a finding of the engine to what Python sees: trifold.findings.Finding, KernelFault, KernelWarning.
#pragma once

#include <Python.h>

#include "../core/finding.h"
#include "sites.h"

namespace trifold::simulator {

// A thread of the launch and where it is, as an Access.
engine::Access access_of(const engine::Thread& thread, std::string operation, Site site);
// The place of a site, with its line of source from linecache.
engine::Location locate(Site site);

// A trifold.findings.Finding; new reference, null with an exception.
PyObject* to_python(const engine::Finding& finding);

// Whether the launch goes on after a finding of the running thread at these sites, which is counted then; else it is
// raised.
bool goes_on(const engine::Finding& finding, Site site, Site other_site = 0);

// Sets KernelFault, or OutOfBounds where an index is outside an array.
void raise_fault(const engine::Finding& finding);
// A warning or a lint: recorded in trifold.findings and, but for lints, issued as a KernelWarning. -1 with an exception
// where warnings are errors.
int record(const engine::Finding& finding);

}  // namespace trifold::simulator
