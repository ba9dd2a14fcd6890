// A whole training by one plan: how long so many tokens take, and what they cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "memest/plan/search.hpp"

namespace memest {

/// An expected value with the interval of the step that it follows from.
struct Spread {
  double expected = 0;
  double low = 0;
  double high = 0;
};

struct WholeTraining {
  Spread seconds;
  Spread gpu_hours;               ///< of all GPUs
  std::optional<Spread> dollars;  ///< none where no price is known
};

/// `tokens` by the plan's steps, one after another; or why its steps have no time.
std::variant<WholeTraining, Unavailable> whole_training_of(const PlanVerdict& plan, double tokens);

/// Whether a training ends in time.
enum class InTime : std::uint8_t {
  surely,    ///< the whole interval
  expected,  ///< the expected time, but not the slow end
  no
};
/// "surely", "expected", "no".
std::string_view name_of(InTime in_time);
InTime held_to(const WholeTraining& training, Seconds within);

}  // namespace memest
