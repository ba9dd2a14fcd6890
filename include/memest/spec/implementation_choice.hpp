// A job under one of the implementations that a search compares.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "memest/spec/job.hpp"

namespace memest {

struct ImplementationChoice {
  Framework framework = {};
  CompileScope compile = CompileScope::off;
  /// Keys that the spec leaves out and the choice sets, as overrides:
  /// "training.implementation={name: torchtitan, compile: blocks}", "training.precision=amp-bf16".
  std::vector<std::string> settings;
  std::optional<Job> job = {};
  std::string refusal;  ///< why there is no job: what the spec writes, or has, against it
};

/// "megatron", "torchtitan, compiled blocks".
std::string name_of(const ImplementationChoice& choice);

}  // namespace memest
