#include "report/fit/rung_text.hpp"

namespace memest {

std::string name_of(const Rung& rung, const FitLadder& ladder) {
  if (rung.techniques.empty()) return "as written";
  std::string name;
  for (const std::size_t technique : rung.techniques) {
    name += (name.empty() ? "" : " + ") + ladder.techniques[technique].name;
  }
  return name;
}

std::vector<std::string> sets_of(const Rung& rung, const FitLadder& ladder) {
  std::vector<std::string> sets;
  for (const std::size_t technique : rung.techniques) {
    const std::vector<std::string>& own = ladder.techniques[technique].sets;
    sets.insert(sets.end(), own.begin(), own.end());
  }
  return sets;
}

}  // namespace memest
