// The parts of an estimate's JSON that other answers hold as well.
#pragma once

#include "memest/plan/estimate.hpp"
#include "memest/spec/job.hpp"
#include "report/pages/json.hpp"

namespace memest {

Json json_of(const TimeEstimate& time);
Json json_of(const InferenceTime& time);
Json json_of(const CostEstimate& cost);
/// A node's memory and what is taken of it.
Json json_of(const HostNeed& need);

/// The whole answer of `memest estimate`.
Json json_of(const Job& job, const JobEstimate& estimate, const Question& question);

/// "fits", "does-not-fit", "too-close-to-call"; "not-known" of a job without its memory.
std::string_view verdict_text(const JobEstimate& estimate);

}  // namespace memest
