#include "report/pages/coverage.hpp"

#include <fmt/format.h>

#include "memest/report/numbers.hpp"

namespace memest {

std::string coverage_text(const SourceMargin& margin, const std::string& figures) {
  return fmt::format(
      "{} of {} published {} lie in such intervals, made without their framework, GPU or year",
      percent_text(margin.held), margin.runs, figures);
}

}  // namespace memest
