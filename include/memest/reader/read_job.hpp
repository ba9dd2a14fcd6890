// Text becomes a job: spec files merged from left to right, overridden key by key, checked as a
// whole.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"

namespace memest {

struct ReadRequest {
  /// Paths of spec files (YAML; JSON where the name ends in `.json`) or names of presets. Mappings
  /// merge, anything else replaces what stood before.
  std::vector<std::string> files;
  /// `training.micro_batch=4`: a path of keys and a value in YAML; each named after the flag that
  /// the user wrote, `--set` or one that stands for a key.
  std::vector<SourceText> overrides = {};
  /// `--gpus`: the GPUs of the job, whatever the files say; the data-parallel ranks are those that
  /// its other ranks leave, but where an override writes them.
  std::optional<std::int64_t> gpus = {};
  /// `training.recompute`: a path of keys that is read as if nobody wrote it; named after its flag.
  std::vector<SourceText> freed = {};
  /// Files that are no files here, as those of a git revision or specs in memory: read by their
  /// names in the place of the disk's, also where a spec among them names another of them.
  std::vector<std::shared_ptr<const SourceText>> texts = {};
};

/// The job, or every mistake in it. Throws EnvironmentError for a file that cannot be opened.
Checked<Job> read_job(const ReadRequest& request);

/// Standard input, for a request that is read more than once: among its texts, under its name.
Checked<std::shared_ptr<const SourceText>> read_standard_input();

/// As above, from text in memory: JSON where its name ends in `.json`.
Checked<Job> read_job(const std::shared_ptr<const SourceText>& source);

}  // namespace memest
