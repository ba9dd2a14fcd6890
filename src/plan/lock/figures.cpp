#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "memest/plan/lock.hpp"
#include "memest/plan/recorded_needs.hpp"

namespace memest {
namespace {

/// Six digits: the last ones of a sum of doubles are not the same on every machine.
double rounded(double value) {
  constexpr int kDigits = 6;
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 std::chars_format::general, kDigits);
  std::from_chars(digits.data(), end.ptr, value);
  return value;
}

/// Figures in the order in which they come; of one name their sum.
class FigureList {
 public:
  explicit FigureList(std::vector<LockedFigure>& figures) : figures_(figures) {}

  void put(const std::string& name, LockedValue value) {
    for (LockedFigure& figure : figures_) {
      if (figure.name != name) continue;
      auto* bytes = std::get_if<Bytes>(&figure.value);
      if (bytes != nullptr) *bytes += std::get<Bytes>(value);
      return;
    }
    figures_.push_back({name, value});
  }
  void put(const std::string& name, Seconds time) {
    put(name, LockedValue(Seconds(rounded(time.value()))));
  }
  void put(const std::string& name, Dollars money) {
    put(name, LockedValue(Dollars(rounded(money.value()))));
  }

 private:
  std::vector<LockedFigure>& figures_;
};

void put_memory(const MemoryAnswer& memory, FigureList& figures) {
  figures.put("device", LockedValue(memory.device()));
  if (const auto reserved = memory.reserved()) figures.put("reserved", LockedValue(*reserved));
  figures.put("allocated", LockedValue(memory.allocated()));
  if (memory.host_need) figures.put("host", LockedValue(memory.host_need->of_node()));
}

void put_terms(const MemoryAnswer& memory, FigureList& terms) {
  for (const Term& term : memory.estimate.terms) {
    terms.put(memory.ledger.terms[term.index].name, LockedValue(term.value));
  }
}

void put_cost(const CostEstimate& cost, FigureList& figures) {
  figures.put("cost per hour", cost.per_hour);
  figures.put("cost per billion tokens", cost.per_billion_tokens);
}

}  // namespace

void put_figures(const JobEstimate& estimate, LockedSpec& spec) {
  FigureList figures(spec.figures);
  FigureList terms(spec.terms);
  figures.put("parameters", LockedValue(estimate.parameters.total));
  figures.put("trainable parameters", LockedValue(estimate.parameters.trainable));
  if (const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory)) {
    put_memory(*memory, figures);
    put_terms(*memory, terms);
    for (const MemoryAnswer& other : estimate.other_ranks) {
      figures.put("device of " + other.ranks.name, LockedValue(other.device()));
    }
  }
  if (const auto* flops = std::get_if<FlopsEstimate>(&estimate.flops)) {
    figures.put("forward", LockedValue(flops->forward));
    figures.put("backward", LockedValue(flops->backward));
  }
  if (estimate.inference_time) {
    figures.put("call", estimate.inference_time->whole);
  } else if (const auto* time = std::get_if<TimeEstimate>(&estimate.time)) {
    figures.put("step", time->step);
  }
  if (const auto* cost = std::get_if<CostEstimate>(&estimate.cost)) put_cost(*cost, figures);
}

void put_figures(const RecordedNeeds& needs, LockedSpec& spec) {
  FigureList figures(spec.figures);
  figures.put("device", LockedValue(needs.device()));
  figures.put("reserved", LockedValue(needs.reserved));
  figures.put("allocated", LockedValue(needs.allocated));
  if (const auto* time = std::get_if<RecordedTime>(&needs.time)) {
    figures.put("flops", LockedValue(time->flops));
    figures.put("step", time->step);
  }
}

}  // namespace memest
