// A spec file as its author wrote it: which keys, where, and what its answer rests on beside them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/lock.hpp"
#include "memest/spec/recorded/recorded_job.hpp"

namespace memest {

/// How a document without a name on the command line is told to be a spec: a mapping with `model`
/// and one of `training` and `inference`, or with `recording`.
struct WrittenSpec {
  bool is_spec = false;
  std::vector<SpecLeaf> keys;  ///< in the order of the text; empty where it is no mapping
};

/// Reads a spec file's keys. One that cannot be parsed is a spec where lines of its text begin with
/// these keys. Throws EnvironmentError where it cannot be opened.
WrittenSpec read_written_spec(const std::string& path);

/// The value that `keys` write of `key`; null where there is none.
const SpecLeaf* find_written(const std::vector<SpecLeaf>& keys, std::string_view key);

/// The job of a spec at `path` that writes these keys and no others: what it was, or would be. A
/// key with a dot in its own name is not told from two.
Checked<Job> read_job(const std::vector<SpecLeaf>& keys, const std::string& path);

/// The GPU, profiles, recipe, optimizer, preset and files beside it that the answer for `job` rests
/// on, each with a digest of its text. `keys` are of its spec.
std::vector<RestsOn> rests_on(const Job& job, const std::vector<SpecLeaf>& keys);

/// The recording, and the GPU that it is played on.
std::vector<RestsOn> rests_on(const RecordedJob& job);

}  // namespace memest
