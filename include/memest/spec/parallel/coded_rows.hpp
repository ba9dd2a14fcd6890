// How FSDP2 cuts torchao's NF4 tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "memest/spec/job.hpp"

namespace memest {

/// A linear layer of the job's that is kept as torchao's codes and that `ranks` ranks cannot share
/// equally, or nothing. The name is torchtune's ("k_proj").
[[nodiscard]] std::optional<std::string_view> uneven_codes(const Job& job, std::int64_t ranks);

}  // namespace memest
