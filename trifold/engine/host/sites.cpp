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
#include <string_view>

extern char** environ;

namespace trifold::host {
namespace {

// Open addressing; an OS thread has its own, so that asking takes no lock.
class Places {
 public:
  engine::Site intern(Place place) {
    size_t slot =
        (reinterpret_cast<uintptr_t>(place.pointer) * 31 + static_cast<size_t>(place.line)) * 0x9e3779b97f4a7c15u >>
        (64 - slot_bits);
    for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1))
      if (places_[slots_[slot]] == place) return slots_[slot];
    if (places_.size() > slots_.size() / 2) return 0;  // more lines than any kernel has: unknown
    if (places_.empty()) places_.emplace_back();
    places_.push_back(place);
    return slots_[slot] = static_cast<engine::Site>(places_.size() - 1);
  }

  void forget_many() {
    if (places_.size() < slots_.size() / 4) return;
    places_.clear();
    slots_.assign(slots_.size(), 0);
  }

  Place operator[](engine::Site site) const { return site < places_.size() ? places_[site] : Place{}; }

 private:
  static constexpr int slot_bits = 14;
  // On the heap: this library's thread storage is of the little kind that is set aside when a thread starts.
  std::vector<engine::Site> slots_ = std::vector<engine::Site>(size_t{1} << slot_bits);
  std::vector<Place> places_;
};

thread_local Places places;

// What a program writes to its standard output; empty where it cannot be run.
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

// Where the bracket opens that closes here; npos: not in this line.
size_t opening_of(std::string_view text, size_t closing) {
  int depth = 0;
  for (size_t at = closing + 1; at-- > 0;) {
    depth += text[at] == ']' ? 1 : text[at] == '[' ? -1 : 0;
    if (depth == 0) return at;
  }
  return text.npos;
}

// Where the bracket closes that opens here; the text's end: not in this line.
size_t closing_of(std::string_view text, size_t bracket) {
  int depth = 0;
  for (size_t at = bracket; at < text.size(); ++at) {
    depth += text[at] == '[' ? 1 : text[at] == ']' ? -1 : 0;
    if (depth == 0) return at;
  }
  return text.size();
}

// Where the name begins that ends here, with the subscripts, members and arrows in it.
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

// What stands for CUDA's own: not the device library, whose lines may be what is wrong.
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

std::vector<engine::Location> ask_for_frames(const void* address) {
  Dl_info module;
  if (dladdr(address, &module) == 0 || module.dli_fname == nullptr) return {};
  char offset[32];
  snprintf(offset, sizeof offset, "0x%zx",
           reinterpret_cast<size_t>(address) - reinterpret_cast<size_t>(module.dli_fbase));
  const std::string text = output_of({"addr2line", "-C", "-i", "-f", "-e", module.dli_fname, offset});
  std::vector<engine::Location> frames;
  for (size_t at = 0; at < text.size();) {
    const size_t function_end = text.find('\n', at), end = text.find('\n', function_end + 1);
    if (end == text.npos) break;
    std::string place = text.substr(function_end + 1, end - function_end - 1);
    place.resize(std::min(place.find(" ("), place.size()));
    const size_t colon = place.rfind(':');
    const int line = atoi(place.c_str() + colon + 1);
    frames.push_back({place.substr(0, colon), line, short_name(text.substr(at, function_end - at)), ""});
    at = end + 1;
  }
  return frames;
}

// The frames at an address, the innermost first. addr2line reads all that a library says for debuggers, 0.1 s for a
// large one: an address is asked for once.
const std::vector<engine::Location>& frames_at(const void* address) {
  static std::mutex mutex;
  static std::map<const void*, std::vector<engine::Location>> known;
  const std::lock_guard<std::mutex> locked(mutex);
  const auto [place, fresh] = known.try_emplace(address);
  if (fresh) place->second = ask_for_frames(address);
  return place->second;
}

}  // namespace

void begin_sites() {
  places.forget_many();
}

engine::Site site_of_line(Line line) {
  return places.intern({line.file, line.line});
}

engine::Site site_of_address(const void* return_address) {
  return places.intern({return_address, 0});
}

Place place_of(engine::Site site) {
  return places[site];
}

engine::Location location_of(engine::Site site) {
  const Place place = places[site];
  if (place.line != 0) {
    const std::string file(static_cast<const char*>(place.pointer));
    return {file, place.line, "", line_of(file, place.line)};
  }
  // The call's own instruction lies before its return address.
  for (const engine::Location& frame : frames_at(static_cast<const char*>(place.pointer) - 1))
    if (frame.line != 0 && !of_the_dialect(frame.file))
      return {frame.file, frame.line, frame.function, line_of(frame.file, frame.line)};
  return {};
}

std::string short_name(std::string name) {
  // Not a bracket in the template's arguments: "kernel<(Mode)1>(float*)".
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
  return name.substr(name.find_last_of(" :") + 1);
}

IndexedArray array_indexed_at(const char* file, int line, int column) {
  const std::string text = whole_line(file, line);
  const auto at = static_cast<size_t>(column - 1);
  if (column < 1 || at >= text.size()) return {};
  // g++ points at the closing bracket, and in a template at the opening one.
  const size_t bracket = text[at] == ']' ? opening_of(text, at) : at;
  if (bracket == text.npos || text[bracket] != '[') return {};
  const size_t closing = text[at] == ']' ? at : closing_of(text, bracket);
  const size_t first = beginning(text, bracket);
  size_t behind = closing + 1;  // the element's own subscripts and members
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

std::vector<std::string> parameter_names(const void* function, std::string_view name) {
  const std::vector<engine::Location>& frames = frames_at(function);
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

}  // namespace trifold::host
