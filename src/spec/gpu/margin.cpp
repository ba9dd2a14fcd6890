#include "memest/spec/gpu/margin.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "memest/diag/expect.hpp"

namespace memest {

Bytes share_rounded_up(Bytes whole, double share) {
  return Bytes(static_cast<std::int64_t>(std::ceil(whole.as_double() * share)));
}

double quantile(std::vector<double> values, double share) {
  expect(!values.empty(), "a quantile of nothing");
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  if (values[below] == values[above]) return values[below];  // both may be infinite
  return values[below] + (values[above] - values[below]) * (at - std::floor(at));
}

const Margin& margin_of(const Margins& margins, const Recompute& recompute) {
  return std::holds_alternative<NoRecompute>(recompute) ? margins.kept : margins.recomputed;
}

}  // namespace memest
