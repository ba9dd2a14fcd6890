// Records of runs: a line of JSON each, a spec beside what was measured of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/observables.hpp"

namespace memest {

struct Record {
  std::string id;
  std::string source;      ///< what was run; empty where the record does not say
  std::string framework;   ///< of a run that others published, as they call it; else empty
  std::int64_t year = 0;   ///< in which they did
  std::optional<Job> job;  ///< absent where the spec is refused
  std::string refusal;     ///< the first sentence that says why; empty where there is a job
  Observables measured;
  Approximation approximation;
};

/// The records of a file, which may be gzip, in its order, or every mistake in it. A spec within is
/// read as any spec is; one that is refused makes a record without a job, with a warning at its
/// place unless it asks for what is known by name and not available yet. Throws EnvironmentError
/// for a file that cannot be opened.
Checked<std::vector<Record>> read_records(const std::string& path);

/// As above, from text in memory.
Checked<std::vector<Record>> read_records(const std::shared_ptr<const SourceText>& source);

}  // namespace memest
