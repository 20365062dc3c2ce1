// What a program that `trifold sanitize` runs tells it, a line each: findings, problems (which fail the run), remarks.
#pragma once

#include <trifold/cpu.h>

#include <cstdint>
#include <string>

namespace trifold::host {

// "main.cu:12"
std::string place(Line line);

// Not a kernel's mistake, but one of the program.
void problem(const std::string& text);
void remark(const std::string& text);
// JSON objects of findings, a line each.
void tell_findings(const std::string& lines);

struct ProgramOptions {
  int pipe = -1;  // where to tell; negative: nobody listens
  uint64_t seed = 0;
  int schedules = 1;
  bool keep_going = false;  // after a launch that failed
};
const ProgramOptions& program_options();

}  // namespace trifold::host
