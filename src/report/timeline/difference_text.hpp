// The place where a prediction and a record part, in words.
#pragma once

#include <string>
#include <vector>

#include "memest/memory/timeline_difference.hpp"
#include "memest/plan/step_memory.hpp"

namespace memest {

/// " (op 2: softmax)": the operation of a block that makes a storage; empty where none does.
std::string op_of(const StepMemory& memory, StorageId storage);

/// The differences, a sentence each.
std::vector<std::string> sentences_of(const StepMemory& memory,
                                      const TimelineDifference& difference);

}  // namespace memest
