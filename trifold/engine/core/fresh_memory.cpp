#include "fresh_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

namespace trifold::engine {
namespace {

constexpr size_t word_bytes = sizeof(uint64_t);

// Shorter runs of the pattern may have been written with just these values; see the header.
constexpr size_t fewest_bytes = 4;

// Word number i of the pattern: four times 0x7FF0 to 0x7FFE.
uint64_t pattern(size_t word) {
  constexpr uint64_t quiet_nans = 0x7FF0'7FF0'7FF0'7FF0, three_bits = 0x0007'0007'0007'0007;
  uint64_t random = (word + 1) * 0x9E37'79B9'7F4A'7C15;  // Steele, Lea, Flood: SplitMix, OOPSLA 2014
  random = (random ^ random >> 30) * 0xBF58'476D'1CE4'E5B9;
  return quiet_nans + (random & three_bits) + (random >> 8 & three_bits);
}

// The elements of a part that still hold the pattern. Elements begin at multiples of their size.
std::vector<ByteRange> parts_with_pattern(uintptr_t memory, ByteRange part, size_t element_bytes) {
  std::vector<ByteRange> found;
  const auto add = [&](uintptr_t begin, uintptr_t end) {
    begin = std::max(begin, part.begin);
    end = std::min(end, part.end);
    if (begin >= end) return;
    if (!found.empty() && found.back().end == begin) {
      found.back().end = end;
    } else {
      found.push_back({begin, end});
    }
  };
  const uint64_t whole_element = ~uint64_t{0} >> 8 * (word_bytes - element_bytes);
  for (size_t number = (part.begin - memory) / word_bytes; memory + number * word_bytes < part.end; ++number) {
    const uintptr_t word = memory + number * word_bytes;
    const uintptr_t first = std::max(word, part.begin), last = std::min(word + word_bytes, part.end);
    const uint64_t expected = pattern(number);
    uint64_t held = expected;  // bytes outside the part do not count
    std::memcpy(reinterpret_cast<char*>(&held) + (first - word), reinterpret_cast<const char*>(first), last - first);
    const uint64_t changed = held ^ expected;
    if (changed == 0) {
      add(word, word + word_bytes);
      continue;
    }
    for (size_t at = 0; at < word_bytes; at += element_bytes)
      if ((changed >> 8 * at & whole_element) == 0) add(word + at, word + at + element_bytes);
  }
  std::erase_if(found, [&](ByteRange run) { return run.end - run.begin < fewest_bytes && run != part; });
  return found;
}

}  // namespace

template <typename Parts>
void FreshMemory::replace(uintptr_t begin, uintptr_t end, Parts&& parts) {
  auto at = memory_.upper_bound(begin);
  if (at != memory_.begin() && std::prev(at)->second.end > begin) --at;
  while (at != memory_.end() && at->first < end) {
    std::vector<ByteRange> left;
    const auto keep = [&left](ByteRange range) {
      if (range.begin < range.end) left.push_back(range);
    };
    for (const ByteRange part : at->second.left) {
      const ByteRange within{std::clamp(part.begin, begin, end), std::clamp(part.end, begin, end)};
      if (within.begin == within.end) {
        keep(part);
        continue;
      }
      keep({part.begin, within.begin});
      std::ranges::copy(parts(at->first, at->second, within), std::back_inserter(left));
      keep({within.end, part.end});
    }
    at->second.left = std::move(left);
    at = at->second.left.empty() ? memory_.erase(at) : std::next(at);
  }
}

void FreshMemory::add(uintptr_t begin, size_t size, size_t element_bytes) {
  const uintptr_t end = begin + size;
  if (size == 0) return;
  auto before = memory_.upper_bound(begin);
  if (before != memory_.begin() && std::prev(before)->second.end > begin) --before;
  while (before != memory_.end() && before->first < end) before = memory_.erase(before);
  for (size_t offset = 0; offset < size; offset += word_bytes) {
    const uint64_t word = pattern(offset / word_bytes);
    std::memcpy(reinterpret_cast<char*>(begin + offset), &word, std::min(word_bytes, size - offset));
  }
  memory_.emplace(begin, Memory{end, std::bit_floor(std::clamp<size_t>(element_bytes, 1, word_bytes)), {{begin, end}}});
}

std::vector<ByteRange> FreshMemory::unwritten(uintptr_t begin, uintptr_t end) {
  std::vector<ByteRange> all;
  replace(begin, end, [&](uintptr_t memory, const Memory& of, ByteRange part) {
    const std::vector<ByteRange> parts = parts_with_pattern(memory, part, of.element_bytes);
    std::ranges::copy(parts, std::back_inserter(all));
    return parts;
  });
  return all;
}

void FreshMemory::note_launch(const Buffer& buffer) {
  replace(buffer.begin(), buffer.begin() + buffer.size(),
          [&](uintptr_t, const Memory&, ByteRange part) { return buffer.unwritten(part); });
}

}  // namespace trifold::engine
