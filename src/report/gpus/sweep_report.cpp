#include "memest/report/gpus/sweep_report.hpp"

#include <fmt/format.h>

#include <string>

#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"

namespace memest {

Page report_sweep(const Sweep& sweep, const std::string& device) {
  Table table{{{"", Align::right},
               {"shape"},
               {"load"},
               {"a call", Align::right},
               {"to measure", Align::right}},
              {}};
  for (std::size_t i = 0; i < sweep.steps.size(); ++i) {
    const SweepStep& step = sweep.steps[i];
    table.rows.push_back(
        {{std::to_string(i + 1), text_of(step.shape), std::string(name_of(step.load)),
          seconds_text(step.call), seconds_text(step.expected)},
         "",
         Tone::plain});
  }
  Page page;
  page.parts.emplace_back(Heading{device});
  page.parts.emplace_back(
      Paragraph{fmt::format("{} shapes, about {}. Times are expected, not measured.",
                            sweep.steps.size(), seconds_text(sweep.expected()))});
  page.parts.emplace_back(std::move(table));
  return page;
}

}  // namespace memest
