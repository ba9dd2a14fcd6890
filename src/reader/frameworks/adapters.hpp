// Adapters of peft other than LoRA, beside what no run of them was recorded with.
#pragma once

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

void check_adapters(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
