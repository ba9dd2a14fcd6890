// The keys of a job as its files write them.
#pragma once

#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {

struct SpecKey {
  std::string key;    ///< "training.micro_batch"
  std::string value;  ///< on one line: "4", "{name: adamw, implementation: fused}"
  SourceSpan span;    ///< of the value
};

/// Every key of the request's merged files and overrides that has no keys below it, in the order of
/// the text; a preset and a Hugging Face config that is named count as if their keys stood there.
/// Throws EnvironmentError for a file that cannot be opened.
Checked<std::vector<SpecKey>> written_keys(const ReadRequest& request);

}  // namespace memest
