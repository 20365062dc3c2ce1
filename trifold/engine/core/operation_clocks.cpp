#include "operation_clocks.h"

#include <algorithm>

namespace trifold::engine {

std::string_view name(Instruction instruction) {
  constexpr std::string_view names[] = {
      "cp.async", "cp.async.bulk", "cp.reduce.async.bulk", "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor",
      "st.async", "red.async",     "memcpy_async"};
  return names[static_cast<int>(instruction)];
}

// The row after the last one, unless that may still be queried.
uint32_t OperationClocks::add(const Thread& issuer, Instruction instruction, Site site, Stamp now) {
  const OperationRow made{.thread = issuer.id,
                          .interval = issuer.block->interval,
                          .first = now,
                          .last = now,
                          .instruction = instruction,
                          .site = site};
  if (rows_.size() >= rows_kept) {
    const uint32_t row = next_;
    next_ = (next_ + 1) % rows_kept;
    const OperationRow& before = rows_[row];
    if (before.waited[writes_side] != 0 || before.complete_at != 0) {
      rows_[row] = made;
      return row;
    }
  }
  rows_.push_back(made);
  return static_cast<uint32_t>(rows_.size() - 1);
}

void OperationClocks::start_again(Stamp past) {
  known_.fill({});
  for (OperationRow& row : rows_) {
    row.first = row.last = past;
    row.complete_at = std::min(row.complete_at, past);
    for (Stamp& waited : row.waited) waited = std::min(waited, past);
  }
}

}  // namespace trifold::engine
