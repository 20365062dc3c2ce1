#include "tolerance.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace trifold::engine {
namespace {

// * matches any characters, ? one. Brackets are literal, since names of arrays and templates contain them.
bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = pattern.npos, resumed = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resumed = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++resumed;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

bool matches_or_any(const std::string& pattern, std::string_view text) {
  return pattern.empty() || matches(pattern, text);
}

// "blur" and "blur<*>" both match the kernel "blur<float>".
bool matches_kernel(const std::string& pattern, std::string_view kernel) {
  return matches_or_any(pattern, kernel) || matches(pattern, kernel.substr(0, kernel.find('<')));
}

// A relative path matches the end of a path.
bool matches_file(const std::string& pattern, std::string_view file) {
  return matches_or_any(pattern, file) || matches("*/" + pattern, file);
}

// The compiler may have found the file by another path.
bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code none;
  return a == b || std::filesystem::equivalent(a, b, none);
}

// A kind of finding, or races between writes only.
bool is_of(std::string_view kind, const Finding& finding) {
  if (kind != "race of writes") return kind == name(finding.kind);
  return finding.kind == Kind::race && std::ranges::all_of(finding.accesses, [](const Access& access) {
           return access.operation == "write" || access.operation == launched;
         });
}

bool accepts(const Acceptance& acceptance, const Finding& finding) {
  if (!is_of(acceptance.kind, finding)) return false;
  if (!matches_kernel(acceptance.kernel, finding.kernel) || !matches_or_any(acceptance.array, finding.array))
    return false;
  if (acceptance.line == 0 && acceptance.file.empty()) return true;
  const auto is_there = [&](const Location& at) {
    if (acceptance.line == 0) return matches_file(acceptance.file, at.file);
    return at.line == acceptance.line && is_same_file(at.file, acceptance.file);
  };
  return std::ranges::any_of(finding.accesses, [&](const Access& access) {
    return is_there(access.location) || std::ranges::any_of(access.location.callers, is_there);
  });
}

// Whether two findings count as one: of the same kind, array and lines, and both accepted or of the same severity.
bool is_same(const Finding& a, const Finding& b) {
  const bool accepted = !a.accepted.empty() && !b.accepted.empty();
  return a.kind == b.kind && a.array == b.array && (accepted || a.severity == b.severity) &&
         std::ranges::equal(a.accesses, b.accesses, [](const Access& one, const Access& other) {
           return one.location.line == other.location.line && one.location.file == other.location.file;
         });
}

// Removes and returns the text up to the next delimiter.
std::string_view take_until(std::string_view& text, char delimiter) {
  const size_t end = std::min(text.find(delimiter), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

}  // namespace

void Policy::accept(std::string_view lines) {
  acceptances_.clear();
  while (!lines.empty()) {
    std::string_view line = take_until(lines, '\n');
    std::array<std::string, 7> fields;
    for (std::string& field : fields) field = take_until(line, '\t');
    auto& [kind, kernel, file, array, number, place, reason] = fields;
    acceptances_.push_back({kind, kernel, file, array, atoi(number.c_str()), place, reason});
  }
}

const Acceptance* Policy::accepting(const Finding& finding) const {
  const auto found = std::ranges::find_if(acceptances_, [&](const Acceptance& one) { return accepts(one, finding); });
  return found == acceptances_.end() ? nullptr : &*found;
}

bool Tally::count_again(const Place& place) {
  const auto known = numbers_.find(place);
  if (known == numbers_.end()) return false;
  ++findings_[known->second].count;
  return true;
}

bool Tally::goes_on(const Place& place, Finding finding) {
  if (count_again(place)) return true;
  if (!is_accepted(finding) && !policy_.keep_going) return false;
  const auto same = std::ranges::find_if(findings_, [&](const Finding& other) { return is_same(other, finding); });
  numbers_.emplace(place, static_cast<size_t>(same - findings_.begin()));
  if (same != findings_.end()) {
    ++same->count;
  } else {
    findings_.push_back(std::move(finding));
  }
  return true;
}

bool Tally::accepts(Finding finding) {
  if (!is_accepted(finding)) return false;
  findings_.push_back(std::move(finding));
  return true;
}

// An accepted finding says by what.
bool Tally::is_accepted(Finding& finding) const {
  const Acceptance* const acceptance = policy_.accepting(finding);
  if (acceptance == nullptr) return false;
  finding.accepted = acceptance->reason;
  finding.accepted_at = acceptance->place;
  return true;
}

}  // namespace trifold::engine
