#include "sites.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string_view>
#include <tuple>

#include "../core/per_thread.h"
#include "earlier_grid.h"
#include "front.h"

extern char** environ;

namespace trifold::cpu {
namespace {

// An open-addressing hash table per OS thread, so that lookups take no lock.
class Places {
 public:
  engine::Site intern(Place place) {
    const size_t all = reinterpret_cast<uintptr_t>(place.pointer) * 31 + static_cast<size_t>(place.line) +
                       size_t{place.calls} * 0x10001;
    size_t slot = all * 0x9e3779b97f4a7c15u >> (64 - slot_bits);
    for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1))
      if (places_[slots_[slot]] == place) return slots_[slot];
    if (places_.size() > slots_.size() / 2) return 0;  // more lines than any kernel has: unknown
    if (places_.empty()) places_.emplace_back();
    places_.push_back(place);
    return slots_[slot] = static_cast<engine::Site>(places_.size() - 1);
  }

  // Returns whether it has done so.
  bool forget_many() {
    if (places_.size() < slots_.size() / 4) return false;
    places_.clear();
    slots_.assign(slots_.size(), 0);
    return true;
  }

  Place operator[](engine::Site site) const { return site < places_.size() ? places_[site] : Place{}; }

 private:
  static constexpr int slot_bits = 14;
  // On the heap: this library's static thread storage, which is set aside when a thread starts, is limited.
  std::vector<engine::Site> slots_ = std::vector<engine::Site>(size_t{1} << slot_bits);
  std::vector<Place> places_;
};

thread_local Places places;

// The calls that led to operations, by number; 0: unknown.
class CallsOfThread {
 public:
  uint32_t number_of(const Calls& calls) {
    if (last_ != 0 && all_[last_] == calls) return last_;
    if (all_.size() > most) return 0;
    const auto [place, fresh] = numbers_.try_emplace(calls, static_cast<uint32_t>(all_.size()));
    if (fresh) all_.push_back(calls);
    return last_ = place->second;
  }
  const Calls& operator[](uint32_t number) const { return all_[number]; }
  void forget() {
    numbers_.clear();
    all_.resize(1);
    last_ = 0;
  }

 private:
  static constexpr size_t most = 4096;
  std::map<Calls, uint32_t> numbers_;
  std::vector<Calls> all_{1};
  uint32_t last_ = 0;
};

thread_local engine::PerThread<CallsOfThread> calls_of_operations;

// A program's standard output; empty if it cannot be run.
std::string output_of(std::vector<std::string> words) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t process = 0;
  const int failed = posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t n = 0; failed == 0 && (n = read(ends[0], part, sizeof part)) > 0;)
    text.append(part, static_cast<size_t>(n));
  close(ends[0]);
  if (failed == 0) waitpid(process, nullptr, 0);
  return text;
}

std::string whole_line(const std::string& file, int number) {
  std::ifstream stream(file);
  std::string line;
  for (int at = 0; at < number; ++at)
    if (!std::getline(stream, line)) return "";
  return line;
}

std::string line_of(const std::string& file, int number) {
  const std::string line = whole_line(file, number);
  const size_t first = line.find_first_not_of(" \t"), last = line.find_last_not_of(" \t\r");
  return first == line.npos ? "" : line.substr(first, last - first + 1);
}

// The position of the opening bracket for this closing one; npos: not in this line.
size_t opening_of(std::string_view text, size_t closing) {
  int depth = 0;
  for (size_t at = closing + 1; at-- > 0;) {
    depth += text[at] == ']' ? 1 : text[at] == '[' ? -1 : 0;
    if (depth == 0) return at;
  }
  return text.npos;
}

// The position of the closing bracket for this opening one; the text's end: not in this line.
size_t closing_of(std::string_view text, size_t bracket) {
  int depth = 0;
  for (size_t at = bracket; at < text.size(); ++at) {
    depth += text[at] == '[' ? 1 : text[at] == ']' ? -1 : 0;
    if (depth == 0) return at;
  }
  return text.size();
}

// The beginning of the name that ends here, including its subscripts, members and arrows.
size_t beginning(std::string_view text, size_t end) {
  while (end > 0) {
    const char c = text[end - 1];
    const bool arrow = end > 1 && text.substr(end - 2, 2) == "->";
    if (c == ']') {
      const size_t bracket = opening_of(text, end - 1);
      if (bracket == text.npos) break;
      end = bracket;
    } else if (isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.') {
      --end;
    } else if (arrow) {
      end -= 2;
    } else {
      break;
    }
  }
  return end;
}

// Whether a file is a part of trifold's replacement of CUDA, without the device library, whose lines may be wrong.
bool of_the_dialect(std::string_view file) {
  constexpr std::string_view folder = "/include/trifold/";
  const size_t at = file.rfind(folder);
  if (at == file.npos) return false;
  const std::string_view header = file.substr(at + folder.size());
  const bool of_device_library = header.find('/') == header.npos && header.ends_with(".cuh");
  constexpr std::string_view of_instructions[] = {"cuda.cuh", "launch.cuh", "packed.cuh", "async_copies.cuh",
                                                  "cluster.cuh"};
  return !of_device_library || std::ranges::count(of_instructions, header) != 0;
}

using Frames = std::vector<engine::Location>;

// The frames at each of these addresses of one library, in order.
std::vector<Frames> ask_for_frames(const std::vector<const void*>& addresses) {
  std::vector<Frames> all(addresses.size());
  Dl_info module;
  if (dladdr(addresses.front(), &module) == 0 || module.dli_fname == nullptr) return all;
  std::vector<std::string> words{"addr2line", "-C", "-a", "-i", "-f", "-e", module.dli_fname};
  for (const void* const address : addresses) {
    char offset[32];
    snprintf(offset, sizeof offset, "0x%zx",
             reinterpret_cast<size_t>(address) - reinterpret_cast<size_t>(module.dli_fbase));
    words.emplace_back(offset);
  }
  std::istringstream lines(output_of(std::move(words)));
  size_t begun = 0;
  for (std::string function, place; std::getline(lines, function);) {
    if (function.starts_with("0x")) {  // the next address
      ++begun;
      continue;
    }
    if (begun == 0 || begun > all.size() || !std::getline(lines, place)) break;
    place.resize(std::min(place.find(" ("), place.size()));
    const size_t colon = place.rfind(':');
    const int line = atoi(place.c_str() + colon + 1);
    all[begun - 1].push_back({place.substr(0, colon), line, short_name(function), "", {}});
  }
  return all;
}

// The frames at some addresses of one library, one address after the other, the innermost frame first. addr2line reads
// all debug information of a library, which takes 0.1 s for a large one: addresses are looked up together, and once.
Frames frames_at(const std::vector<const void*>& addresses) {
  static std::mutex mutex;
  static std::map<const void*, Frames> known;
  const std::lock_guard<std::mutex> locked(mutex);
  std::vector<const void*> fresh;
  for (const void* const address : addresses)
    if (!known.contains(address)) fresh.push_back(address);
  if (!fresh.empty()) {
    std::vector<Frames> asked = ask_for_frames(fresh);
    for (size_t i = 0; i < fresh.size(); ++i) known.insert_or_assign(fresh[i], std::move(asked[i]));
  }
  Frames frames;
  for (const void* const address : addresses) {
    const Frames& there = known[address];
    frames.insert(frames.end(), there.begin(), there.end());
  }
  return frames;
}

// "add_kernel" of "ops::add_kernel<float>".
std::string_view unqualified(std::string_view kernel) {
  kernel = kernel.substr(0, kernel.find('<'));
  const size_t scope = kernel.rfind("::");
  return scope == kernel.npos ? kernel : kernel.substr(scope + 2);
}

// The frames in the kernel's source, the innermost first and the kernel's own last, each on another line than the
// previous.
Frames frames_of_source(const std::vector<const void*>& return_addresses) {
  std::vector<const void*> calls;  // a call's own instruction is before its return address
  for (const void* const behind : return_addresses) calls.push_back(static_cast<const char*>(behind) - 1);
  Frames frames;
  for (engine::Location& frame : frames_at(calls)) {
    if (frame.line == 0 || of_the_dialect(frame.file)) continue;
    if (!frames.empty() && frames.back().is_same_line(frame)) continue;
    frame.source = line_of(frame.file, frame.line);
    frames.push_back(std::move(frame));
  }
  if (turn == nullptr) return frames;
  const std::string_view kernel = unqualified(turn->kernel.name);
  const auto last =
      std::find_if(frames.rbegin(), frames.rend(), [&](const auto& one) { return one.function == kernel; });
  if (last != frames.rend()) frames.erase(last.base(), frames.end());  // the code that launches it
  return frames;
}

}  // namespace

void begin_sites() {
  if (earlier_of_running() != nullptr) return;  // its lines may still be needed
  if (places.forget_many()) calls_of_operations->forget();
}

engine::Site site_of_line(Line line) {
  return places.intern({line.file, line.line});
}

engine::Site site_of_address(const void* return_address) {
  return places.intern({return_address, 0});
}

engine::Site site_of_call(Line line, const Calls& calls) {
  return places.intern({line.file, line.line, calls_of_operations->number_of(calls)});
}

Place place_of(engine::Site site) {
  return places[site];
}

engine::Location location_of(engine::Site site) {
  const Place place = places[site];
  engine::Location at;
  Frames callers;
  if (place.line == 0) {
    callers = frames_of_source({place.pointer});
    if (callers.empty()) return {};
    at = std::move(callers.front());
    callers.erase(callers.begin());
  } else {
    const std::string file(static_cast<const char*>(place.pointer));
    at = {file, place.line, "", line_of(file, place.line), {}};
    if (place.calls == 0) return at;
    std::vector<const void*> addresses;
    for (const void* const address : (*calls_of_operations)[place.calls])
      if (address != nullptr) addresses.push_back(address);
    callers = frames_of_source(addresses);
    if (!of_the_dialect(file) && !callers.empty()) callers.erase(callers.begin());
  }
  at.callers = std::move(callers);
  return at;
}

namespace {

thread_local Line launched_at{nullptr, 0};

}  // namespace

void note_launch(Line line) {
  launched_at = line;
}

engine::Location location_or_launch(engine::Site site) {
  engine::Location at = location_of(site);
  if (!at.file.empty() || launched_at.file == nullptr) return at;
  const std::string file(launched_at.file);
  return {file, launched_at.line, "", line_of(file, launched_at.line), {}};
}

std::string short_name(std::string name) {
  // Skips template arguments, which may contain brackets: "kernel<(Mode)1>(float*)".
  int depth = 0;
  size_t end = 0;
  for (; end < name.size() && (name[end] != '(' || depth > 0); ++end)
    depth += name[end] == '<' ? 1 : name[end] == '>' ? -1 : 0;
  if (end == name.size()) end = name.find('(');  // of an operator<
  if (end == name.npos || end == 0) return name;
  depth = 0;
  if (name[end - 1] == '>') {
    do {
      --end;
      depth += name[end] == '>' ? 1 : name[end] == '<' ? -1 : 0;
    } while (depth != 0 && end > 0);
  }
  name.resize(end);
  name.erase(0, name.find_last_of(" :") + 1);
  return name == "operator" ? "operator()" : name;  // of a lambda
}

IndexedArray array_indexed_at(const char* file, int line, int column) {
  const std::string text = whole_line(file, line);
  const auto at = static_cast<size_t>(column - 1);
  if (column < 1 || at >= text.size()) return {};
  // g++ reports the column of the closing bracket, and in a template that of the opening one.
  const size_t bracket = text[at] == ']' ? opening_of(text, at) : at;
  if (bracket == text.npos || text[bracket] != '[') return {};
  const size_t closing = text[at] == ']' ? at : closing_of(text, bracket);
  const size_t first = beginning(text, bracket);
  size_t behind = closing + 1;  // the element's subscripts and members
  while (behind < text.size() && (text[behind] == '[' || text[behind] == '.')) {
    const bool subscript = text[behind] == '[';
    behind = (subscript ? closing_of(text, behind) : behind) + 1;
    while (!subscript && behind < text.size() &&
           (isalnum(static_cast<unsigned char>(text[behind])) || text[behind] == '_'))
      ++behind;
  }
  behind = std::min(text.find_first_not_of(" \t", behind), text.size());
  const std::string_view next = std::string_view(text).substr(behind);
  return {text.substr(first, bracket - first), next.starts_with('=') && !next.starts_with("==")};
}

namespace {

std::vector<std::string> read_parameter_names(const void* function, std::string_view name) {
  const Frames frames = frames_at({function});
  if (frames.empty() || frames.back().line == 0) return {};
  std::ifstream stream(frames.back().file);
  std::string line, text;
  for (int at = 1; std::getline(stream, line); ++at)
    if (at + 2 >= frames.back().line) text += line + '\n';
  const std::string_view qualified = name.substr(0, name.find('<'));
  const size_t scope = qualified.rfind("::");
  size_t at = text.find(std::string(qualified.substr(scope == name.npos ? 0 : scope + 2)) + '(');
  if (at == text.npos) return {};
  at = text.find('(', at) + 1;
  std::vector<std::string> names(1);
  for (int depth = 0; at < text.size() && (text[at] != ')' || depth > 0); ++at) {
    const char c = text[at];
    depth += c == '<' || c == '(' ? 1 : c == '>' || c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      names.emplace_back();
    } else if (isalnum(c) || c == '_') {
      names.back() += c;
    } else {
      names.back().clear();  // the last word is the name
      continue;
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> parameter_names(const void* function, std::string_view name, int count) {
  // All instances of a template have the same names, and each lookup runs addr2line, so they share one. Functions that
  // are not instances may have the same name in several files.
  static std::mutex mutex;
  static std::map<std::tuple<const void*, std::string, int>, std::vector<std::string>> known;
  const size_t arguments = name.find('<');
  Dl_info module;
  if (arguments == name.npos || dladdr(function, &module) == 0) return read_parameter_names(function, name);
  const std::lock_guard<std::mutex> locked(mutex);
  const auto [kept, fresh] = known.try_emplace({module.dli_fbase, std::string(name.substr(0, arguments)), count});
  if (fresh) kept->second = read_parameter_names(function, name);
  return kept->second;
}

}  // namespace trifold::cpu
