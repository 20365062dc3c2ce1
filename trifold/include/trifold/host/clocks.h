// Time, as a kernel sees it: only its differences mean something.
#pragma once

#include <ctime>

// clock() is the C library's.
inline long long clock64() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// A thread that waits for time to pass hinders nobody here: it goes on at once.
inline void __nanosleep(unsigned) {}
