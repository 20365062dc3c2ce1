// The report of a program that `trifold sanitize` runs, a line each: findings, problems (which fail the run), remarks.
#pragma once

#include <trifold/cpu.h>

#include <cstdint>
#include <string>

namespace trifold::cpu {

// "main.cu:12"
std::string place(Line line);

// A mistake of the program that is not a kernel's.
void problem(const std::string& text);
void remark(const std::string& text);
// Findings as JSON objects, a line each.
void tell_findings(const std::string& lines);

struct ProgramOptions {
  int pipe = -1;  // the descriptor to write to; negative: none
  uint64_t seed = 0;
  int schedules = 1;
  bool keep_going = false;  // after a launch that failed
};
const ProgramOptions& program_options();

}  // namespace trifold::cpu
