#include "report/estimate/estimate_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"

namespace memest {
namespace {

Hue hue_of(TermGroup group) {
  switch (group) {
    case TermGroup::weights:
      return Hue::indigo;
    case TermGroup::gradients:
      return Hue::rose;
    case TermGroup::optimizer:
      return Hue::teal;
    case TermGroup::activations:
      return Hue::sand;
    case TermGroup::buffers:
      return Hue::olive;
    case TermGroup::overhead:
      return Hue::grey;
  }
  unreachable("a group beyond the enum");
}

/// The area of that name among `areas`, made where there is none.
ChartArea& area_named(std::vector<ChartArea>& areas, std::string name, Hue hue) {
  const auto found = std::ranges::find(areas, name, &ChartArea::name);
  if (found != areas.end()) return *found;
  areas.push_back({.name = std::move(name), .hue = hue});
  return areas.back();
}

/// Numbers become texts, and parts stand largest first, as the library lays them out.
template <class Write>
void finish(std::vector<ChartArea>& areas, const Write& write) {
  for (ChartArea& area : areas) {
    finish(area.parts, write);
    area.text = write(area.number);
  }
  std::ranges::stable_sort(areas, std::greater<>(), &ChartArea::number);
}

/// A part of a group, added to what has its name there.
void add_part(AreaChart& chart, std::string_view group, const ChartArea& part) {
  ChartArea& whole = area_named(chart.areas, std::string(group), part.hue);
  whole.number += part.number;
  area_named(whole.parts, part.name, part.hue).number += part.number;
}

}  // namespace

Hue hue_of(OpClass op_class) {
  switch (op_class) {
    case OpClass::contraction:
      return Hue::indigo;
    case OpClass::normalization:
      return Hue::teal;
    case OpClass::elementwise:
      return Hue::sand;
    case OpClass::movement:
      return Hue::cyan;
    case OpClass::collective:
      return Hue::rose;
    case OpClass::waiting:
      return Hue::grey;
  }
  unreachable("a class beyond the enum");
}

Chart ledger_chart(const MemoryAnswer& answer) {
  return {"Memory of one GPU at the peak.", "An area is in proportion to its bytes.", [&answer] {
            AreaChart chart;
            for (const Term& term : answer.estimate.terms) {
              const LedgerTerm& meaning = answer.ledger.terms[term.index];
              if (term.value <= Bytes()) continue;
              add_part(chart, name_of(meaning.group),
                       {.name = meaning.name,
                        .number = term.value.as_double(),
                        .hue = hue_of(meaning.group)});
            }
            finish(chart.areas, [](double bytes) {
              return sized_text(Bytes(static_cast<std::int64_t>(bytes)));
            });
            return chart;
          }};
}

Chart step_chart(const TimeEstimate& time) {
  return {"The step's time by operation.", "An area is in proportion to its seconds.", [&time] {
            AreaChart chart;
            for (const OpTime& op : time.ops) {
              if (op.seconds <= Seconds()) continue;
              add_part(chart, name_of(op.op_class),
                       {.name = fmt::format("{} {}", op.block, op.op),
                        .number = op.seconds.value(),
                        .hue = hue_of(op.op_class)});
            }
            finish(chart.areas, [](double seconds) { return seconds_text(Seconds(seconds)); });
            return chart;
          }};
}

}  // namespace memest
