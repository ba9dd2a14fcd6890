// The part of a validation that is of runs that others published.
#pragma once

#include "memest/report/page.hpp"
#include "memest/report/validation_report.hpp"

namespace memest {

/// How many of their figures have an answer, by framework, and how far off those are; what the
/// layouts that are ranked first lose; and the intervals that the runs make. Nothing where no run
/// is published.
void append_published(Page& page, const ValidationAnswer& answer);

}  // namespace memest
