// Whose behaviour a replay follows.
#pragma once

#include <string>
#include <string_view>

#include "memest/spec/job.hpp"

namespace memest {

/// The release whose runs were recorded (tests/truth/README.md); empty where PyTorch alone ran.
constexpr std::string_view recorded_program(Framework framework) {
  switch (framework) {
    case Framework::transformers:
      return "transformers 5.17";
    case Framework::torchtitan:
      return "torchtitan 0.2.2";
    case Framework::megatron:
      return "megatron-core 0.16.1";
    case Framework::nanogpt:
      return "nanoGPT 3adf61e";
    case Framework::textbook:
    case Framework::plain:
      break;
  }
  return "";
}

/// "PyTorch 2.11, transformers 5.17"; `joint` stands between the two.
inline std::string modelled_programs(const Job& job, const char* joint = ", ") {
  const std::string_view program = recorded_program(job.forward()->implementation.framework);
  return "PyTorch 2.11" + (program.empty() ? "" : joint + std::string(program));
}

}  // namespace memest
