// The facts of this build.
#pragma once

#include "memest/report/tool_report.hpp"

namespace memest {

BuildFacts build_facts();

}  // namespace memest
