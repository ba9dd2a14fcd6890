#pragma once

#include "memest/report/validation_report.hpp"
#include "report/pages/json.hpp"

namespace memest {

Json validation_json(const ValidationAnswer& answer, const Question& question);

}  // namespace memest
