#include "module.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

namespace trifold::host {
namespace {

// "tile" of "reduce_kernel<float>(float const*, long)::tile".
std::string own_name(const char* symbol) {
  int status = 0;
  char* const demangled = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string name(status == 0 ? demangled : symbol);
  free(demangled);
  const size_t scope = name.rfind("::");
  return scope == name.npos ? name : name.substr(scope + 2);
}

// The names that a kernel's source does not give to its variables.
bool of_a_library(std::string_view symbol) {
  for (const std::string_view name : {"threadIdx", "blockIdx", "blockDim", "gridDim", "trifold_extern_shared"})
    if (symbol == name) return true;
  // Namespaces, guards of initialisation, tables of classes.
  for (const std::string_view start :
       {"_ZN7trifold", "_ZN5torch", "_ZN3c10", "_ZNSt", "_ZSt", "_ZN9__gnu_cxx", "_ZGV", "_ZT", "DW.ref."})
    if (symbol.starts_with(start)) return true;
  return false;
}

// Reads a library's table of symbols.
struct SymbolTable {
  std::vector<char> bytes;
  std::vector<ThreadVariable> thread_variables;
  std::vector<GlobalVariable> globals;  // as offsets from where the library is loaded
  std::vector<Range> others;            // likewise: objects beside these in sections for variables
  std::vector<Range> sections;          // likewise: those sections

  explicit SymbolTable(const char* path) {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
    if (bytes.size() < sizeof(ElfW(Ehdr))) return;
    const auto& header = *reinterpret_cast<const ElfW(Ehdr)*>(bytes.data());
    const auto* const headers = reinterpret_cast<const ElfW(Shdr)*>(bytes.data() + header.e_shoff);
    const char* const section_names = bytes.data() + headers[header.e_shstrndx].sh_offset;
    std::vector<bool> of_variables;
    for (int i = 0; i < header.e_shnum; ++i) {
      const std::string_view name = section_names + headers[i].sh_name;
      of_variables.push_back(name == ".data" || name == ".bss");
    }
    for (int i = 0; i < header.e_shnum; ++i) {
      if (headers[i].sh_type != SHT_SYMTAB) continue;
      const auto* const symbols = reinterpret_cast<const ElfW(Sym)*>(bytes.data() + headers[i].sh_offset);
      const char* const names = bytes.data() + headers[headers[i].sh_link].sh_offset;
      for (size_t k = 0; k < headers[i].sh_size / sizeof *symbols; ++k) {
        const auto& symbol = symbols[k];
        if (symbol.st_size == 0 || symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= header.e_shnum) continue;
        add(names + symbol.st_name, symbol, of_variables[symbol.st_shndx]);
      }
      for (int k = 0; k < header.e_shnum; ++k)
        if (of_variables[static_cast<size_t>(k)])
          sections.push_back({headers[k].sh_addr, headers[k].sh_addr + headers[k].sh_size});
    }
  }

 private:
  void add(const char* name, const ElfW(Sym) & symbol, bool in_section_of_variables) {
    const bool local = std::string_view(name).starts_with("_ZZ");
    const Range place{symbol.st_value, symbol.st_value + symbol.st_size};
    if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS) {
      const bool shared = !of_a_library(name);
      thread_variables.push_back({shared ? own_name(name) : name, shared, symbol.st_value, symbol.st_size});
    } else if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && in_section_of_variables) {
      if (local || of_a_library(name)) {
        others.push_back(place);
      } else {
        globals.push_back({own_name(name), place});
      }
    }
  }
};

struct Search {
  uintptr_t base;
  std::vector<Range>* segments;
};

std::vector<Range> segments_at(uintptr_t base) {
  std::vector<Range> segments;
  Search search{base, &segments};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        const auto& wanted = *static_cast<Search*>(context);
        if (info->dlpi_addr != wanted.base) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
          if (part.p_type == PT_LOAD) wanted.segments->push_back({begin, begin + part.p_memsz});
        }
        return 1;
      },
      &search);
  return segments;
}

// The parts of the segments outside the sections, in which only the variables' own memory may be accessed.
std::vector<Range> without(std::vector<Range> segments, const std::vector<Range>& sections) {
  for (const Range& hole : sections) {
    std::vector<Range> rest;
    for (const Range& whole : segments) {
      if (const Range before{whole.begin, std::min(whole.end, hole.begin)}; before.begin < before.end)
        rest.push_back(before);
      if (const Range after{std::max(whole.begin, hole.end), whole.end}; after.begin < after.end) rest.push_back(after);
    }
    segments = rest;
  }
  return segments;
}

// Ranges that no variable lies between become one: each access of memory looks for its range.
std::vector<Range> merged(std::vector<Range> others, const std::vector<GlobalVariable>& globals) {
  std::ranges::sort(others, {}, &Range::begin);
  std::vector<Range> made;
  for (const Range& other : others) {
    const auto between = [&](const GlobalVariable& global) {
      return global.place.begin >= made.back().begin && global.place.begin < other.begin;
    };
    if (made.empty() || std::ranges::any_of(globals, between)) {
      made.push_back(other);
    } else {
      made.back().end = std::max(made.back().end, other.end);
    }
  }
  return made;
}

Module read_module(const char* path, uintptr_t base) {
  SymbolTable table(path);
  const auto loaded = [&](Range range) { return Range{range.begin + base, range.end + base}; };
  Module module{std::move(table.thread_variables), {}, {}};
  for (Range& section : table.sections) section = loaded(section);
  module.others = without(segments_at(base), table.sections);
  for (const Range& other : table.others) module.others.push_back(loaded(other));
  for (GlobalVariable& global : table.globals) module.globals.push_back({global.name, loaded(global.place)});
  module.others = merged(module.others, module.globals);
  return module;
}

}  // namespace

const Module& module_of(const void* function) {
  static std::map<const void*, Module> modules;  // by where they are loaded; asked under the launch's lock
  Dl_info info{};
  dladdr(function, &info);
  const auto [place, fresh] = modules.try_emplace(info.dli_fbase);
  if (fresh && info.dli_fname != nullptr)
    place->second = read_module(info.dli_fname, reinterpret_cast<uintptr_t>(info.dli_fbase));
  return place->second;
}

}  // namespace trifold::host
