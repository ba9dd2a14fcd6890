#include "report/diff/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"

namespace memest {
namespace {

const MemoryAnswer* memory_of(const ComparedSpec& spec) {
  return std::get_if<MemoryAnswer>(&spec.estimate.memory);
}

/// ", fits no more".
std::string verdict_text(Verdict a, Verdict b) {
  const std::string word = a == b ? "still " : "";
  switch (b) {
    case Verdict::fits:
      return a == b ? "still fits" : "fits now";
    case Verdict::does_not_fit:
      return a == Verdict::fits ? "fits no more" : word + "does not fit";
    case Verdict::too_close_to_call:
      return (a == b ? word : "now ") + "too close to call";
  }
  unreachable("a verdict beyond the enum");
}

// Each empty where a side does not know it.

std::string memory_text(const SpecComparison& comparison) {
  const MemoryAnswer* a = memory_of(comparison.a);
  const MemoryAnswer* b = memory_of(comparison.b);
  if (a == nullptr || b == nullptr) return {};
  const Bytes more = b->device() - a->device();
  const std::string change =
      more == Bytes() ? "the same at the peak" : signed_text(more, "B") + " at the peak";
  return change + ", " + verdict_text(a->overall(), b->overall());
}

/// Tokens a second of all GPUs together.
std::optional<double> speed_of(const ComparedSpec& spec) {
  double rate = 0;
  if (const auto* time = std::get_if<TimeEstimate>(&spec.estimate.time)) {
    rate = time->tokens_per_second_per_gpu * static_cast<double>(spec.job.hardware.count);
  } else if (spec.estimate.inference_time) {
    rate = spec.estimate.inference_time->tokens_per_second;
  }
  if (!(rate > 0)) return {};
  return rate;
}

std::string time_text(const SpecComparison& comparison) {
  const auto a = speed_of(comparison.a);
  const auto b = speed_of(comparison.b);
  if (!a || !b) return {};
  // Less than percent_text shows.
  constexpr double kNoticed = 0.0005;
  const double change = *b / *a - 1;
  if (std::abs(change) < kNoticed) return "as fast";
  if (change >= 1) return significant_text(*b / *a, 2) + " times as fast";
  return percent_text(std::abs(change)) + (change > 0 ? " faster" : " slower");
}

std::string money_text(const SpecComparison& comparison) {
  const auto* a = std::get_if<CostEstimate>(&comparison.a.estimate.cost);
  const auto* b = std::get_if<CostEstimate>(&comparison.b.estimate.cost);
  if (a == nullptr || b == nullptr) return {};
  const double change = b->per_billion_tokens.value() - a->per_billion_tokens.value();
  if (change == 0) return "at the same price";
  return fmt::format("{} {} per billion tokens", dollars_text(Dollars(std::abs(change))),
                     change > 0 ? "dearer" : "cheaper");
}

}  // namespace

std::string summary_of(const SpecComparison& comparison, const std::vector<DifferingKey>& keys,
                       const std::vector<FigureRow>& rows) {
  if (std::ranges::none_of(rows, &FigureRow::differs)) {
    return keys.empty() ? "Nothing differs: the specs say the same."
                        : fmt::format("No number differs, though {} {}.", keys.size(),
                                      keys.size() == 1 ? "key does" : "keys do");
  }
  struct Clause {
    const char* name;
    const char* joint;
    std::string text;
  };
  std::string known;
  std::string unknown;
  for (const Clause& part :
       {Clause{"memory", "", memory_text(comparison)}, Clause{"time", "; ", time_text(comparison)},
        Clause{"price", ", ", money_text(comparison)}}) {
    if (part.text.empty()) {
      unknown += (unknown.empty() ? "" : ", ") + std::string(part.name);
    } else {
      known += (known.empty() ? "" : part.joint) + part.text;
    }
  }
  if (!unknown.empty()) known += (known.empty() ? "Not known: " : "; not known: ") + unknown;
  return known + ".";
}

Tone tone_of(const SpecComparison& comparison) {
  const MemoryAnswer* a = memory_of(comparison.a);
  const MemoryAnswer* b = memory_of(comparison.b);
  if (a == nullptr || b == nullptr) return Tone::uncertain;
  if (fits_no_more(comparison)) return Tone::bad;
  const bool fits_now = a->overall() == Verdict::does_not_fit && b->overall() == Verdict::fits;
  return fits_now ? Tone::good : Tone::strong;
}

}  // namespace memest
