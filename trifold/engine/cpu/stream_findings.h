// Findings about the order of streams.
#pragma once

#include "../core/finding.h"
#include "stream_accesses.h"

namespace trifold::cpu {

// Reports that nothing orders an operation after an earlier one. `at`: the line of an access by the host.
void report_conflict(const KeptOperation& later, const KeptOperation& earlier, const Conflict& conflict,
                     const engine::Location& at);

}  // namespace trifold::cpu
