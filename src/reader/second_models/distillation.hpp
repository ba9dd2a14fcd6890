// `training.teacher`: a frozen model beside the one that is trained.
#pragma once

#include <memory>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// The teacher that `training` names, or the reference of a program that learns preferences, which
/// switches dropout off; or a diagnostic says what is wrong with it.
void read_teacher(const Value& training, Job& job, Diagnostics& diagnostics);

/// Refuses a teacher that the student cannot learn from, and what no run with one was recorded
/// with.
void check_teacher(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
