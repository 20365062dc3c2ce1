// The interface between a library of one drafted kernel and trifold/simulator/compiled, which launches it instead of
// its prototype.
#pragma once

#include <trifold/launch.cuh>
#include <trifold/simulated.cuh>

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

namespace trifold::cpu {

// How a launch ended; the numbers are those of trifold/simulator/compiled/library.py.
enum class Ended : int { well, by_an_error, out_of_bounds, suspected };

inline std::string message;  // of the error that ended the last launch

inline std::string outside_as_text() {
  const AccessOutside& at = outside;
  std::string text = std::string{at.space, '\t', at.access, '\t'} + at.array.text + '\t' + at.array.file + '\t' +
                     std::to_string(at.array.line) + '\t' + at.array.function;
  for (const uint3& index : {at.thread, at.block})
    for (const unsigned part : {index.x, index.y, index.z}) text += '\t' + std::to_string(part);
  text += '\t' + std::to_string(at.interval);
  for (int i = 0; i < at.dimensions; ++i)
    text += '\t' + std::to_string(at.indices[i]) + '\t' + std::to_string(at.lengths[i]);
  return text;
}

// Runs the kernel with all threads of all blocks.
template <auto Prototype, class... P>
void run_by_threads(const Kernel& kernel, const P&... arguments) {
  describe_launch(
      kernel,
      [](const P&... values) __attribute__((flatten)) {
#ifdef TRIFOLD_SCREEN
        screen::begin_thread();
        Prototype(values...);
        screen::end_thread();
#else
        Prototype(values...);
#endif
      },
      run_grid, arguments...);
}

// The same with code for a whole block, in which no thread waits.
template <class Block, class... P>
void run_by_blocks(Kernel kernel, const Block& block, const P&... arguments) {
  const auto run = [&] { block(arguments...); };
  kernel.block = [](const void* context) { (*static_cast<decltype(run)*>(context))(); };
  kernel.closure = &run;
  kernel.closure_bytes = sizeof run;
  run_grid(kernel);
}

// block: a function that runs a whole block; or null. shape: three extents each of the grid and of a block, and whether
// the launch is cooperative. arrays: those among the arguments (screen::Given), which only the screen uses.
template <auto Prototype, class Block, class... P>
Ended launch_simulated(void (*)(P...), const Block& block, const char* name, const char* parameters,
                       const unsigned* shape, size_t shared, void** arguments, [[maybe_unused]] const void* arrays,
                       [[maybe_unused]] int count) {
  Kernel kernel{};
  kernel.code = reinterpret_cast<const void*>(Prototype);
  kernel.name = name;
  kernel.parameters = parameters;
  kernel.grid = {shape[0], shape[1], shape[2]};
  kernel.threads = {shape[3], shape[4], shape[5]};
  kernel.shared_bytes = shared;
  kernel.cooperative = shape[6] != 0;
  outside.space = ' ';
#ifdef TRIFOLD_SCREEN
  if (!screen::begin_launch(static_cast<const screen::Given*>(arrays), count)) return Ended::suspected;
#endif
  try {
    [&]<size_t... i>(std::index_sequence<i...>) {
      if constexpr (std::is_null_pointer_v<Block>) {
        run_by_threads<Prototype, P...>(kernel, *static_cast<remove_cvref_t<P>*>(arguments[i])...);
      } else {
        run_by_blocks(kernel, block, *static_cast<remove_cvref_t<P>*>(arguments[i])...);
      }
    }(std::index_sequence_for<P...>{});
    return Ended::well;
  } catch (const std::exception& error) {
    message = error.what();
  }
  if (outside.space != ' ') {
    message = outside_as_text();
    return Ended::out_of_bounds;
  }
#ifdef TRIFOLD_SCREEN
  return Ended::suspected;
#else
  return Ended::by_an_error;
#endif
}

}  // namespace trifold::cpu
