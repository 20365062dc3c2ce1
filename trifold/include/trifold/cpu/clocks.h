// Clocks for kernels, of which only differences are meaningful.
#pragma once

#include <trifold/cpu.h>

#include <ctime>

// clock() is that of the C library.
inline long long clock64() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// Simulated time does not pass; other threads run.
inline void __nanosleep(unsigned, trifold::cpu::Line line = {}) {
  trifold::cpu::pause(line);
}
