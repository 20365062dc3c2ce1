#include "thread_ranges.h"

#include <algorithm>
#include <vector>

namespace trifold::engine {

namespace {

constexpr size_t pieces_shown = 6;

// first, first + step, …, last
struct Range {
  uint32_t first, last, step;

  bool operator==(const Range&) const = default;

  uint32_t count() const { return (last - first) / step + 1; }
  std::string text() const {
    if (first == last) return std::to_string(first);
    const std::string ends = std::to_string(first) + ".." + std::to_string(last);
    return step == 1 ? ends : ends + " step " + std::to_string(step);
  }
};

// Three or more numbers with a common distance are a range.
std::vector<Range> ranges(std::span<const uint32_t> numbers) {
  std::vector<Range> found;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    const uint32_t step = end < numbers.size() ? numbers[end] - numbers[i] : 1;
    while (end < numbers.size() && numbers[end] - numbers[end - 1] == step) ++end;
    if (end - i == 2 && step != 1) end = i + 1;
    found.push_back({numbers[i], numbers[end - 1], end - i == 1 ? 1 : step});
    i = end;
  }
  return found;
}

// A box of threads: rows of the same x, then planes of the same x and y, are merged.
struct Box {
  Range x, y, z;

  bool operator==(const Box&) const = default;
};

// Adds a box, or extends the last one if it is adjacent along this axis.
void add(std::vector<Box>& boxes, Range Box::* axis, const Box& next) {
  for (Box& box : boxes) {
    Box longer = box;
    (longer.*axis).last = (next.*axis).last;
    Box expected = next;
    (expected.*axis).first = (box.*axis).first;
    if ((box.*axis).last + 1 != (next.*axis).first || longer != expected) continue;
    box = longer;
    return;
  }
  boxes.push_back(next);
}

std::vector<Box> boxes_of(std::span<const uint32_t> indices, Dim3 block) {
  std::vector<Box> planes;
  for (size_t i = 0; i < indices.size();) {
    const uint32_t z = indices[i] / (block.x * block.y);
    std::vector<Box> rows;
    while (i < indices.size() && indices[i] / (block.x * block.y) == z) {
      const uint32_t row = indices[i] / block.x, y = row % block.y;
      std::vector<uint32_t> xs;
      for (; i < indices.size() && indices[i] / block.x == row; ++i) xs.push_back(indices[i] % block.x);
      for (const Range& x : ranges(xs)) add(rows, &Box::y, {x, {y, y, 1}, {z, z, 1}});
    }
    for (const Box& box : rows) add(planes, &Box::z, box);
  }
  return planes;
}

}  // namespace

std::string number_ranges(std::span<const uint32_t> numbers) {
  std::string text;
  for (const Range& range : ranges(numbers)) text += (text.empty() ? "" : ", ") + range.text();
  return text;
}

std::string thread_ranges(std::span<const uint32_t> indices, Dim3 block) {
  const std::vector<Box> boxes = boxes_of(indices, block);
  std::string text = indices.size() == 1 ? "thread " : "threads ";
  uint64_t shown = 0;
  for (size_t i = 0; i < std::min(boxes.size(), pieces_shown); ++i) {
    const auto& [x, y, z] = boxes[i];
    text += (i == 0 ? "(" : ", (") + x.text() + ", " + y.text() + ", " + z.text() + ")";
    shown += uint64_t{x.count()} * y.count() * z.count();
  }
  if (shown < indices.size()) text += " and " + std::to_string(indices.size() - shown) + " more";
  return text;
}

}  // namespace trifold::engine
