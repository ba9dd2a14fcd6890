// Files that a spec names within itself.
#pragma once

#include <string>
#include <vector>

#include "memest/reader/read_job.hpp"

namespace memest {

/// Those that reading the request's job opens beside its own: a Hugging Face config. Empty where
/// the request cannot be read. Throws EnvironmentError for a file that cannot be opened.
std::vector<std::string> files_named_in(const ReadRequest& request);

}  // namespace memest
