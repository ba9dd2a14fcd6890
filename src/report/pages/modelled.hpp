// Whose behaviour a replay follows.
#pragma once

#include <string>

#include "memest/spec/framework.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// "PyTorch 2.11, transformers 5.17"; `joint` stands between the two.
inline std::string modelled_programs(const Job& job, const char* joint = ", ") {
  const Implementation& implementation = job.forward()->implementation;
  const RecordedProgram& program = modelled_program(implementation);
  const std::string torch = "PyTorch " + std::string(name_of(implementation.torch));
  if (program.package.empty()) return torch;
  return torch + joint + std::string(program.package) + " " + std::string(program.release);
}

}  // namespace memest
