// The key of a job's adapter.
#pragma once

#include <string>
#include <vector>

#include "memest/spec/job.hpp"

namespace memest {

/// Parts of a multimodal model that are frozen or, beside an adapter, have none.
std::vector<std::string> parts_of_images(const Job& job);

/// The text of `training.adapter`: "{lora: {rank: 8, ...}}", "none".
std::string adapter_text(const Job& job);

}  // namespace memest
