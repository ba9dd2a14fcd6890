// The job of a spec that is a tree already: a part of a larger text.
#pragma once

#include <string>

#include "memest/reader/read_job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// The job that the mapping `root` describes, called `name`; every mistake at its place.
Checked<Job> read_job(Value root, std::string name);

}  // namespace memest
