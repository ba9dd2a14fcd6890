// Logs of nvidia-smi: the table of --query-gpu, dmon's and pmon's.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/gpu/usage_log.hpp"

namespace memest {

/// The forms of a GPU's log.
enum class LogForm : std::uint8_t {
  query,    ///< nvidia-smi --query-gpu=... --format=csv
  monitor,  ///< nvidia-smi dmon, pmon
  other     ///< known by name, and not read
};

struct FoundLog {
  LogForm form = LogForm::other;
  std::string_view name;  ///< "nvidia-smi dmon", "the table that nvidia-smi prints for people"
};

/// None where the text begins like no such log.
std::optional<FoundLog> find_log_form(std::string_view text);

/// The most memory in use of each GPU.
Checked<UsageLog> read_usage_log(const std::shared_ptr<const SourceText>& source,
                                 const FoundLog& found);

}  // namespace memest
