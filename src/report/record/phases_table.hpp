// The phases of a recorded run, of which a long one shows the steps that matter.
#pragma once

#include <string>

#include "memest/report/page.hpp"
#include "memest/spec/allocator_trace.hpp"

namespace memest {

/// The bytes allocated and reserved at the end of each phase, and the most until then. A run of
/// more than ten phases shows the first step, the one of `peak_phase`, the one in which most was
/// reserved first, and the last; a row says how many phases stand between them. The table has no
/// rows where no step is known. `failed`: the last phase did not end, which is told then.
Table phases_table(const AllocatorTrace& trace, const std::string& peak_phase, bool failed);

}  // namespace memest
