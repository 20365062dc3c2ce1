// Launches of a tape (tape.py) on a GPU, in a process of their own with nothing else: a program for compute-sanitizer.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <mutex>
#include <thread>

#include "start.cuh"

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

// "memory NUMBER SIZE WRITTEN BYTES": a separate allocation; unwritten bytes stay unwritten here.
void read_memory(std::istream& tape, std::map<int64_t, unsigned char*>& memory) {
  int64_t number = 0;
  size_t size = 0;
  bool written = false;
  tape >> number >> size >> written;
  auto& device = memory[number];
  if (device == nullptr) check(cudaMalloc(&device, size));
  if (!written) return;
  std::vector<unsigned char> bytes(size);
  for (auto& byte : bytes) {
    unsigned value = 0;
    tape >> value;
    byte = static_cast<unsigned char>(value);
  }
  check(cudaMemcpy(device, bytes.data(), size, cudaMemcpyHostToDevice));
}

// "launch NAMES GRID BLOCK SHARED COUNT", NAMES with commas between them, and each argument as "MEMORY OFFSET" with a
// memory's number, or as "-1 INTEGER"; then as a number.
void launch(std::istream& tape, const std::map<int64_t, unsigned char*>& memory) {
  std::string names;
  int64_t shape[7];
  size_t count = 0;
  tape >> names;
  for (auto& extent : shape) tape >> extent;
  tape >> count;
  std::vector<catalogue::Argument> arguments(count);
  for (auto& [word, real] : arguments) {
    int64_t number = 0;
    tape >> number >> word >> real;
    if (number >= 0) word += reinterpret_cast<int64_t>(memory.at(number));
  }
  for (auto& letter : names)
    if (letter == ',') letter = ' ';
  catalogue::start(names, shape, arguments);
  check(cudaGetLastError());
  check(cudaDeviceSynchronize());
}

// Ends the program when a tape takes longer than the limit, as its kernel waits forever: nothing but the process's end
// stops a kernel. The exit status is 100 plus the tape's position.
class Limit {
 public:
  explicit Limit(double seconds) : seconds_(seconds) {
    std::thread([this] { watch(); }).detach();
  }

  void begin(int position) {
    const std::lock_guard lock(mutex_);
    position_ = position;
    began_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void watch() {
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
      const std::lock_guard lock(mutex_);
      if (Clock::now() - began_ > seconds_) std::_Exit(100 + position_);
    }
  }

  std::chrono::duration<double> seconds_;
  std::mutex mutex_;
  int position_ = 0;
  Clock::time_point began_ = Clock::now();
};

}  // namespace

// Arguments: the seconds that a tape may take, and tapes, which share nothing.
int main(int count, char** arguments) {
  static Limit limit(std::atof(arguments[1]));
  for (int i = 2; i < count; ++i) {
    limit.begin(i - 2);
    std::ifstream tape(arguments[i]);
    std::map<int64_t, unsigned char*> memory;
    for (std::string what; tape >> what;) {
      if (what == "memory") {
        read_memory(tape, memory);
      } else {
        launch(tape, memory);
      }
    }
  }
}
