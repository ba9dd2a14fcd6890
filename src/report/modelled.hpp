// Whose behaviour a replay follows.
#pragma once

#include <string>

#include "memest/spec/job.hpp"

namespace memest {

/// "PyTorch 2.11, transformers 5.17"; `joint` stands between the two.
inline std::string modelled_programs(const Job& job, const char* joint = ", ") {
  const bool megatron = job.forward()->implementation.framework == Framework::megatron;
  return std::string("PyTorch 2.11") + joint +
         (megatron ? "megatron-core 0.16.1" : "transformers 5.17");
}

}  // namespace memest
