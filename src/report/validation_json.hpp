#pragma once

#include "json.hpp"
#include "memest/report/validation_report.hpp"

namespace memest {

Json validation_json(const ValidationAnswer& answer, const Question& question);

}  // namespace memest
