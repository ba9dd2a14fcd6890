// A recorded step by the program's modules: what their forwards leave for the backward, and the
// time of their kernels.
#pragma once

#include <vector>

#include "memest/memory/recorded/kept_for_backward.hpp"
#include "memest/report/page.hpp"
#include "memest/time/recorded_time.hpp"
#include "report/pages/json.hpp"

namespace memest {

/// Empty where no modules were told.
std::vector<Part> kept_parts(const KeptForBackward& kept, const AllocatorTrace& trace);
std::vector<Part> module_time_parts(const RecordedTime& time);

/// Writes "kept_for_backward"; nothing where no modules were told.
void put_kept(const KeptForBackward& kept, const AllocatorTrace& trace, Json& json);
Json module_times_json(const RecordedTime& time);

}  // namespace memest
