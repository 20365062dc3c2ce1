#include "fresh_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace trifold::engine {
namespace {

constexpr size_t word_bytes = sizeof(uint64_t);

// Fewer bytes that hold the pattern may have been written with just these; see the header.
constexpr size_t fewest_bytes = 4;

// The pattern's word of this number: four times 0x7FF0 to 0x7FFE.
uint64_t pattern(size_t word) {
  constexpr uint64_t quiet_nans = 0x7FF0'7FF0'7FF0'7FF0, three_bits = 0x0007'0007'0007'0007;
  uint64_t random = (word + 1) * 0x9E37'79B9'7F4A'7C15;  // Steele, Lea, Flood: SplitMix, OOPSLA 2014
  random = (random ^ random >> 30) * 0xBF58'476D'1CE4'E5B9;
  return quiet_nans + (random & three_bits) + (random >> 8 & three_bits);
}

// Whether n bytes at an offset of the memory that begins here hold the pattern.
bool holds_pattern(uintptr_t memory, size_t offset, size_t n) {
  for (size_t end = offset + n; offset < end;) {
    const size_t part = std::min(word_bytes - offset % word_bytes, end - offset);
    const uint64_t word = pattern(offset / word_bytes);
    const char* const expected = reinterpret_cast<const char*>(&word) + offset % word_bytes;
    if (std::memcmp(reinterpret_cast<const char*>(memory + offset), expected, part) != 0) return false;
    offset += part;
  }
  return true;
}

// What of a part holds the pattern, element by element.
std::vector<ByteRange> parts_with_pattern(uintptr_t memory, ByteRange part, size_t element_bytes) {
  std::vector<ByteRange> found;
  // Elements begin at multiples of their size; the part may begin or end within one.
  for (uintptr_t at = part.begin; at < part.end;) {
    const size_t n = std::min(element_bytes - (at - memory) % element_bytes, part.end - at);
    if (holds_pattern(memory, at - memory, n)) {
      if (!found.empty() && found.back().end == at) {
        found.back().end = at + n;
      } else {
        found.push_back({at, at + n});
      }
    }
    at += n;
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
  memory_.emplace(begin, Memory{end, std::clamp<size_t>(element_bytes, 1, word_bytes), {{begin, end}}});
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
