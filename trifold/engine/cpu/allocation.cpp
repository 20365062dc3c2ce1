// What is known of an allocation: its written bytes, and its description.
#include <algorithm>
#include <iterator>
#include <string>

#include "device_memory.h"
#include "program_report.h"

namespace trifold::cpu {

void ByteSet::add(size_t begin, size_t end) {
  if (begin >= end) return;
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.begin() && std::prev(next)->second >= begin) {
    --next;
    begin = next->first;
  }
  while (next != ranges_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = ranges_.erase(next);
  }
  ranges_[begin] = end;
}

size_t ByteSet::first_missing(size_t begin, size_t end) const {
  const auto after = ranges_.upper_bound(begin);
  if (begin >= end || after == ranges_.begin()) return begin;
  return std::clamp(std::prev(after)->second, begin, end);
}

bool ByteSet::holds(size_t begin, size_t end) const {
  return first_missing(begin, end) == end;
}

std::string Allocation::description() const {
  const std::string name = variable();
  const char* const kinds[] = {"of the device", "of managed memory", "of pinned memory", "of the kernels' heap"};
  std::string text = (name.empty() ? "" : name + ", ") + std::to_string(bytes) + " bytes " +
                     kinds[static_cast<int>(kind)] + " made at " + place(made);
  if (!live) text += " and freed at " + place(freed);
  return text;
}

}  // namespace trifold::cpu
