// A recorded run as commands ask about it: at which sizes, on which GPU, held to which budget.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "memest/spec/allocator_trace.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/recorded/family.hpp"

namespace memest {

struct RecordedJob {
  std::string file;  ///< of the recording
  std::variant<Recording, RecordedFamily> recorded;
  std::vector<std::string> at;  ///< "batch=8": the sizes of a family
  /// `assumed`: neither the request nor the recording names a GPU, and there is none.
  Hardware hardware;
  bool names_gpu = false;  ///< the request does, not the recording alone
  /// The allocator's, where they are not those that were recorded.
  std::optional<AllocatorSettings> settings;
  std::string conf;  ///< the settings as PYTORCH_ALLOC_CONF has them; empty: those recorded
  Budget budget;
};

}  // namespace memest
