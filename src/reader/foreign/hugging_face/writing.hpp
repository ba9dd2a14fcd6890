// The part that accelerate's and DeepSpeed's files of a job have in common.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "memest/spec/job.hpp"
#include "reader/export/target.hpp"
#include "reader/text/value.hpp"

namespace memest::hugging_face {

/// DeepSpeed 0.19's ds_config.json: every key that decides memory. The job is ZeRO's.
Value ds_config_of(const Job& job);

/// Why ZeRO has no such precision; nothing where it has.
std::optional<Diagnostic> check_zero_precision(const Job& job, std::string_view program);

/// Ranks that neither program has: the model is whole on every GPU but for its states' shares.
std::span<const ExportRow> rows_of_whole_models();

}  // namespace memest::hugging_face
