// Who may write into its input, and one pass's buffers shared, as part of a timeline's answer.
#pragma once

#include "memest/report/page.hpp"
#include "memest/report/timeline_files.hpp"
#include "report/pages/json.hpp"

namespace memest {

/// Adds nothing where the run was not asked for it.
void append_reuse(const TimelineRun& run, Page& page);
Json in_place_json(const TimelineRun& run);
Json forward_buffers_json(const ForwardBuffers& buffers);

}  // namespace memest
