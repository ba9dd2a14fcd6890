#include "memest/spec/margin.hpp"

#include <cmath>
#include <cstdint>
#include <variant>

namespace memest {

Bytes share_rounded_up(Bytes whole, double share) {
  return Bytes(static_cast<std::int64_t>(std::ceil(whole.as_double() * share)));
}

const Margin& margin_of(const Margins& margins, const Recompute& recompute) {
  return std::holds_alternative<NoRecompute>(recompute) ? margins.kept : margins.recomputed;
}

}  // namespace memest
