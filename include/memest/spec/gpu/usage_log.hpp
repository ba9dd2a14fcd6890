// A log of how much memory of each GPU was in use over time, as nvidia-smi or another reader of
// NVML writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memest/units/quantity.hpp"

namespace memest {

/// The most that was seen in use of one GPU, or by one process on it.
struct UsedMemory {
  std::string name;  ///< "0", "0, process 4711"; empty where the log does not say which GPU
  Bytes peak;
  std::int64_t line = 0;               ///< of the log, where the peak first is
  std::int64_t samples = 0;            ///< lines that have a figure
  std::optional<Bytes> capacity = {};  ///< memory.total, where the log has it
};

struct UsageLog {
  std::string file;
  std::string form;              ///< "nvidia-smi --query-gpu", "nvidia-smi dmon"
  std::vector<UsedMemory> gpus;  ///< at least one, in order of appearance
};

}  // namespace memest
