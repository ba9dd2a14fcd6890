// The answer of `memest check` as JSON.
#pragma once

#include "memest/report/check_report.hpp"
#include "report/pages/json.hpp"

namespace memest {

Json json_of(const CheckedSpecs& specs, const Question& question);

}  // namespace memest
