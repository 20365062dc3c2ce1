// Time, as a kernel sees it: only its differences mean something.
#pragma once

#include <trifold/cpu.h>

#include <ctime>

// clock() is the C library's.
inline long long clock64() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// Time does not pass here; other threads run.
inline void __nanosleep(unsigned, trifold::host::Line line = {}) {
  trifold::host::pause(line);
}
