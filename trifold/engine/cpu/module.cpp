#include "module.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <trifold/cpu/program.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "../core/per_thread.h"
#include "sites.h"

namespace trifold::cpu {
namespace {

// "tile" and "reduce_kernel" of "reduce_kernel<float>(float const*, long)::tile".
struct Name {
  std::string own, scope;
};

std::string demangled(const char* symbol) {
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string name(status == 0 ? text : symbol);
  free(text);
  return name;
}

Name name_of(const char* symbol) {
  const std::string name = demangled(symbol);
  const size_t scope = name.rfind("::");
  if (scope == name.npos) return {name, ""};
  return {name.substr(scope + 2), short_name(name.substr(0, scope))};
}

// Names of variables that are not in a kernel's source.
bool of_a_library(std::string_view symbol) {
  for (const std::string_view name : {"threadIdx", "blockIdx", "blockDim", "gridDim", "trifold_extern_shared"})
    if (symbol == name) return true;
  // Names of namespaces, guards of initialisation, tables of classes.
  for (const std::string_view start :
       {"_ZN7trifold", "_ZN5torch", "_ZN3c10", "_ZNSt", "_ZSt", "_ZN9__gnu_cxx", "_ZGV", "_ZT", "DW.ref."})
    if (symbol.starts_with(start)) return true;
  return false;
}

// The beginning of the symbols of a function's local variables. Itanium C++ ABI, 5.1.5: a local name is "_ZZ", the
// function's encoding, "E", its own name.
std::string beginning_of_locals(const std::string& function) {
  const bool mangled = function.starts_with("_Z");
  return "_ZZ" + (mangled ? function.substr(2) : std::to_string(function.size()) + function) + "E";
}

void read_symbols(const char* path, Module& module) {
  // Variables that trifold/build/launch_bounds.py adds to kernels.
  constexpr std::string_view launch_bounds = "21trifold_launch_bounds", cluster_dims = "20trifold_cluster_dims";
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() < sizeof(ElfW(Ehdr))) return;
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(bytes.data());
  const auto* const sections = reinterpret_cast<const ElfW(Shdr)*>(bytes.data() + header->e_shoff);
  const char* const section_names = bytes.data() + sections[header->e_shstrndx].sh_offset;
  const auto section_of = [&](const ElfW(Sym) & symbol) -> std::string_view {
    return symbol.st_shndx < header->e_shnum ? section_names + sections[symbol.st_shndx].sh_name : "";
  };
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* const symbols = reinterpret_cast<const ElfW(Sym)*>(bytes.data() + sections[i].sh_offset);
    const char* const names = bytes.data() + sections[sections[i].sh_link].sh_offset;
    for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; ++k) {
      const auto& symbol = symbols[k];
      if (symbol.st_size == 0 || symbol.st_shndx == SHN_UNDEF) continue;
      const char* const name = names + symbol.st_name;
      const auto type = ELF64_ST_TYPE(symbol.st_info);
      const uintptr_t begin = module.base + symbol.st_value;
      if (type == STT_FUNC) module.functions.push_back({name, symbol.st_value});
      if (std::string_view(name) == "trifold_shared_arrays") {  // trifold/build/checked.py
        struct Row {
          const void* function;
          size_t bytes;
        };
        for (const auto* row = reinterpret_cast<const Row*>(begin); row->function != nullptr; ++row)
          module.shared_bytes.emplace(row->function, row->bytes);
      } else if (std::string_view(name).ends_with(launch_bounds) && type == STT_OBJECT) {
        const std::string_view local(name, strlen(name) - launch_bounds.size());
        module.launch_bounds.emplace(local, reinterpret_cast<const unsigned*>(begin));
      } else if (std::string_view(name).ends_with(cluster_dims) && type == STT_OBJECT) {
        const std::string_view local(name, strlen(name) - cluster_dims.size());
        module.cluster_dims.emplace(local, reinterpret_cast<const unsigned*>(begin));
      } else if (type == STT_OBJECT) {
        // The section that __constant__ selects (cpu/qualifiers.h).
        const bool constant = section_of(symbol).starts_with(".trifold_constant.");
        module.globals.push_back({name_of(name).own, {begin, begin + symbol.st_size}, constant});
      }
      if (type != STT_TLS) continue;
      const bool in_function = std::string_view(name).starts_with("_ZZ");
      auto [own, scope] = in_function ? name_of(name) : Name{name, ""};
      const bool shared = in_function || !of_a_library(name);
      module.thread_variables.push_back(
          {name, std::move(own), std::move(scope), shared, symbol.st_value, symbol.st_size});
    }
  }
  std::ranges::sort(module.globals, {}, [](const GlobalVariable& one) { return one.place.begin; });
}

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

}  // namespace

Range text_of(const void* function) {
  struct Wanted {
    uintptr_t address;
    Range found;
  };
  Wanted wanted{reinterpret_cast<uintptr_t>(function), {0, 0}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        auto& [address, found] = *static_cast<Wanted*>(context);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          const uintptr_t begin = info->dlpi_addr + part.p_vaddr, end = begin + part.p_memsz;
          if (part.p_type == PT_LOAD && address >= begin && address < end) found = {begin, end};
        }
        return found.end == 0 ? 0 : 1;
      },
      &wanted);
  return wanted.found;
}

const GlobalVariable* Module::global(std::string_view name) const {
  const auto found = std::ranges::find(globals, name, &GlobalVariable::name);
  return found == globals.end() ? nullptr : &*found;
}

const Module& module_of(const void* function) {
  static std::mutex mutex;
  static std::map<const void*, Module> modules;  // by the address at which they are loaded
  Dl_info info{};
  dladdr(function, &info);
  const std::lock_guard<std::mutex> locked(mutex);
  const auto [place, fresh] = modules.try_emplace(info.dli_fbase);
  Module& module = place->second;
  if (fresh && info.dli_fname != nullptr) {
    std::error_code unknown;
    module.path = std::filesystem::canonical(info.dli_fname, unknown).string();
    module.base = reinterpret_cast<uintptr_t>(info.dli_fbase);
    read_symbols(info.dli_fname, module);
    module.segments = segments_at(module.base);
  }
  return module;
}

const char* name_of_kernel(const void* kernel) {
  static std::mutex mutex;
  static std::map<const void*, std::string> names;
  const Module& module = module_of(kernel);
  const uintptr_t offset = reinterpret_cast<uintptr_t>(kernel) - module.base;
  const auto found = std::ranges::find(module.functions, offset, &Function::offset);
  const std::lock_guard<std::mutex> locked(mutex);
  std::string& name = names[kernel];
  if (name.empty()) name = found == module.functions.end() ? "a kernel" : short_name(demangled(found->symbol.c_str()));
  return name.c_str();
}

const Declared& declared_by(const void* function) {
  static thread_local engine::PerThread<std::map<const void*, Declared>> known;
  const auto [place, fresh] = known->try_emplace(function);
  Declared& declared = place->second;
  if (!fresh) return declared;
  const Module& module = module_of(function);
  const uintptr_t offset = reinterpret_cast<uintptr_t>(function) - module.base;
  const auto found = std::ranges::find(module.functions, offset, &Function::offset);
  const std::string local = found == module.functions.end() ? "" : beginning_of_locals(found->symbol);
  if (const auto bounds = module.launch_bounds.find(local); bounds != module.launch_bounds.end())
    declared.launch_bounds = *bounds->second;
  if (const auto dims = module.cluster_dims.find(local); dims != module.cluster_dims.end())
    declared.cluster = {dims->second[0], dims->second[1], dims->second[2]};
  if (const auto told = module.shared_bytes.find(function); told != module.shared_bytes.end()) {
    declared.shared_bytes = told->second;
  } else if (!local.empty()) {
    for (const ThreadVariable& variable : module.thread_variables)
      if (variable.symbol.starts_with(local)) declared.shared_bytes += variable.bytes;
  }
  return declared;
}

}  // namespace trifold::cpu
