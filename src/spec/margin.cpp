#include "memest/spec/margin.hpp"

#include <variant>

namespace memest {

const Margin& margin_of(const Margins& margins, const Recompute& recompute) {
  return std::holds_alternative<NoRecompute>(recompute) ? margins.kept : margins.recomputed;
}

}  // namespace memest
