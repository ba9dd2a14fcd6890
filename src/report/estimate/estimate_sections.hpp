// The parts of an estimate's page; each adds its headings, tables and sentences.
#pragma once

#include <string>
#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/report/page.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// "last stage, data rank 3": whose memory it is, as far as it is not every rank's, or the first's
/// of those that share the states; may be empty.
std::string whose_memory(const RankClass& ranks);
Tone tone_of(Verdict verdict);
void add_memory(Page& page, const Job& job, const MemoryAnswer& answer);
/// Host memory that a rank, and a node, keeps.
void add_host_memory(Page& page, const Job& job, const MemoryAnswer& answer);
/// The ranks of a pipeline beside each other, where there are several kinds.
void add_ranks(Page& page, const MemoryAnswer& worst, const std::vector<MemoryAnswer>& others);
void add_flops(Page& page, const Job& job, const FlopsEstimate& flops);
void add_time(Page& page, const TimeEstimate& time);
/// Prefill, tokens and the whole of a call without gradients.
void add_time(Page& page, const InferenceTime& time);
void add_cost(Page& page, const Job& job, const CostEstimate& cost);

/// The sentence that stands in a section's place.
void add_unavailable(Page& page, const std::string& heading, const Unavailable& unavailable);

}  // namespace memest
