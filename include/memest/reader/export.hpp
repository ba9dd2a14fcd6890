// A job as files that a training program runs: the way back from a spec to what other programs
// read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"

namespace memest {

struct ExportedFile {
  std::string name;  ///< "train.toml"
  std::string text;
};

struct ExportedJob {
  std::vector<ExportedFile> files;  ///< at least one
  std::string launch = {};  ///< the command line that runs it, where no file has room for one
};

/// Writes the files with which the program `target` runs `job`. A key that it has no word for is
/// refused by name, unavailable; a job of another program is a mistake. Files that are a whole job
/// are read back before they are answered, and refused where they are not the same job.
Checked<ExportedJob> export_job(const Job& job, std::string_view target);

/// The programs that jobs are written for, in the order of their table.
std::vector<std::string_view> export_targets();

}  // namespace memest
