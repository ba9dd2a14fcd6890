#include "memest/spec/recorded/varied_work.hpp"

namespace memest {

std::optional<std::string> line_at(const VariedLine& line, const VariedWork& work,
                                   const SizePoint& point) {
  std::string text = line.texts.front();
  for (std::size_t i = 0; i < line.formulas.size(); ++i) {
    const auto value = work.formulas[line.formulas[i]].evaluate_up(point);
    if (!value || *value < 0) return std::nullopt;
    text += std::to_string(*value) + line.texts[i + 1];
  }
  return text;
}

}  // namespace memest
